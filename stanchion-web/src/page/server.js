// What goes to the server and comes from it: the connection and what is said of it, the token, the stream, freeing.

import { isOld, rows, serverNow, sought, state } from "./model.js";
import { $, KINDS, count, keep, kept, number, say, setFacts, setText, shown, span } from "./text.js";

// No byte for so long, not even a keep-alive, and the stream is taken for dead.
const SILENCE_MS = 60_000;
// The script lies beside everything else that is asked for.
const path = (to) => new URL(to, import.meta.url);

// The connection

export function showState() {
  document.body.classList.toggle("connected", state.connected);
  document.body.classList.toggle("old", isOld());
  document.body.classList.toggle("failing", state.fault !== null);
  if (state.connected) say("connection", state.fault === null ? "Connected." : "The store is away.");
  say("fault", state.fault === null ? "" : `The look at the store failed: ${shown(state.fault)}`);
  showSince();
}

export function showSince() {
  const now = performance.now();
  const parts = [];
  if (document.body.classList.contains("old")) {
    const none = rows.size > 0 ? "The rows are older than this page." : "There was no good look yet.";
    parts.push(state.goodAt === null ? none : `The rows are old: last good look ${span(now - state.goodAt)} ago.`);
  } else if (state.goodAt !== null) {
    parts.push(`Last look ${span(now - state.goodAt)} ago, it took ${number(state.tookMs)} ms.`);
  }
  if (state.retryAt !== null) parts.push(`Next try in ${span(state.retryAt - now + 999)}.`);
  setText($("since"), parts.join(" "));
}

// The token

const form = $("token-form");
let given = null;
// What had the focus when the token was asked for.
let focusBefore = null;

// What a header can carry, which is what the server takes.
const strange = (text) => /[^!-~]/u.exec(text)?.[0];

function token() {
  const text = kept("sessionStorage", "stanchion-token");
  return text === null || strange(text) !== undefined ? null : text;
}

const authorization = () => (token() === null ? {} : { Authorization: `Bearer ${token()}` });

// Shows the form and waits until a token was given.
function askToken(why) {
  given ??= Promise.withResolvers?.() ?? later();
  setText($("token-why"), why);
  if (form.hidden) focusBefore = document.activeElement;
  form.hidden = false;
  $("token").focus({ preventScroll: true });
  return given.promise;
}

function later() {
  const parts = {};
  parts.promise = new Promise((resolve) => (parts.resolve = resolve));
  return parts;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("token").value.trim();
  const odd = strange(text);
  $("token").value = "";
  if (text === "" || odd !== undefined) {
    const what = text === "" ? "That was empty" : `That had “${shown(odd)}” in it`;
    setText($("token-why"), `${what}: a token has letters, digits and punctuation of ASCII only. Give it again.`);
    return;
  }
  keep("sessionStorage", "stanchion-token", text);
  form.hidden = true;
  const back = focusBefore?.isConnected ? focusBefore : document.querySelector("#rows .name[tabindex='0']");
  back?.focus({ preventScroll: true });
  given?.resolve();
  given = null;
});

// The stream

class Refused extends Error {}
const SOUGHT = new Error("another search");
let wakeUp = () => {};
let stopStream = () => {};

// Asks for the stream anew: something else is sought.
export function reconnect(text) {
  leave(text);
  stopStream();
  wakeUp();
}

// Hands each look to `takeLook`; never returns.
export async function listen(takeLook) {
  for (let pause = 1_000; ; ) {
    const before = state.goodAt;
    let why = "the server ended the stream";
    try {
      await oneStream(takeLook);
    } catch (error) {
      if (error === SOUGHT) continue;
      if (error instanceof Refused) {
        leave("A token is needed.");
        await askToken(token() === null ? "The server asks for a token." : "The server refused that token.");
        continue;
      }
      why = error.why ?? (state.connected ? "the stream broke off" : "the server cannot be reached");
    }
    if (state.goodAt !== before) pause = 1_000;
    leave(`Not connected: ${why}. Trying again.`);
    const wait = Math.max(1_000, Math.min(15_000, pause * (0.75 + Math.random() / 2)));
    state.retryAt = performance.now() + wait;
    showSince();
    await new Promise((resolve) => {
      wakeUp = resolve;
      setTimeout(resolve, wait);
    });
    state.retryAt = null;
    pause = Math.min(15_000, pause * 2);
  }
}

function leave(text) {
  state.connected = false;
  say("connection", text);
  showState();
}

const failure = (why) => Object.assign(new Error(why), { why });

