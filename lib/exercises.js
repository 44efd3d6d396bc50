// Brings every exercise on the page to life: no kernel, no library, no request. Reads and judges as lib/answers.py does;
// tests/answer_cases.py holds both to one table. What was answered stays in this browser's own storage.
(() => {
  const STORE = "where-a-token-stands/";
  const BLANK = "[ \\t\\r\\n\\u00a0\\u2009\\u202f]";
  const SAME = { "−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "π": "pi" };
  const PLAIN = "(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)";
  const GROUPED = "[1-9][0-9]{0,2}(?:,[0-9]{3}|[ _'][0-9]{3})+(?![0-9])(?:\\.[0-9]*)?";
  const token = (number) => new RegExp(` *(?:(${number}(?:[eE][+-]?[0-9]+)?)|(\\*\\*|[-+*/^()]|pi|cos|sin|sqrt))`, "y");
  const TOKEN = token(PLAIN), TOKEN_GROUPED = token(`(?:${GROUPED}|${PLAIN})`);
  const FUNCTIONS = { cos: Math.cos, sin: Math.sin, sqrt: Math.sqrt };
  const BRACKETS = { "(": ")", "[": "]", "{": "}" };

  class Unreadable extends Error {} // its message is the reason's key

  const finite = (value) => {
    if (!Number.isFinite(value)) throw new Unreadable("value");
    return value;
  };

  // ---- Reading ----

  const stripped = (text) => text.replace(/^ +| +$/g, "");

  const FAR_TOO_LONG = 10000; // of which not even the blanks are looked at

  const tidy = (text, rules) => {
    if (text.length > 2 * rules.longest || [...text].length > rules.longest) throw new Unreadable("long");
    for (const [sign, plain] of Object.entries(SAME)) text = text.replaceAll(sign, plain);
    text = stripped(text.replace(RegExp(`${BLANK}+`, "g"), " ")).replace(/(?<=[\])}])\.$/, "");
    return stripped(text.replace(/^.*[=≈~] */s, "")); // 6000 / 4 = 1500
  };

  const tokens = (text, pattern) => {
    const found = [];
    for (pattern.lastIndex = 0; pattern.lastIndex < text.length; ) {
      const match = pattern.exec(text);
      if (!match) throw new Unreadable("text");
      const [, number, sign] = match;
      if (number !== undefined) found.push(finite(Number(number.replace(/[,_' ]/g, ""))));
      else found.push(sign === "pi" ? Math.PI : sign);
    }
    return found;
  };

  // +, -, *, /, ^ (or **), brackets, numbers and pi, with their usual order.
  const evaluate = (text, pattern, rules) => {
    if (/(?<![0-9.])0[xXbBoO][0-9a-fA-F]/.test(text)) throw new Unreadable("text"); // sixteen, not 0 times 10
    const rest = tokens(text.replace(/(?<=[0-9)]) *[xX] *(?=[0-9(.])/g, "*"), pattern);
    const next = (...signs) => (signs.includes(rest[0]) ? rest.shift() : null);
    const sum = (depth) => {
      let value = product(depth);
      for (let sign; (sign = next("+", "-")); ) {
        const other = product(depth);
        value = finite(sign === "+" ? value + other : value - other);
      }
      return value;
    };
    const product = (depth) => {
      let value = signed(depth);
      for (;;) {
        const sign = next("*", "/");
        if (sign) {
          const other = signed(depth);
          value = finite(sign === "*" ? value * other : value / other);
        } else if (rest[0] === Math.PI || rest[0] in FUNCTIONS) value = finite(value * power(depth)); // 2 pi, 2 cos(1)
        else return value;
      }
    };
    const signed = (depth) => {
      if (depth > rules.deepest) throw new Unreadable("text");
      const sign = next("+", "-");
      if (!sign) return power(depth);
      const value = signed(depth + 1);
      return sign === "-" ? -value : value;
    };
    const power = (depth) => {
      const value = atom(depth);
      return next("^", "**") ? finite(value ** signed(depth + 1)) : value;
    };
    const atom = (depth) => {
      if (depth > rules.deepest) throw new Unreadable("text");
      const name = next(...Object.keys(FUNCTIONS));
      if (name) return finite(FUNCTIONS[name](atom(depth + 1)));
      if (next("(")) {
        const value = sum(depth + 1);
        if (!next(")")) throw new Unreadable("text");
        return value;
      }
      if (typeof rest[0] !== "number") throw new Unreadable("text");
      return rest.shift();
    };
    const value = sum(0);
    if (rest.length) throw new Unreadable("text");
    return value;
  };

  const withoutUnit = (text, unit, rules) => {
    if (unit === "rad") text = text.replace(/ *(?:\/|per |a |each |for each |for every ) *(?:position|token)$/i, "");
    const after = /^(?<rest>.*?) *(?<word>[A-Za-z]+|°)\.?$/s, before = /^(?<word>[A-Za-z]+) +(?<rest>.*)$/s;
    for (const pattern of [after, before]) { // 15 positions, position 15
      const { word = "", rest } = pattern.exec(text)?.groups ?? {};
      if (unit && rules.units[unit].includes(word.toLowerCase())) return rest;
      if (Object.values(rules.units).some((words) => words.includes(word.toLowerCase()))) throw new Unreadable("unit");
    }
    return text;
  };

  const unwrapped = (text) => {
    while (text && BRACKETS[text[0]] && text.at(-1) === BRACKETS[text[0]]) {
      let depth = 0;
      for (let at = 0; at < text.length; at++) {
        if (text[at] in BRACKETS) depth++;
        if (Object.values(BRACKETS).includes(text[at])) depth--;
        if (depth === 0 && at < text.length - 1) return text; // (1 + 2), (3 + 4)
      }
      text = stripped(text.slice(1, -1));
    }
    return text;
  };

  const items = (text, separator) => {
    const comma = [/ *; */, / *(?:, *(?:and +)?| and ) */].find((sign) => sign.test(text));
    if (!comma) return text.split(separator);
    const found = text.split(comma);
    return found.at(-1) === "" ? found.slice(0, -1) : found; // (5,) is a list of one
  };

  const readList = (text, { unit, kind }, rules) => {
    const bare = withoutUnit(tidy(text, rules), unit, rules);
    const inside = unwrapped(bare.replace(/^(?:torch\.)?(?:size|tensor|shape) *(?=[[(])/i, ""));
    return items(inside, kind === "shape" ? / *[xX*] *| by | +/ : / +/)
      .map((item) => evaluate(withoutUnit(item, unit, rules), TOKEN, rules));
  };

  const READ = {
    number: (text, answer, rules) => {
      const bare = withoutUnit(tidy(text, rules), answer.unit, rules);
      return /^(?:none|zero|nothing)$/i.test(bare) ? 0 : evaluate(bare, TOKEN_GROUPED, rules);
    },
    numbers: readList,
    shape: (text, answer, rules) => {
      const sizes = readList(text, answer, rules);
      if (sizes.some((size) => size < 0 || !Number.isInteger(size))) throw new Unreadable("text");
      return sizes;
    },
  };

  // ---- Judging: [outcome, what is said as HTML] ----

  const close = (number, wanted, tolerance) => Math.abs(number - wanted) <= tolerance * Math.abs(wanted);
  const list = (value) => (Array.isArray(value) ? value : [value]);
  const alike = (found, wanted, same) =>
    list(found).length === list(wanted).length && list(found).every((number, i) => same(number, list(wanted)[i]));

  const judgeText = (text, answer, rules) => {
    if (text.length <= FAR_TOO_LONG && RegExp(`^${BLANK}*$`).test(text)) return ["not attempted", rules.nothing.written];
    let found;
    try {
      found = READ[answer.kind](text, answer, rules);
    } catch (problem) {
      if (!(problem instanceof Unreadable)) throw problem;
      return ["could not be read", `${rules.problems[problem.message]} ${answer.wanted}`.trimStart()];
    }
    const exactly = (number, value) => close(number, value, answer.tolerance);
    const recognised = (number, mistake) => {
      if (exactly(number, mistake)) return true;
      if (Number.isInteger(mistake) || number === 0) return false;
      return [2, 3].some((digits) => number === Number(mistake.toFixed(digits))) || close(number, mistake, rules.rounded);
    };
    if (alike(found, answer.value, exactly)) return ["right", answer.right];
    const known = answer.mistakes.find(([mistake]) => alike(found, mistake, recognised));
    return ["not right", known ? known[1] : complaint(found, answer)];
  };

  const isRounded = (number, value) =>
    !Number.isInteger(value) && [1, 2, 3].some((digits) => number === Number(value.toPrecision(digits)));

  const complaint = (found, answer) => {
    const { value, otherwise } = answer;
    if (answer.kind === "number") return isRounded(found, value) ? answer.coarse : otherwise;
    if (found.length === 1) return `${answer.single} ${otherwise}`;
    if (found.length !== value.length) return `${answer.counted.replace("{}", found.length)} ${otherwise}`;
    if (found.every((number, i) => number === value[i] || isRounded(number, value[i]))) return answer.coarse;
    const first = found.findIndex((number, i) => !close(number, value[i], answer.tolerance));
    return `${answer.located.replace("{}", first + 1)} ${otherwise}`;
  };

  const judgeChoices = (ticked, answer, rules) => {
    if (!ticked.length) return ["not attempted", rules.nothing.chosen];
    const added = answer.options.filter((option) => ticked.includes(option) && !answer.value.includes(option));
    const missing = answer.options.filter((option) => !ticked.includes(option) && answer.value.includes(option));
    const wrong = [...added, ...missing];
    if (!wrong.length) return ["right", answer.right];
    const more = wrong.length > 1 ? rules.moreWrong.replace("{}", wrong.length) : "";
    return ["not right", answer.mistakes[wrong[0]] + more];
  };

  const judgeChoice = ([option], answer, rules) => {
    if (option === undefined) return ["not attempted", rules.nothing.chosen];
    return option === answer.value ? ["right", answer.right] : ["not right", answer.mistakes[option]];
  };

  const JUDGE = { number: judgeText, numbers: judgeText, shape: judgeText, choice: judgeChoice, choices: judgeChoices };

  // ---- Memory: a browser may refuse it, and then nothing is kept ----

  const remembered = (name) => {
    try {
      return JSON.parse(localStorage.getItem(STORE + name)) ?? {};
    } catch {
      return {};
    }
  };
  const remember = (name, memory) => {
    try {
      localStorage.removeItem(STORE + name); // so that nothing old stays if there is no room
      if (memory) localStorage.setItem(STORE + name, JSON.stringify(memory));
    } catch { /* nothing is kept */ }
    document.dispatchEvent(new Event("answered"));
  };

  // ---- An exercise's form ----

  const enliven = (form) => {
    const { name, answers, rules, labels } = JSON.parse(form.querySelector('script[type="application/json"]').textContent);
    const parts = [...form.querySelectorAll(".part")].map((element, i) => {
      const says = element.querySelector(".says"), inputs = [...element.querySelectorAll("input")];
      const answer = answers[i], isText = inputs[0].type === "text";
      return {
        says, inputs, answer,
        get given() {
          return isText ? inputs[0].value : inputs.filter((input) => input.checked).map((input) => input.value);
        },
        set given(value) {
          if (isText) inputs[0].value = typeof value === "string" ? value : "";
          else inputs.forEach((input) => (input.checked = list(value).includes(input.value)));
        },
        show(outcome, feedback) {
          says.dataset.outcome = outcome ?? "";
          says.innerHTML = outcome ? `<strong>${labels[outcome]}</strong> ${feedback}` : "";
          for (const input of inputs) {
            if (outcome === "not right" || outcome === "could not be read") input.setAttribute("aria-invalid", "true");
            else input.removeAttribute("aria-invalid");
          }
        },
      };
    });

    const clear = () => parts.forEach((part) => { part.given = ""; part.show(); });
    const check = () => {
      const verdicts = parts.map((part) => JUDGE[part.answer.kind](part.given, part.answer, rules));
      parts.forEach((part, i) => part.show(...verdicts[i]));
      const outcomes = verdicts.map(([outcome]) => outcome);
      const begun = outcomes.some((outcome) => outcome !== "not attempted");
      remember(name, begun && { given: parts.map((part) => part.given), outcomes });
    };
    const checkAnew = () => {
      parts.forEach((part) => part.show()); // emptied first, so that the same words are announced again
      requestAnimationFrame(check);
    };
    const [checkButton, clearButton] = form.querySelectorAll("button");
    checkButton.addEventListener("click", checkAnew);
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.isComposing || event.target.tagName !== "INPUT") return;
      event.preventDefault();
      checkAnew();
    });
    clearButton.addEventListener("click", () => {
      clear();
      remember(name, null);
      parts[0].inputs[0].focus();
    });
    document.addEventListener("forgotten", clear);
    addEventListener("storage", ({ key, newValue }) => { // forgotten in another tab
      if (!newValue && (key === null || key === STORE + name)) clear();
    });
    // What was said no longer fits an answer that is being changed.
    parts.forEach((part) => part.inputs.forEach((input) => input.addEventListener("input", () => part.show())));

    const { given } = remembered(name);
    if (Array.isArray(given) && given.length === parts.length) {
      parts.forEach((part, i) => (part.given = given[i]));
      check();
    }
    // Announced from now on: what was restored is no news.
    parts.forEach((part) => part.says.setAttribute("aria-live", "polite"));
    form.dataset.alive = "";
  };

  // ---- The summary of all exercises ----

  const summarise = (section) => {
    const rows = [...section.querySelectorAll("li[data-name]")], total = section.querySelector(".total");
    const show = () => {
      let right = 0;
      for (const row of rows) {
        const kept = remembered(row.dataset.name).outcomes;
        // An exercise that has other questions today is to be answered again.
        const outcomes = Array.isArray(kept) && kept.length === +row.dataset.answers ? kept : [];
        const good = outcomes.filter((outcome) => outcome === "right").length;
        const done = outcomes.length > 0 && good === outcomes.length;
        right += done;
        row.dataset.outcome = done ? "right" : outcomes.length ? "begun" : "";
        row.querySelector(".state").textContent =
          done ? "right" : outcomes.length ? `${good} of ${outcomes.length} right` : "not answered yet";
      }
      total.textContent = `${right} of ${rows.length} exercises are right.`;
    };
    section.querySelector("button").addEventListener("click", () => {
      if (!confirm(`Forget what you answered in all ${rows.length} exercises?`)) return;
      rows.forEach((row) => remember(row.dataset.name, null));
      document.dispatchEvent(new Event("forgotten"));
    });
    document.addEventListener("answered", show);
    addEventListener("storage", show); // answered in another tab
    section.dataset.alive = "";
    show();
  };

  // A link to a solution leads to folded code: unfold it.
  const unfold = () => {
    const target = location.hash.endsWith("-solution") && document.getElementById(location.hash.slice(1));
    target?.querySelector?.("details")?.setAttribute("open", "");
  };
  addEventListener("hashchange", unfold);
  addEventListener("DOMContentLoaded", unfold);

  document.querySelectorAll(".answers[role=form]:not([data-alive])").forEach(enliven);
  document.querySelectorAll(".progress-of-answers:not([data-alive])").forEach(summarise);
})();
