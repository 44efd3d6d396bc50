// "Run this page": loads what turns its cells live, if there is a Jupyter server to run them; else says how to start one.
(() => {
  const button = document.querySelector(".run-page");
  const help = document.querySelector(".run-help");
  if (!button) return;
  button.hidden = false; // without this script it would do nothing

  // `make live` prints an address that names the server's port and token; they stay in this browser, not in the address.
  // Only a page of this machine talks to a server, and only to one of this machine: whoever makes up a link to a
  // published page must not bring a server of theirs, whose outputs would be part of the page.
  const KEY = "book:jupyter";
  const HOST = "127.0.0.1";
  const fragment = new URLSearchParams(location.hash.slice(1));
  const store = (call) => {
    try {
      return call(localStorage);
    } catch {
      return null; // a browser that keeps nothing: the address that was opened counts, and no other page knows it
    }
  };
  let known = store((kept) => kept.getItem(KEY)) ?? "";
  if (fragment.has("token")) {
    known = `${fragment.get("jupyter")} ${fragment.get("token")}`;
    if (location.hostname === HOST) store((kept) => kept.setItem(KEY, known));
    history.replaceState(null, "", location.pathname + location.search);
  }

  // The server, if one is known and answers.
  const findServer = async () => {
    const [, port, token] = known.match(/^(\d+) ([\w-]+)$/) ?? [];
    if (!port || location.hostname !== HOST) return null;
    const server = `http://${HOST}:${port}`;
    const answer = await fetch(`${server}/api/status`, { headers: { Authorization: `token ${token}` } }).catch(() => null);
    return answer?.ok ? { server, token } : null;
  };

  const say = (words) => {
    const why = help.querySelector(".run-why");
    why.textContent = words;
    why.hidden = !words;
    help.showModal();
  };

  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      const server = await findServer();
      if (!server) return say(known && "The server that this browser knew does not answer. Each make live has a new address.");
      const { run } = await import("./live.js");
      await run(server, button.dataset.notebook);
      button.hidden = true; // the page has a bar of its own now
    } catch (error) {
      say(error.message ?? String(error));
    } finally {
      button.disabled = false;
    }
  });
  // Escape closes a dialog, unless a script of the page thinks that it ends the marking of a search.
  help.addEventListener("keydown", (event) => event.stopPropagation());
  help.querySelector("button").addEventListener("click", () => help.close());
})();