async function oneStream(takeLook) {
  const stop = new AbortController();
  let silence = 0;
  const heard = () => {
    clearTimeout(silence);
    silence = setTimeout(() => stop.abort(failure("the server went silent")), SILENCE_MS);
  };
  heard();
  stopStream = () => stop.abort(SOUGHT);
  try {
    const answer = await fetch(path(sought.query === "" ? "events" : `events?${sought.query}`), { headers: authorization(), cache: "no-store", signal: stop.signal });
    if (answer.status === 401) throw new Refused();
    if (!answer.ok) throw failure(`the server answers ${answer.status}`);
    if (!answer.headers.get("content-type")?.startsWith("text/event-stream")) throw failure("the answer is no event stream");
    await readEvents(answer.body, heard, (type, data) => takeEvent(type, data, takeLook));
  } catch (error) {
    throw stop.signal.reason === SOUGHT ? SOUGHT : error;
  } finally {
    clearTimeout(silence);
    stop.abort();
  }
}

function takeEvent(type, data, takeLook) {
  if (type !== "look") return;
  state.connected = true;
  try {
    takeLook(JSON.parse(data));
  } catch (error) {
    console.error(error);
    throw failure("a look cannot be read");
  }
}

// Splits the stream into events, as the HTML standard says: https://html.spec.whatwg.org/#parsing-an-event-stream
async function readEvents(body, heard, take) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let type = "";
  let data = [];
  const line = (said) => {
    if (said === "") {
      if (data.length > 0) take(type || "message", data.join("\n"));
      type = "";
      data = [];
      return;
    }
    const colon = said.indexOf(":");
    const field = colon < 0 ? said : said.slice(0, colon);
    const value = colon < 0 ? "" : said.slice(colon + 1).replace(/^ /, "");
    if (field === "event") type = value;
    else if (field === "data") data.push(value);
  };
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    text += value;
    if (!/[\r\n]/.test(value)) continue;
    // A carriage return at the end may be half of a line end: it waits for what follows.
    const lines = text.split(/\r\n|\n|\r(?!$)/);
    text = lines.pop();
    lines.forEach(line);
  }
}

addEventListener("online", () => wakeUp());
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") wakeUp();
});

// Freeing

export const ask = $("ask");
const list = $("rows");
let target = null;

export function askFree(row, hold) {
  const { kind, name } = row.data;
  target = { row, kind, name, ticket: hold.ticket, label: hold.label ? shown(hold.label) : "a holder without a label" };
  const isPart = kind === "semaphore";
  target.what = isPart && hold.weight ? `the hold of ${count(hold.weight, "permit")} of ` : "";
  setText($("ask-head"), isPart ? "Free this hold?" : "Free this lock?");
  const since = hold.granted_at_ms === null ? null : span(serverNow() - hold.granted_at_ms);
  setFacts($("ask-facts"), {
    Name: shown(name), Permits: isPart ? hold.weight : null, "Held by": target.label, "Held for": since,
    "Fencing token": hold.token, Ticket: hold.ticket,
  });
  $("ask-yes").disabled = false;
  say("result", "");
  ask.showModal();
}

// Returns what came of it. A proxy that gave up says nothing of what the server did: only the server's own words are a no.
async function free({ kind, name, ticket, label, what }) {
  const lock = `${what}the ${KINDS[kind].one} ${shown(name)}`;
  const headers = { "Content-Type": "application/json", ...authorization() };
  const answer = await fetch(path("api/v1/unlock"), { method: "POST", headers, body: JSON.stringify({ kind, name, ticket }) });
  if (answer.status === 401) {
    ask.close();
    const why = token() === null ? "Freeing needs a token. Give it" : "The server refused that token. Give another";
    askToken(`${why}, then free again.`);
    return `Not freed: a token is needed for ${lock}.`;
  }
  const said = (await answer.json().catch(() => null)) ?? {};
  if (answer.ok && said.freed === true) return `Freed ${lock}, held by ${label}.`;
  if (answer.ok && said.freed === false) return `Nothing to free: ${label} does not have ${lock} any more.`;
  const why = typeof said.error === "string" ? shown(said.error) : `the server answers ${answer.status}`;
  const isNo = answer.status >= 400 && (answer.status < 500 || (typeof said.kind === "string" && said.kind !== "unknown"));
  return isNo ? `Not freed: ${why}` : `Not known whether it was freed; look again: ${why}`;
}

$("ask-no").addEventListener("click", () => ask.close());
$("ask-yes").addEventListener("click", async () => {
  const { row } = target;
  $("ask-yes").disabled = true;
  let said;
  try {
    said = await free(target);
  } catch {
    said = "Not known whether it was freed; look again: the server cannot be reached.";
  }
  ask.close();
  say("result", said);
  if (form.hidden && !list.contains(document.activeElement)) (row.el.isConnected ? row.parts.name : list).focus({ preventScroll: true });
});
