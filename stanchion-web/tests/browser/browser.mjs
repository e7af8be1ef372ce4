// Looks at a running page with headless Chromium and checks what can be checked from outside.
//
//   node browser.mjs URL [--token T] [--shots DIR] [--see NAME] [--queue NAME] [--running NAME] [--free NAME] [--gone NAME]
//     [--search NAME] [--frames S]
//
// Always: the page connects, names are text, the keys move in the list, axe finds nothing serious, nothing is asked from elsewhere,
// nothing is logged as an error. With looks that are made up (states.mjs): the order, the filter and
// the groups, the place of the reader after a refusal, the page while the store is away, and the
// first screen of 390 pixels.
// --see NAME       a row of that name appears
// --queue NAME     somebody waits for that name, moves up when another holder comes, and somebody joins
// --running NAME   the lease bar of that name runs down
// --gone NAME      a row of that name goes away
// --free NAME      a lost answer is not told as a no, and then the first hold of that name is freed through the page, with the token
// --search NAME    a name that is not among those shown is found in the whole store
// --frames S       prints the frame times of S seconds, beside those of an empty page
// --shots DIR      keeps screenshots: wide, light and dark, 360 pixels wide, and of the made-up states
//
// The example `busy` is such a page; its names are in examples/busy.rs. Run this script in a folder where `npm install puppeteer-core axe-core` was run; CHROMIUM names the browser.

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";

import { checkStates } from "./states.mjs";

const require = createRequire(join(process.cwd(), "here.js"));
const puppeteer = require("puppeteer-core");
const text = { type: "string" };
const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    token: text, shots: text, see: text, queue: text, running: text, gone: text, free: text, search: text, frames: text,
  },
});
const url = positionals[0];
const origin = new URL(url).origin;
const WAIT_MS = 20_000;
let passed = 0;
let failed = 0;

