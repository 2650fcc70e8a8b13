// The waiting page: hands the visit a document, a network, a clock and a memory.

import { pickLanguage } from "./line.js";
import { fill, screen } from "./say.js";
import { Visit } from "./visit.js";

const main = document.getElementById("place");
const show = main.dataset.show;
const el = (id) => document.getElementById(id);

// --- language ---

const texts = {
  "pt-BR": () => import("./texts-pt-br.js"),
  en: () => import("./texts-en.js"),
  es: () => import("./texts-es.js"),
};
const asked = new URLSearchParams(location.search).get("lang");
const language = pickLanguage([asked, ...navigator.languages], Object.keys(texts));
const { default: t } = await texts[language]();
document.documentElement.lang = language;

// --- what the visit is handed ---

const base = `/v1/shows/${show}`;

async function request(path, options) {
  const response = await fetch(base + path, { signal: AbortSignal.timeout(10_000), ...options });
  const body = response.status === 204 ? null : await response.json().catch(() => null);
  const seconds = Number(response.headers.get("retry-after"));
  return { status: response.status, body, retryAfterMs: (seconds || 0) * 1000 };
}

const api = {
  // Without cookies, so that one answer may serve everybody.
  board: () => request("/board", { credentials: "omit" }),
  join: (key, proof) => request("/join", {
    method: "POST", credentials: "same-origin",
    headers: {
      "Idempotency-Key": key,
      ...(account && { "X-Catraca-Account": account }),
      ...(proof && { "X-Catraca-Proof": proof }),
    },
  }),
  status: (pass, serving) => request(`/status?serving=${serving}`, {
    credentials: "same-origin", cache: "no-store", headers: { "X-Catraca-Pass": pass },
  }),
  leave: (pass) => request("/place", {
    method: "DELETE", credentials: "same-origin", headers: { "X-Catraca-Pass": pass },
  }),
};

// The shop's token: behind the #, so that no server logs it.
const account = new URLSearchParams(location.hash.slice(1)).get("account");
if (account) history.replaceState(null, "", location.pathname + location.search);

const slot = `catraca:${show}`;
let kept = {}; // where the browser keeps nothing, the place lasts as long as the page, and the cookie
const memory = {
  load() {
    try {
      return JSON.parse(localStorage.getItem(slot)) ?? kept;
    } catch {
      return kept;
    }
  },
  save(me) {
    kept = me;
    try {
      localStorage.setItem(slot, JSON.stringify(me));
    } catch {
      // Full or forbidden: `kept` has it.
    }
  },
};

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(18));
  return btoa(String.fromCharCode(...bytes)).replace(/\+/g, "-").replace(/\//g, "_");
}

// Two tabs opened at once must not join as two fans.
const alone = (work) => (navigator.locks ? navigator.locks.request(slot, work) : work());

// A message to ourselves: unlike a timer it comes at once, and hidden pages are not held back.
const channel = new MessageChannel();
const pause = () => new Promise((go) => {
  channel.port1.onmessage = go;
  channel.port2.postMessage(null);
});
const drawing = () => import("./draw.js");

async function answering(challenge) {
  paint(); // it may take seconds
  const { answer } = await import("./challenge.js");
  return answer(el("check"), challenge, language, t);
}

const random = Math.random;
const clock = () => performance.now();
const visit = new Visit({
  api, memory, clock, random, newKey, alone, drawing, answering, pause,
});

// --- painting ---

function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function reveal(node, isShown) {
  if (node.hidden === isShown) node.hidden = !isShown;
}

/** Replaces the children, but only where they would say something else. */
function list(node, items, make) {
  const said = JSON.stringify(items);
  if (node.dataset.said === said) return;
  node.dataset.said = said;
  node.replaceChildren(...items.map(make));
}

function make(tag, text, ...children) {
  const node = document.createElement(tag);
  if (text) node.textContent = text;
  node.append(...children);
  return node;
}

function clockTime(instant) {
  if (!instant) return null;
  return new Intl.DateTimeFormat(language, { timeStyle: "short" }).format(new Date(instant));
}

