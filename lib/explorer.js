// Brings every explorer on the page to life: no kernel, no library, no request.
// The data holds, for each moving part and for the sentence, templates (text cut at its numbers), states (a template's
// number and the numbers that fill it) and for each frame the number of its state.
(() => {
  const HOLE = "\uE000"; // a character of nobody's, where a number goes

  // A template as nodes, with the places in them that change: attributes and texts, in the order of their numbers.
  const compile = (literals) => {
    const draft = document.createElement("template"); // not on the page: nobody draws a hole
    draft.innerHTML = `<svg><g>${literals.join(HOLE)}</g></svg>`;
    const group = draft.content.querySelector("g");
    const places = [];
    const note = (text, set) => {
      const pieces = text.split(HOLE);
      if (pieces.length > 1) places.push({ pieces, set });
    };
    const walk = (node) => {
      if (node.nodeType === Node.TEXT_NODE) note(node.data, (text) => (node.data = text));
      for (const { name, value } of node.attributes ?? []) note(value, (text) => node.setAttribute(name, text));
      node.childNodes.forEach(walk);
    };
    walk(group);
    return { nodes: [...group.childNodes], places };
  };

  const weave = (pieces, numbers) => pieces.reduce((text, piece, i) => text + numbers[i - 1] + piece);

  // Puts the states of one part into an element; only what changes is touched.
  const painter = (part, element) => {
    const compiled = part.templates.map(() => null);
    let template = -1;
    return (state) => {
      const [wanted, filling] = part.states[state];
      const numbers = filling.split(" ");
      const { nodes, places } = (compiled[wanted] ??= compile(part.templates[wanted]));
      let used = 0;
      for (const place of places) {
        const next = used + place.pieces.length - 1;
        const text = weave(place.pieces, numbers.slice(used, next));
        used = next;
        if (text !== place.text) place.set((place.text = text));
      }
      if (wanted !== template) element.replaceChildren(...nodes);
      template = wanted;
    };
  };

  const sentence = (part, state) => {
    const [template, filling] = part.states[state];
    return weave(part.templates[template], filling.split(" "));
  };

  const enliven = (figure) => {
    const { controls, parts, frame } = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const inputs = [...figure.querySelectorAll("input")];
    const outputs = [...figure.querySelectorAll("output")];
    const caption = figure.querySelector("figcaption span");
    const moving = parts.slice(0, -1); // the last part is the sentence
    const groups = [...figure.querySelector("svg").children].slice(-moving.length);
    const painters = moving.map((part, i) => painter(part, groups[i]));
    const shown = parts.map((part) => part.frames[frame]);
    const name = figure.id;
    let asked = frame, drawing = 0, saving = 0, playing = 0;

    const draw = () => {
      drawing = 0;
      parts.forEach((part, i) => {
        if (part.frames[asked] === shown[i]) return;
        shown[i] = part.frames[asked];
        if (painters[i]) painters[i](shown[i]);
        else caption.textContent = sentence(part, shown[i]);
      });
    };

    const setting = () => {
      asked = controls.reduce((sum, [, labels], i) => sum * labels.length + +inputs[i].value, 0);
      controls.forEach(([, labels], i) => {
        const label = labels[inputs[i].value];
        outputs[i].textContent = label;
        inputs[i].setAttribute("aria-valuetext", label);
      });
      drawing ||= requestAnimationFrame(draw);
      clearTimeout(saving);
      saving = setTimeout(save, 200);
    };

    const save = () => {
      const pairs = controls.map(([control, labels], i) => [control, labels[inputs[i].value]]);
      history.replaceState(null, "", `#${name}?${new URLSearchParams(pairs)}`);
    };

    const restore = () => {
      const [where, query] = location.hash.split("?");
      if (where !== `#${name}` || !query) return;
      if (playing) stop();
      const wanted = new URLSearchParams(query);
      controls.forEach(([control, labels], i) => {
        const index = labels.indexOf(wanted.get(control));
        if (index >= 0) inputs[i].value = index;
      });
      setting();
      const show = () => figure.scrollIntoView({ block: "center", behavior: "instant" });
      if (document.readyState === "complete") show();
      else addEventListener("load", show); // before that the page above may still grow
    };

    const button = figure.querySelector("button");
    const stop = () => {
      clearInterval(playing);
      playing = 0;
      caption.setAttribute("aria-live", "polite");
      button.textContent = "▶";
      button.setAttribute("aria-label", "Play");
    };
    const step = () => {
      if (+inputs[0].value === +inputs[0].max) return stop();
      inputs[0].value = +inputs[0].value + 1;
      setting();
    };
    button?.addEventListener("click", () => {
      if (playing) return stop();
      if (+inputs[0].value === +inputs[0].max) inputs[0].value = 0;
      caption.setAttribute("aria-live", "off"); // a screen reader could not keep up
      button.textContent = "❚❚";
      button.setAttribute("aria-label", "Pause");
      playing = setInterval(step, matchMedia("(prefers-reduced-motion: reduce)").matches ? 1000 : 80);
      step();
    });

    inputs.forEach((input) => input.addEventListener("input", () => { if (playing) stop(); setting(); }));
    addEventListener("hashchange", restore);
    figure.dataset.alive = "";
    restore();
  };

  document.querySelectorAll(".explorer:not([data-alive])").forEach(enliven);
})();
