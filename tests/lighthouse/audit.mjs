// Audits pages in one browser: an address a line comes in, a line of JSON goes out, until there are no more.
// CHROME_PATH says where the browser is; the arguments are its options.
import { createInterface } from "node:readline";

import { launch } from "chrome-launcher";
import lighthouse from "lighthouse";

const CATEGORIES = ["performance", "accessibility", "best-practices", "seo"];

async function audit(address, port) {
  const settings = { port, logLevel: "error", output: "json", onlyCategories: CATEGORIES };
  // The pages ask for nothing once they are loaded: half a second of quiet, of which one is usual, says so too.
  const quiet = { pauseAfterFcpMs: 500, pauseAfterLoadMs: 500, networkQuietThresholdMs: 500, cpuQuietThresholdMs: 500 };
  // Pictures of the page and its way back from the next one take a third of the time, and count for no score.
  const { lhr } = await lighthouse(address, { ...settings, ...quiet, disableFullPageScreenshot: true, skipAudits: ["bf-cache"] });
  if (lhr.runtimeError) throw new Error(lhr.runtimeError.message);
  const categories = Object.values(lhr.categories);
  return Object.fromEntries(categories.map((category) => [category.id, result(category, lhr.audits)]));
}

function result(category, audits) {
  const failing = category.auditRefs
    .map(({ id }) => audits[id])
    .filter((found) => found && found.score !== null && found.score < 0.9)
    .map((found) => (found.displayValue ? `${found.id} (${found.displayValue})` : found.id));
  return { score: Math.round(100 * category.score), failing };
}

const browser = await launch({ chromeFlags: process.argv.slice(2) });
try {
  for await (const address of createInterface({ input: process.stdin })) {
    const answer = await audit(address, browser.port).catch((error) => ({ error: error.message }));
    console.log(JSON.stringify(answer));
  }
} finally {
  browser.kill();
}
process.exit(); // what Lighthouse still waits for would keep it for seconds