async function check(what, run) {
  try {
    const said = await run();
    passed += 1;
    console.log(`ok    ${what}${said ? `: ${said}` : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`FAIL  ${what}: ${error.message}`);
  }
}

function demand(holds, otherwise) {
  if (!holds) throw new Error(otherwise);
}

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-dev-shm-usage"],
});
const page = await browser.newPage();
const asked = new Set();
const errors = [];
// The answer to a freeing that does not get to the server.
let inPlace = null;
page.on("request", (request) => asked.add(request.url()));
page.on("pageerror", (error) => errors.push(String(error)));
page.on("dialog", (dialog) => {
  errors.push(`a dialog of the browser: ${dialog.message()}`);
  dialog.dismiss();
});
page.on("console", (message) => {
  // A refused token is what --token begins with, and lost answers are what --free does.
  const status = /status of (\d+)/.exec(message.text())?.[1];
  const expected = (status === "401" && flags.token) || (["403", "502", "503", "504"].includes(status) && flags.free);
  if (message.type() === "error" && !expected) errors.push(message.text());
});

const until = (test, ...values) => page.waitForFunction(test, { timeout: WAIT_MS, polling: 100 }, ...values);
const look = (light, tab = page) => tab.emulateMediaFeatures([{ name: "prefers-color-scheme", value: light ? "light" : "dark" }]);

// The row of a name, if it is on the page.
await page.evaluateOnNewDocument(() => {
  window.rowNamed = (name) => [...document.querySelectorAll("#rows > li")].find((row) => row.querySelector(".name").textContent === name);
});

async function axe(tab = page) {
  const found = [];
  for (const light of [true, false]) {
    await look(light, tab);
    const { violations } = await tab.evaluate(() => window.axe.run());
    for (const { id, impact, nodes } of violations) found.push(`${id} (${impact}, ${nodes.length}: ${nodes[0].target})`);
  }
  const bad = found.filter((text) => /\((serious|critical)/.test(text));
  demand(bad.length === 0, bad.join("; "));
  return found.length === 0 ? "no finding" : `none serious; ${found.join("; ")}`;
}

async function running(name) {
  await until((name) => window.rowNamed(name)?.querySelector(".lease > i"), name);
  await page.evaluate((name) => window.rowNamed(name).scrollIntoView({ block: "center" }), name);
  const sizes = await page.evaluate(async (name) => {
    const sizes = [];
    for (let i = 0; i < 10; i += 1) {
      const bar = window.rowNamed(name)?.querySelector(".lease");
      if (bar) sizes.push(bar.firstElementChild.getBoundingClientRect().width / bar.getBoundingClientRect().width);
      await new Promise((done) => setTimeout(done, 200));
    }
    return sizes;
  }, name);
  // A lease that is renewed makes the bar jump up: falling is what most of the steps do.
  const falls = sizes.filter((size, i) => i > 0 && size < sizes[i - 1]).length;
  demand(falls >= 5, `its widths were ${sizes.map((size) => size.toFixed(3)).join(" ")}`);
  return `${sizes[0].toFixed(3)} to ${sizes.at(-1).toFixed(3)} of the whole`;
}

// The labels of the holders of a name, and the number of those who wait, each time that one of them changes.
async function queue(name) {
  await until((name) => window.rowNamed(name), name);
  const seen = await page.evaluate(async (name) => {
    const seen = [];
    for (const end = performance.now() + 20_000; performance.now() < end && seen.length < 7; ) {
      const row = window.rowNamed(name);
      const said = row ? [row.querySelector(".who").textContent, parseInt(row.querySelector(".waiters").textContent || "0", 10)] : null;
      if (said && said.join() !== seen.at(-1)?.join()) seen.push(said);
      await new Promise((done) => setTimeout(done, 50));
    }
    return seen;
  }, name);
  const steps = seen.slice(1).map(([who, waiting], i) => ({ isOther: who !== seen[i][0], more: waiting - seen[i][1] }));
  const said = seen.map(([who, waiting]) => `${who} + ${waiting}`).join(", ");
  demand(steps.some(({ isOther, more }) => isOther && more < 0), `nobody moved up: ${said}`);
  demand(steps.some(({ more }) => more > 0), `nobody joined: ${said}`);
  return said;
}

// What names look like does not matter: no element comes from one, and what turns text around is written out.
async function names() {
  const wrong = await page.evaluate(() => {
    const allowed = new Set(["LI", "DIV", "BUTTON", "SPAN", "I", "DL", "DT", "DD", "H3", "P", "UL"]);
    const strange = [...document.querySelectorAll("#rows *")].filter((node) => !allowed.has(node.tagName)).map((node) => node.tagName);
    const turned = /[\p{Cc}\p{Cf}]/u.test(document.getElementById("rows").textContent.replace(/\s/g, " "));
    return [...strange, ...(turned ? ["a control character"] : [])];
  });
  demand(wrong.length === 0, wrong.join(" "));
  return page.evaluate(() => [...document.querySelectorAll("#rows .name")].map((node) => node.textContent).filter((name) => /[<\\]/.test(name)).join("  "));
}

async function keys() {
  const focused = () => page.evaluate(() => document.activeElement.id || document.activeElement.textContent);
  await page.keyboard.press("/");
  demand((await focused()) === "query", "/ does not lead to the search");
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.querySelector("#rows .name[tabindex='0']").focus());
  await page.keyboard.press("Home");
  const first = await focused();
  await page.keyboard.press("ArrowDown");
  const second = await focused();
  await page.keyboard.press("Enter");
  await until(() => document.activeElement.getAttribute("aria-expanded") === "true");
  await page.keyboard.press("Escape");
  await until(() => document.activeElement.getAttribute("aria-expanded") === "false");
  await page.keyboard.press("ArrowUp");
  demand((await focused()) === first, `not back at ${first}`);
  demand(second !== first, "there is one name only");
  await page.evaluate(() => document.activeElement.blur());
}

async function search(name) {
  await until(() => document.getElementById("more-text").textContent.includes("more than"));
  demand(!(await page.evaluate((name) => Boolean(window.rowNamed(name)), name)), "it is shown already");
  await page.type("#query", name);
  await page.click("#whole");
  await until((name) => window.rowNamed(name), name);
  const said = await page.$eval("#more-text", (node) => node.textContent);
  await page.click("#all");
  await until(() => document.body.classList.contains("connected") && document.getElementById("all").hidden);
  await page.focus("#query");
  await page.keyboard.press("Escape");
  return said;
}

// Types a token into the form; first one with a character that does not show and that no request can carry.
async function giveToken() {
  demand(flags.token, "it needs a token");
  await page.type("#token", "a\u200bb");
  await page.keyboard.press("Enter");
  const [why, isGone] = await page.evaluate(() => [document.getElementById("token-why").textContent, document.getElementById("token-form").hidden]);
  demand(!isGone && why.includes("\\u{200b}"), `of a token that cannot be sent the page says: ${why}`);
  await page.type("#token", flags.token);
  await page.keyboard.press("Enter");
}

// Frees the first hold of a name, and returns what the page says of it.
async function press(name) {
  await until((name) => window.rowNamed(name), name);
  await page.evaluate((name) => {
    const button = window.rowNamed(name).querySelector(".name");
    if (button.getAttribute("aria-expanded") === "false") button.click();
  }, name);
  await until((name) => window.rowNamed(name)?.querySelector(".details .free:not([hidden])"), name);
  await page.evaluate((name) => window.rowNamed(name).querySelector(".details .free").click(), name);
  await until(() => document.activeElement.id === "ask-no");
  await page.click("#ask-yes");
  await until(() => document.getElementById("result").textContent !== "");
  return page.$eval("#result", (node) => node.textContent);
}

async function lostAnswers(name) {
  const json = (status, body) => ({ status, contentType: "application/json", body: JSON.stringify(body) });
  const answer = (request) => {
    if (request.url().endsWith("/unlock")) request.respond(inPlace);
    else request.continue();
  };
  await page.setRequestInterception(true);
  page.on("request", answer);
  try {
    for (const [given, begin] of [
      [json(502, { error: "outcome unknown", kind: "unknown" }), "Not known whether"],
      [{ status: 504, contentType: "text/html", body: "<h1>Gateway Timeout</h1>" }, "Not known whether"],
      [json(502, { error: "upstream" }), "Not known whether"],
      [{ status: 200, contentType: "text/html", body: "<h1>Log in</h1>" }, "Not known whether"],
      [json(503, { error: "store unavailable", kind: "unavailable" }), "Not freed"],
      [json(403, { error: "no", kind: null }), "Not freed"],
    ]) {
      inPlace = given;
      const said = await press(name);
      demand(said.startsWith(begin), `to ${given.status} ${given.body} the page says: ${said}`);
    }
  } finally {
    page.off("request", answer);
    await page.setRequestInterception(false);
    inPlace = null;
  }
}

async function free(name) {
  let said = await press(name);
  if (await page.evaluate(() => !document.getElementById("token-form").hidden)) {
    await giveToken();
    said = await press(name);
  }
  demand(said.startsWith("Freed"), said);
  return said;
}

async function frames(tab, seconds) {
  await tab.bringToFront();
  const times = await tab.evaluate(
    (end) =>
      new Promise((done) => {
        const times = [];
        let last = performance.now();
        const start = last;
        requestAnimationFrame(function next(now) {
          times.push(now - last);
          last = now;
          if (now - start < end) requestAnimationFrame(next);
          else done(times.slice(1));
        });
      }),
    seconds * 1000,
  );
  times.sort((a, b) => a - b);
  const at = (part) => times[Math.min(times.length - 1, Math.floor(times.length * part))].toFixed(1);
  return `${times.length} frames, p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, max ${at(1)} ms`;
}

async function shots(folder) {
  for (const [name, width, light] of [["light", 1280, true], ["dark", 1280, false], ["narrow", 360, true]]) {
    await page.setViewport({ width, height: 900 });
    await look(light);
    await page.evaluate(() => scrollTo(0, 0));
    await new Promise((done) => setTimeout(done, 500));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth);
    demand(wide <= width, `the page is ${wide} pixels wide in a window of ${width}`);
    await page.screenshot({ path: join(resolve(folder), `${name}.png`) });
  }
}

await page.setViewport({ width: 1280, height: 900 });
await page.goto(url);
await check("connects", async () => {
  await until(() => document.body.classList.contains("connected") || !document.getElementById("token-form").hidden);
  if (!(await page.evaluate(() => document.body.classList.contains("connected")))) {
    await giveToken();
  }
  await until(() => document.body.classList.contains("connected"));
});
if (flags.see) await check(`${flags.see} appears`, async () => void (await until((name) => window.rowNamed(name), flags.see)));
await check("names are text", names);
await check("keys", keys);
if (flags.queue) await check(`somebody joins the queue of ${flags.queue} and moves up`, () => queue(flags.queue));
if (flags.running) await check(`the bar of ${flags.running} runs down`, () => running(flags.running));
if (flags.free) await check("a lost answer is no no", () => lostAnswers(flags.free));
if (flags.free) await check(`${flags.free} is freed`, () => free(flags.free));
if (flags.gone) await check(`${flags.gone} goes away`, async () => void (await until((name) => !window.rowNamed(name), flags.gone)));
if (flags.search) await check(`${flags.search} is found in the whole store`, () => search(flags.search));
if (flags.shots) await check("screenshots", () => shots(flags.shots));
if (flags.frames) {
  const blank = await browser.newPage();
  console.log(`empty page: ${await frames(blank, 5)}`);
  await blank.close();
  console.log(`this page:  ${await frames(page, Number(flags.frames))}`);
}
await checkStates({ browser, url, check, demand, axe, source: require("axe-core").source, shots: flags.shots });
await page.bringToFront();
await page.evaluate(require("axe-core").source).catch(() => page.addScriptTag({ content: require("axe-core").source }));
await check("axe", axe);
await check("asks nothing from elsewhere", () => {
  const strange = [...asked].filter((address) => new URL(address).origin !== origin);
  demand(strange.length === 0, strange.join(" "));
  return [...asked].join(" ");
});
await check("logs no error", () => demand(errors.length === 0, errors.join("; ")));
await browser.close();
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed > 0 ? 1 : 0;
