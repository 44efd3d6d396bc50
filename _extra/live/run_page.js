// "Run this page": loads what turns its cells live, if there is a Jupyter server to run them; else says how to start one.
(() => {
  const button = document.querySelector(".run-page");
  const help = document.querySelector(".run-help");
  if (!button) return;
  button.hidden = false; // without this script it would do nothing

  // `make live` prints an address that names the server and its token; they stay in this browser, not in the address.
  const KEY = "book:jupyter";
  const fragment = new URLSearchParams(location.hash.slice(1));
  if (fragment.has("token")) {
    localStorage.setItem(KEY, JSON.stringify({ server: fragment.get("server"), token: fragment.get("token") }));
    history.replaceState(null, "", location.pathname + location.search);
  }

  // The server, if one is known and answers.
  const findServer = async () => {
    const known = JSON.parse(localStorage.getItem(KEY) ?? "null");
    if (!known) return null;
    const answer = await fetch(`${known.server}/api/status?token=${known.token}`).catch(() => null);
    return answer?.ok ? known : null;
  };

  const say = (words) => {
    help.querySelector(".run-why").textContent = words;
    help.showModal();
  };

  button.addEventListener("click", async () => {
    button.disabled = true;
    const server = await findServer();
    try {
      if (!server) return say("No Jupyter server answers yet.");
      const { run } = await import("./live.js");
      await run(server, button.dataset.notebook);
      button.hidden = true; // the page has a bar of its own now
    } catch (error) {
      say(error.message ?? String(error));
    } finally {
      button.disabled = false;
    }
  });
  help.querySelector("button").addEventListener("click", () => help.close());
})();
