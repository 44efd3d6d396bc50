// Brings every explorer on the page to life: no kernel, no library, no request.
// The data holds, for each moving part and for the sentence, templates (text cut at its numbers), states (a template's
// number and the numbers that fill it) and for each frame the number of its state.
(() => {
  const textOf = (part, frame) => {
    const [template, numbers] = part.states[part.frames[frame]];
    const fill = numbers.split(" ");
    return part.templates[template].map((literal, i, all) => (i < all.length - 1 ? literal + fill[i] : literal)).join("");
  };

  const enliven = (figure) => {
    const { controls, parts, frame } = JSON.parse(figure.querySelector('script[type="application/json"]').textContent);
    const inputs = [...figure.querySelectorAll("input")];
    const outputs = [...figure.querySelectorAll("output")];
    const caption = figure.querySelector("figcaption span");
    const groups = [...figure.querySelector("svg").children].slice(1 - parts.length);
    const shown = parts.map((part) => part.frames[frame]);
    const name = figure.id;
    let asked = frame, drawing = 0, saving = 0, playing = 0;

    const draw = () => {
      drawing = 0;
      parts.forEach((part, i) => {
        if (part.frames[asked] === shown[i]) return;
        shown[i] = part.frames[asked];
        if (groups[i]) groups[i].innerHTML = textOf(part, asked);
        else caption.textContent = textOf(part, asked);
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
