// The page in states that a running store is not in by itself: the files are those of the server,
// the looks are made up here.

import { join, resolve } from "node:path";

const WAIT_MS = 20_000;
const WIDE = { width: 1280, height: 900 };
const NARROW = { width: 390, height: 844 };

// Runs before the page's own script: `send` gives it a look, `answers` has the statuses of the
// server's answers.
function pretend() {
  const encoder = new TextEncoder();
  let stream = null;
  window.answers = { events: 200, unlock: 200, freed: true };
  const json = (status, body) => new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
  window.fetch = async (address) => {
    const { events, unlock, freed } = window.answers;
    if (String(address).endsWith("/unlock")) return json(unlock, unlock === 200 ? { freed } : { error: "no", kind: null });
    if (events !== 200) return json(events, { error: "no", kind: null });
    const body = new ReadableStream({ start: (controller) => (stream = controller) });
    return new Response(body, { headers: { "Content-Type": "text/event-stream" } });
  };
  window.isOpen = () => stream !== null;
  window.breakOff = () => {
    stream.error(new Error("broken"));
    stream = null;
  };
  window.send = (look) => {
    const now = performance.now() + 1_000_000;
    const set = (look.set ?? []).map(({ name, kind = "mutex", ends = null, weight = null, holders = 1, ...others }) => ({
      kind, name, holders, weight, waiters: 0, limit: null, tokens: null, used_at_ms: null,
      holds: Array.from({ length: holders }, (_, i) => ({
        label: "host", ticket: `ticket-${name}-${i}`, token: "7", weight: holders > 0 && weight ? weight / holders : null,
        granted_at_ms: now - 5_000, lease_ends_at_ms: ends === null ? null : now + (i === 0 ? ends : 3_600_000), lease_ms: 3_600_000,
      })),
      ...others,
    }));
    const points = [60, 30, 0].map((ago) => ({ at_ms: now - ago * 1_000, names: 4 + ago, held: 3, waiting: 1, began_per_s: 2 }));
    const whole = { store: "memory", title: "Made up", unlock: true, full: true, took_ms: 1, more: false, error: null, gone: [] };
    stream.enqueue(encoder.encode(`event: look\ndata: ${JSON.stringify({ ...whole, now_ms: now, points, ...look, set })}\n\n`));
  };
}

const many = Array.from({ length: 1_000 }, (_, i) => ({ name: `job/${String(i).padStart(5, "0")}`, ends: 3_000_000 }));
const mixed = [
  { name: "a:idle", holders: 0 },
  { name: "b:held", ends: 3_000_000 },
  { name: "b:soon", ends: 20_000 },
  { name: "c/waited", ends: 3_000_000, waiters: 2 },
  { name: "d/over", ends: -5_000 },
  { name: "permits", kind: "semaphore", holders: 2, weight: 4, limit: 10, ends: 3_000_000 },
  { name: "permits/over", kind: "semaphore", holders: 2, weight: 4, limit: 10, ends: -5_000 },
];

