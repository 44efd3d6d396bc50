// The page as a notebook: each code cell can be edited and run in a kernel of the Jupyter server that `make live`
// starts. thebe-core speaks to the server and shows what comes back, widgets included.
const NO_MATHJAX = { mathjaxUrl: "", mathjaxConfig: "" }; // it would come from another host; the book writes MathML

// Starts a kernel and turns the page's cells live. Rejects with a sentence for the reader.
export const run = async ({ server: baseUrl, token }, notebookAddress) => {
  const [notebook] = await Promise.all([notebookAt(notebookAddress), loadThebe()]);
  const { api, module: thebe } = window.thebeCore;
  const places = [...document.querySelectorAll("div.cell")];
  const code = notebook.cells.filter((cell) => cell.cell_type === "code");
  if (code.length !== places.length)
    throw new Error(`The page shows ${places.length} cells and its notebook has ${code.length}: build the book again.`);

  const rendermime = thebe.makeRenderMimeRegistry(NO_MATHJAX);
  const config = api.makeConfiguration({ serverSettings: { baseUrl, token }, mathjaxOptions: NO_MATHJAX }, api.makeEvents());
  const server = api.connectToJupyter(config);
  await server.ready;
  // A name of its own for each visit: a kernel that somebody has worked in already would surprise the reader.
  const path = `${crypto.randomUUID()}.ipynb`;
  const session = await server.startNewSession(rendermime, { kernelName: "python3", path });
  await answer(session.kernel);
  // thebe-core would fetch a loader for other people's widgets from another host. ipywidgets' own are in it.
  session.manager._loader = { requested: true, ready: Promise.resolve(null) };
  rendermime.markdownParser = { render: (text) => rendered(text, session.kernel) };

  const book = api.setupNotebookFromIpynb({ ...notebook, cells: code }, config, rendermime);
  book.attachSession(session);
  const cells = book.cells.map((cell, i) => new Cell(cell, places[i], i + 1, session.kernel));
  new Live(session, cells, new Bar());
};

// Returns when the kernel has answered.
const answer = async (kernel) => {
  await kernel.info;
  const heard = kernel.requestExecute({ code: "", silent: true }).done.then(() => true, () => false);
  const silence = new Promise((resolve) => setTimeout(resolve, 60_000, false));
  if (await Promise.race([heard, silence])) return;
  throw new Error("Python was started and does not answer. Is the machine very busy? Press the button again.");
};

const notebookAt = async (address) => {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`The page's notebook is not at ${address}: build the book again.`);
  return answer.json();
};

const beside = (name) => new URL(name, import.meta.url).href;

const loadThebe = () => {
  for (const name of ["thebe-core.css", "live.css"]) {
    const style = Object.assign(document.createElement("link"), { rel: "stylesheet", href: beside(name) });
    document.head.append(style);
  }
  return new Promise((resolve, reject) => {
    const script = Object.assign(document.createElement("script"), { src: beside("thebe-core.min.js"), onload: resolve });
    script.onerror = () => reject(new Error(`${script.src} could not be loaded.`));
    document.head.append(script);
  });
};

const newButton = (text, label, onClick) => {
  const button = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  if (label !== text) button.setAttribute("aria-label", label);
  button.addEventListener("click", onClick);
  return button;
};

// What Python is doing, and the buttons for all cells, at the foot of the window.
class Bar {
  constructor() {
    this.place = document.createElement("section");
    this.place.className = "live-bar";
    this.place.setAttribute("aria-label", "Python");
    this.words = document.createElement("p");
    this.words.setAttribute("role", "status");
    this.place.append(this.words);
    this.place.tabIndex = -1;
    document.body.append(this.place);
    this.place.focus(); // the button that had the focus goes away
  }

  say(words) {
    this.words.textContent = words;
  }

  offer(text, call) {
    this.place.append(newButton(text, text, call));
  }
}

