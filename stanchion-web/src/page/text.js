// Words, numbers and facts, and how they get into the page; and what is kept between visits.

export const $ = (id) => document.getElementById(id);

export const KINDS = {
  mutex: { one: "mutex", many: "Mutexes", unit: "holder" },
  semaphore: { one: "semaphore", many: "Semaphores", unit: "permit" },
  wait_group: { one: "wait group", many: "Wait groups", unit: "member" },
  limiter: { one: "limiter", many: "Limiters", unit: "token" },
  bloom_filter: { one: "Bloom filter", many: "Bloom filters", unit: "" },
};

// Text

// Characters that do not show or that turn the text around; and a backslash that could pass for an escape.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u2060-\u206f]|\\(?=u\{)/gu;
export const shown = (text) => text.replace(HIDDEN, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const number = (n) => numbers.format(n);
export const count = (n, unit) => `${number(n)} ${unit}${n === 1 ? "" : "s"}`;

export function span(ms) {
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function setText(node, text) {
  if (node.said === text) return;
  node.said = text;
  node.textContent = text;
}

export function setAttribute(node, name, value) {
  const text = String(value);
  if (node.getAttribute(name) !== text) node.setAttribute(name, text);
}

export const least = (holds, field) => holds.reduce((low, hold) => Math.min(low, hold[field] ?? Infinity), Infinity);
export const labelOf = (hold) => (hold.label ? shown(hold.label) : "no label");

export function say(id, text) {
  const node = $(id);
  setText(node, text);
  node.hidden = text === "";
}

export function setFacts(box, facts) {
  box.entries ??= new Map();
  for (const [term, value] of Object.entries(facts)) {
    let entry = box.entries.get(term);
    if (!entry) {
      entry = document.createElement("div");
      entry.append(document.createElement("dt"), document.createElement("dd"));
      entry.firstChild.textContent = term;
      box.entries.set(term, entry);
      box.append(entry);
    }
    entry.hidden = value === null || value === "";
    setText(entry.lastChild, typeof value === "number" ? number(value) : value ?? "");
  }
}

// What is kept; where the browser forbids storage, only as long as the page is open.

const memory = new Map();

export function keep(storage, key, value) {
  memory.set(key, value);
  try {
    window[storage].setItem(key, value);
  } catch {
    // Kept in memory only.
  }
}

export function kept(storage, key) {
  try {
    return window[storage].getItem(key) ?? memory.get(key) ?? null;
  } catch {
    return memory.get(key) ?? null;
  }
}