// Checks the page at `url`; pictures go to the folder `shots`, if there is one.
export async function checkStates({ browser, url, check, demand, axe, source, shots }) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  const until = (test, ...values) => page.waitForFunction(test, { timeout: WAIT_MS, polling: 50 }, ...values);
  const text = (id) => page.$eval(`#${id}`, (node) => (node.hidden ? "" : node.textContent));
  const send = (look) => page.evaluate((look) => window.send(look), look);
  const order = () => page.$$eval("#rows .name", (all) => all.map((node) => node.textContent).join(" "));
  const placed = (names) => until((names) => [...document.querySelectorAll("#rows .name")].map((node) => node.textContent).join(" ") === names, names);
  await page.evaluateOnNewDocument(pretend);

  async function open(size, look) {
    await page.setViewport(size);
    await page.goto(url);
    await until(() => window.isOpen());
    if (look) await send(look);
    if (look?.set?.length) await until((n) => document.querySelectorAll("#rows > li").length === n, look.set.length);
  }

  async function picture(name) {
    if (!shots) return;
    await new Promise((done) => setTimeout(done, 1_200));
    for (const light of [true, false]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: light ? "light" : "dark" }]);
      const { width } = page.viewport();
      await page.screenshot({ path: join(resolve(shots), `${name}-${width}-${light ? "light" : "dark"}.png`) });
    }
  }

  // Scrolls to a name far down, opens it and presses the button that frees its first hold.
  const press = async (name) => {
    await page.evaluate((name) => {
      const button = [...document.querySelectorAll("#rows .name")].find((node) => node.textContent === name);
      if (button.getAttribute("aria-expanded") === "false") {
        button.focus({ preventScroll: true });
        button.click();
        button.scrollIntoView({ block: "center" });
      }
    }, name);
    await until(() => document.querySelector("#rows .details .free"));
    await page.focus("#rows .details .free");
    await page.keyboard.press("Enter");
    await until(() => document.getElementById("ask").open);
  };
  const answer = async () => {
    await page.click("#ask-yes");
    await until(() => !document.getElementById("ask").open && document.getElementById("result").textContent !== "");
  };
  // Where the reader is: the row that is open, its place in the window, and whether it has the focus.
  const place = () =>
    page.evaluate(() => {
      const row = document.querySelector("#rows > .open");
      return {
        name: row?.querySelector(".name").textContent,
        top: Math.round(row?.getBoundingClientRect().top),
        hasFocus: Boolean(row?.contains(document.activeElement)),
      };
    });
  const samePlace = (is, was, when) =>
    demand(is.name === was.name && Math.abs(is.top - was.top) <= 2, `${when}: ${JSON.stringify(is)} in place of ${JSON.stringify(was)}`);

  await check("urgent names first, a filter, groups", async () => {
    await open(WIDE, { set: mixed });
    await placed("d/over permits/over c/waited b:soon b:held permits a:idle");
    await page.click("#used");
    await placed("d/over permits/over c/waited b:soon b:held permits");
    await page.click("#grouped");
    await until(() => document.querySelector("#rows > li > h3"));
    await placed("d/over permits/over c/waited b:soon b:held permits");
    const heads = await page.$$eval("#rows > li > h3:not([hidden])", (all) => all.map((node) => node.textContent).join("; "));
    demand(heads === "d/, 1 name; permits/, 1 name; c/, 1 name; b:, 2 names; Without a prefix, 1 name", heads);
    await page.click("#used");
    await picture("mixed");
    await page.click("#grouped");
    await placed("d/over permits/over c/waited b:soon b:held permits a:idle");
    return order();
  });

  await check("a semaphore's bar: held, past the lease, left", async () => {
    const ends = await page.$$eval("[data-kind=semaphore] .level", (all) =>
      all.map((bar) => ["held", "over", "left"].map((part) => bar.style.getPropertyValue(`--${part}-end`)).join(" ")),
    );
    demand(ends.join("; ") === "20.00% 40.00% 100.00%; 40.00% 40.00% 100.00%", ends.join("; "));
    const colours = await page.$eval(".level", (bar) => new Set(["--held", "--over", "--left", "--done"].map((name) => getComputedStyle(bar).getPropertyValue(name))).size);
    demand(colours === 4, `${colours} colours`);
  });

  await check("the plots have axes", async () => {
    await until(() => document.querySelector("figure strong").textContent === "4");
    const said = await page.$eval("figure", (node) => node.innerText.replace(/\s+/g, " "));
    demand(/^Names 4 64 0 10 min ago 5 min now$/.test(said), said);
    return said;
  });

  await check("the question before freeing", async () => {
    const asked = async (name) => {
      await press(name);
      const said = await page.$eval("#ask", (node) => node.innerText.replace(/\s+/g, " "));
      await page.keyboard.press("Escape");
      await page.keyboard.press("Escape");
      return said;
    };
    const [hold, lock] = [await asked("permits"), await asked("b:held")];
    demand(hold.startsWith("Free this hold?") && /Permits 2 /.test(hold), hold);
    demand(lock.startsWith("Free this lock?") && !lock.includes("Permits"), lock);
  });

  await check("a row on the first screen of 390 pixels, and compact rows", async () => {
    await open(NARROW, { set: many });
    const row = () => page.$eval("#rows > li", (node) => node.getBoundingClientRect().toJSON());
    const before = await row();
    demand(before.bottom <= NARROW.height, `it ends at ${before.bottom}`);
    await picture("many");
    await page.focus("#grouped");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Space");
    demand(await page.$eval("body", (body) => body.classList.contains("compact")), "Tab and Space do not choose it");
    const compact = await row();
    demand(compact.height < 0.7 * before.height, `${compact.height} in place of ${before.height}`);
    await picture("compact");
    await open(WIDE, { set: many });
    demand(await page.$eval("#compact", (box) => box.checked), "it is not kept");
    await picture("compact");
    await page.click("#compact");
    return `it ends at ${before.bottom}; ${before.height} and ${compact.height} pixels high`;
  });

  for (const size of [WIDE, NARROW]) {
    await check(`a refusal keeps the place, ${size.width} pixels`, async () => {
      await open(size, { set: many });
      await page.evaluate(() => sessionStorage.clear());
      const set = (status) => page.evaluate((status) => Object.assign(window.answers, status), status);
      await press("job/00500");
      const was = await place();
      await set({ unlock: 403 });
      await answer();
      samePlace(await place(), was, "after a no");
      demand((await place()).hasFocus, "after a no the focus is elsewhere");
      for (const why of ["needs a token", "refused that token"]) {
        await set({ unlock: 401 });
        await press("job/00500");
        await answer();
        samePlace(await place(), was, "while the token is asked for");
        demand((await text("token-why")).includes(why), await text("token-why"));
        demand(await page.$eval("#token", (node) => node === document.activeElement), "the token has no focus");
        const top = await page.$eval("#token", (node) => node.getBoundingClientRect().top);
        demand(top > 0 && top < size.height, `the form is at ${top}`);
        if (why !== "needs a token") await picture("refused");
        await page.keyboard.type("wrong");
        await page.keyboard.press("Enter");
        samePlace(await place(), was, "after the token was given");
        demand((await place()).hasFocus, "after the token the focus is elsewhere");
      }
      await set({ events: 401 });
      await page.evaluate(() => window.breakOff());
      await until(() => !document.getElementById("token-form").hidden);
      samePlace(await place(), was, "while the stream asks for the token");
      await set({ events: 200 });
      await page.keyboard.type("right");
      await page.keyboard.press("Enter");
      await until(() => window.isOpen());
      await send({ set: many });
      await until(() => document.getElementById("connection").textContent === "Connected.");
      await new Promise((done) => setTimeout(done, 600));
      samePlace(await place(), was, "when it is connected again");
      demand((await place()).hasFocus, "in the end the focus is elsewhere");
    });
  }

  await check("a row that is read keeps its place when the order changes", async () => {
    await open(WIDE, { set: many });
    await press("job/00500");
    await page.keyboard.press("Escape");
    const was = await place();
    await send({ full: false, set: [{ ...many[500], waiters: 3 }, { ...many[501], waiters: 2 }, { ...many[100], holders: 0 }] });
    await until(() => document.querySelector("#rows .name").textContent === "job/00500");
    samePlace(await page.evaluate(() => new Promise((done) => setTimeout(done, 300))).then(place), { ...was, top: (await place()).top }, "moved");
    const { top } = await place();
    demand(top >= 0 && top < WIDE.height, `it is at ${top} of the window`);
    await send({ full: false, set: [many[500], ...many.slice(700, 900).map((one) => ({ ...one, waiters: 1 }))] });
    await until(() => document.querySelector("#rows .name").textContent === "job/00501");
    await new Promise((done) => setTimeout(done, 300));
    samePlace(await place(), { ...was, top }, "moved back");
    return `from ${was.top} to ${top}, and back to ${(await place()).top}`;
  });

  for (const size of [WIDE, NARROW]) {
    await check(`the store is away, ${size.width} pixels`, async () => {
      const away = { set: [], points: [], error: "list in the store memory: unavailable" };
      await open(size, { ...away, full: true });
      await until(() => document.getElementById("connection").textContent === "The store is away.");
      await until(() => document.getElementById("empty").textContent.startsWith("The names are not known"));
      await picture("away-empty");
      await send({ set: [] });
      await until(() => document.getElementById("connection").textContent === "Connected.");
      await until(() => document.getElementById("empty").textContent.startsWith("No name has state"));
      await picture("empty");
      await send({ set: mixed });
      await until(() => document.querySelectorAll("#rows > li").length > 0);
      await send({ ...away, full: false });
      await until(() => document.getElementById("connection").textContent === "The store is away.");
      await picture("away");
      await page.evaluate(() => window.breakOff());
      await until(() => document.getElementById("connection").textContent.startsWith("Not connected"));
      await until(() => window.isOpen());
      await send({ ...away, full: true });
      await until(() => document.getElementById("connection").textContent === "The store is away.");
      await new Promise((done) => setTimeout(done, 600));
      demand((await order()).includes("b:held"), "a server that begins while the store is away takes the rows away");
      await send({ full: false, set: mixed.slice(1) });
      await until(() => document.querySelectorAll("#rows > li").length === 6);
    });
  }
  await page.evaluate(source);
  await check("axe, with what is made up", async () => {
    await page.click("#grouped");
    await send({ full: false, error: "unavailable" });
    return axe(page);
  });
  await context.close();
}