// All cells of a page and the kernel they share.
class Live {
  constructor(session, cells, bar) {
    Object.assign(this, { session, cells, bar, queue: Promise.resolve(), turn: 0 });
    cells.forEach((cell) => cell.offer(() => this.runTo(cell)));
    bar.offer("Run all", () => this.line(this.cells));
    bar.offer("Interrupt", () => session.kernel.interrupt().catch(() => this.lose()));
    bar.offer("Restart", () => this.restart().catch(() => this.lose()));
    session.kernel.statusChanged.connect((_, status) => this.told(status));
    session.kernel.connectionStatusChanged.connect((_, status) => this.told(status));
    addEventListener("beforeunload", (event) => {
      if (cells.some((cell) => cell.wasChanged)) event.preventDefault(); // the browser asks: nothing is saved
    });
    bar.say("Python is ready. Change a cell and run it, by its button or with Shift+Enter. Nothing is saved.");
  }

  // A cell needs what the cells above it define: those that have not run come first.
  runTo(cell) {
    const above = this.cells.slice(0, this.cells.indexOf(cell)).filter(({ state }) => state === "new");
    return this.line([...above, cell]);
  }

  // One cell after the other; an error ends all that waits, as in a notebook.
  line(cells) {
    const { turn } = this;
    cells.forEach((cell) => cell.show("waiting"));
    this.queue = this.queue.then(async () => {
      while (cells.length && turn === this.turn) {
        const [cell] = cells;
        cells = cells.slice(1);
        if (this.session.kernel.connectionStatus !== "connected") return this.lose();
        this.bar.say(`Cell ${cell.number} is running.`);
        const state = await cell.run();
        if (turn !== this.turn) return cell.forget();
        cell.show(state);
        this.bar.say(`Cell ${cell.number} ${cell.outcome}.`);
        if (state === "failed") return this.stopAt(cell);
      }
    });
    return this.queue;
  }

  stopAt(cell) {
    this.turn += 1;
    this.cells.filter(({ state }) => state === "waiting").forEach((rest) => rest.show("new"));
    cell.place.scrollIntoView({ block: "nearest" });
  }

  // What is run meanwhile waits for it.
  async restart() {
    if (this.restarts) return;
    this.end("Python is starting again.");
    this.restarts = true; // its connection goes, and comes back
    const started = this.session.restart().then(() => answer(this.session.kernel));
    this.queue = started.catch(() => {});
    await started.finally(() => (this.restarts = false));
    this.bar.say("Python has started again. What the cells show is from before.");
  }

  // What ran and what waits belonged to a kernel that is no more.
  end(words) {
    this.turn += 1;
    this.queue = Promise.resolve();
    this.cells.forEach((cell) => cell.show("new"));
    this.bar.say(words);
  }

  lose() {
    this.end("The server does not answer. Start it with make live, and open the address that it prints.");
  }

  told(status) {
    if (this.restarts) return;
    if (status === "dead" || status === "autorestarting") this.end("Python has died, and starts again when you run a cell.");
    if (status === "connecting" || status === "disconnected") this.lose();
    if (status === "connected") this.bar.say("The server answers again.");
  }
}

// A cell of the page: its code as an editor, a button, and what its last run gave.
// Its state: new (or changed), waiting, running, done, failed.
class Cell {
  constructor(cell, place, number, kernel) {
    Object.assign(this, { cell, place, number, kernel, editor: place.querySelector(".cell_input pre") });
    this.mayFail = (cell.metadata.tags ?? []).includes("raises-exception");
    place.classList.add("live");
    this.show("new");
  }

  show(state) {
    this.state = this.place.dataset.state = state;
  }

  // Makes the code editable and adds the button. A cell whose code the page hides runs when one below it does.
  offer(run) {
    if (!this.editor) return;
    const roles = { role: "textbox", "aria-multiline": true, "aria-label": `Code of cell ${this.number}`, spellcheck: false };
    for (const [name, value] of Object.entries(roles)) this.editor.setAttribute(name, value);
    makeEditable(this.editor);
    this.editor.addEventListener("keydown", (event) => this.onKey(event, run));
    this.editor.addEventListener("input", () => this.show("new"));
    this.editor.addEventListener("blur", () => this.tidy());
    this.original = this.coloured = this.source;
    const button = newButton(`${this.number} ▶`, `Run cell ${this.number}`, run);
    button.className = "run-cell";
    button.title = "Run this cell (Shift+Enter)";
    this.editor.parentElement.before(button);
  }