function paint() {
  const facts = visit.facts();
  facts.sold_out_at = clockTime(facts.sold_out_at);
  const shown = screen(facts, t);
  const name = facts.name ?? t.room;

  main.dataset.state = facts.state;
  if (facts.number) main.dataset.number = facts.number;
  else delete main.dataset.number;
  if (shown.position) main.dataset.position = facts.position;
  else delete main.dataset.position;

  say(el("name"), name);
  const title = shown.position
    ? fill(t.title_in_line, { position: shown.position, name })
    : fill(t.title_state, { state: shown.title, name });
  if (document.title !== title) document.title = title;

  list(el("notice"), shown.notice ? [shown.notice] : [], (text) => make("p", text));
  say(el("title"), shown.title);
  const extra = facts.state === "scheduled" ? [t.scheduled_joins] : [];
  list(el("texts"), [...shown.texts, ...extra], (text) => make("p", text));

  reveal(el("position"), shown.position !== null);
  if (shown.position !== null) {
    say(el("position-number"), shown.position);
    say(el("position-help"), shown.help);
    el("progress").max = Math.max(1, facts.start ?? 1);
    el("progress").value = Math.max(0, (facts.start ?? 1) - facts.position);
  }
  reveal(el("facts"), 0 < shown.facts.length);
  list(el("facts"), shown.facts, ([name, said]) =>
    make("div", "", make("dt", name), make("dd", said)));

  const message = facts.message?.[language] ?? facts.message?.en
    ?? Object.values(facts.message ?? {})[0] ?? "";
  reveal(el("message"), message !== "");
  say(el("message").lastElementChild, message);

  reveal(el("enter"), shown.enter !== null);
  if (shown.enter !== null) el("enter").href = shown.enter;
  reveal(el("join"), shown.join !== null);
  say(el("join"), shown.join ?? "");
  reveal(el("kept"), shown.kept !== null);
  reveal(el("draw"), shown.draw !== null);
  if (shown.draw !== null) {
    list(el("draw-texts"), shown.draw.texts, (text) => make("p", text));
    say(el("draw-seal"), shown.draw.commitment);
    reveal(el("draw-checked"), shown.draw.checked !== null);
    say(el("draw-checked"), shown.draw.checked ?? "");
  }
  reveal(el("leaving"), shown.mayLeave);

  announce(shown, facts);
}

let announced = { title: "", at: -Infinity, isLastMinute: false };

/** Tells screen readers what is new: a state at once, a position once a minute. */
function announce(shown, facts) {
  const now = performance.now();
  const isLastMinute = facts.state === "admitted" && facts.left_ms < 60_000;
  const isNews = shown.title !== announced.title
    || (isLastMinute && !announced.isLastMinute)
    || (shown.position !== null && 60_000 < now - announced.at);
  if (!isNews) return;
  announced = { title: shown.title, at: now, isLastMinute };
  const place = shown.position === null ? "" : `${t.position}: ${shown.position}.`;
  say(el("news"), isLastMinute ? t.admitted_last_minute : `${shown.title}. ${place}`);
}

function paintOnce() {
  say(el("position-name"), t.position);
  el("progress").setAttribute("aria-label", t.progress);
  say(el("message").firstElementChild, t.message);
  say(el("enter"), t.enter);
  say(el("kept"), t.kept);
  say(el("draw").firstElementChild, t.draw_title);
  say(el("leave"), t.leave);
  say(el("leave-text"), t.leave_question);
  say(el("leave-yes"), t.leave_yes);
  say(el("leave-no"), t.leave_no);
  say(el("plain"), t.plain);
  el("plain").href = `/w/${show}/place?lang=${language}`;
  el("languages").setAttribute("aria-label", t.languages);
  for (const link of el("languages").children) {
    if (link.lang === language) link.setAttribute("aria-current", "true");
  }
}

// --- the loop ---

let timer = 0;
let isRunning = false;
let seenAt = Date.now();

async function run() {
  clearTimeout(timer);
  if (isRunning) return;
  isRunning = true;
  let pause = 5000;
  try {
    pause = await visit.step();
  } catch (error) {
    console.error(error); // a bug of ours costs a step, not the fan's page
  }
  isRunning = false;
  seenAt = Date.now();
  paint();
  timer = setTimeout(run, pause);
}

/** Back from a hidden tab, a sleeping machine or a tunnel. */
function wake() {
  if (document.visibilityState === "hidden") return;
  visit.wake(Date.now() - seenAt);
  run();
}

/** The question is asked in the page, where keyboard and reader find it. */
function askToLeave(isAsked) {
  reveal(el("leave-question"), isAsked);
  el("leave").setAttribute("aria-expanded", String(isAsked));
  el(isAsked ? "leave-no" : "leave").focus();
}

el("leave").addEventListener("click", () => askToLeave(el("leave-question").hidden));
el("leave-no").addEventListener("click", () => askToLeave(false));
el("leave-yes").addEventListener("click", async () => {
  await visit.leave();
  askToLeave(false);
  paint();
  el("title").focus();
});
el("join").addEventListener("click", () => {
  visit.joinAgain();
  paint();
  el("title").focus();
  run();
});
document.addEventListener("visibilitychange", wake);
addEventListener("pageshow", (event) => event.persisted && wake());
addEventListener("online", () => {
  visit.hurry();
  run();
});
addEventListener("storage", (event) => {
  if (event.key !== slot) return;
  visit.reload();
  run();
});

paintOnce();
paint();
setInterval(paint, 1000); // countdowns; what has not changed is not touched
run();