  onKey(event, run) {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    if (event.shiftKey || event.ctrlKey || event.metaKey) return run();
    const line = textBeforeCaret(this.editor).split("\n").at(-1);
    const deeper = line.trimEnd().endsWith(":") ? "    " : "";
    document.execCommand("insertText", false, `\n${line.match(/^ */)[0]}${deeper}`);
  }

  get source() {
    return this.editor ? textOf(this.editor).replace(/\n+$/, "") : this.cell.source;
  }

  get wasChanged() {
    return Boolean(this.editor) && this.source !== this.original;
  }

  // Runs the cell and returns the state it is then in; `outcome` says it in words.
  async run() {
    const { source } = this;
    this.show("running");
    this.takePlace();
    const reply = await this.cell.execute(source);
    const [error] = reply?.error ?? [];
    this.outcome = error ? (error.ename === "KeyboardInterrupt" ? "was interrupted" : "raised an error") : "has run";
    if (!reply || (error && !this.mayFail)) return "failed";
    return this.source === source ? "done" : "new"; // somebody wrote on meanwhile
  }

  // The first run takes the place of the output that the page came with.
  takePlace() {
    if (this.cell.isAttachedToDOM) return;
    let output = this.place.querySelector(".cell_output");
    if (!output) {
      output = Object.assign(document.createElement("div"), { className: "cell_output" });
      (this.place.querySelector("details") ?? this.place).append(output);
    }
    output.replaceChildren();
    this.cell.attachToDOM(output);
  }

  // What an ended run left behind.
  forget() {
    this.cell.clear();
    this.show("new");
  }

  // Browsers write some new lines as elements, which who copies the text does not see; and new code has no colours.
  async tidy() {
    this.editor.querySelectorAll("br").forEach((line) => line.replaceWith("\n"));
    const { source } = this;
    if (source === this.coloured) return;
    const html = await highlighted(source, this.kernel);
    if (!html || this.source !== source || document.activeElement === this.editor) return;
    this.editor.innerHTML = html;
    this.coloured = source;
  }
}

const makeEditable = (editor) => {
  try {
    editor.contentEditable = "plaintext-only"; // what is pasted loses its colours
  } catch {
    editor.setAttribute("aria-readonly", true); // a browser older than 2025: its cells run as they are
  }
};

// A piece of the page as text. Browsers write some new lines as elements; `innerText` would be empty where a fold hides it.
const textOf = (node) => {
  const copy = node.cloneNode(true);
  copy.querySelectorAll("br").forEach((line) => line.replaceWith("\n"));
  return copy.textContent;
};

const textBeforeCaret = (editor) => {
  const range = getSelection().getRangeAt(0).cloneRange();
  range.setStart(editor, 0);
  return textOf(range.cloneContents());
};

const escaped = (text) => text.replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);

// Code in the page's colours: the kernel has Pygments, which made them.
const highlighted = async (code, kernel) => {
  const html =
    "__import__('IPython').display.HTML(__import__('pygments').highlight(" +
    `${JSON.stringify(code)}, __import__('pygments.lexers').lexers.PythonLexer(stripnl=False), ` +
    "__import__('pygments.formatters').formatters.HtmlFormatter(nowrap=True)))";
  const future = kernel.requestExecute({ code: "", silent: true, user_expressions: { html } });
  const reply = await future.done.catch(() => null); // a kernel that went away colours nothing
  return reply?.content.user_expressions?.html?.data?.["text/html"]?.replace(/\n$/, "");
};

// Markdown that a cell shows: fenced Python, the only kind that the chapters make. Other text stays text.
const rendered = async (markdown, kernel) => {
  const pieces = markdown.split(/^```python\n([^]*?)^```$/m);
  const parts = pieces.map(async (piece, i) => {
    if (i % 2) return `<div class="highlight"><pre>${(await highlighted(piece, kernel)) ?? escaped(piece)}</pre></div>`;
    return piece.trim() && `<p>${escaped(piece)}</p>`;
  });
  return (await Promise.all(parts)).join("");
};
