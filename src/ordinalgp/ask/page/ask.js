// The page of `ordinalgp ask`: shows a pair, takes the answer by mouse, touch or key, and sends it.

import { Connection, Rejected } from "./connection.js";
import * as view from "./view.js";

const { element } = view;
const LOOK_EVERY = 1500; // milliseconds between looks at progress and ranking
const MOST_UNDO = 200; // answers that can be taken back
const PACE_ANSWERS = 5; // answers from which on a pace is told
const LONGEST_THOUGHT = 120; // seconds; who takes longer was away

// What a page keeps when it is loaded again; other tabs are other pages.
const memory = {
  get: (key, otherwise) => JSON.parse(sessionStorage.getItem(key) ?? "null") ?? otherwise,
  set: (key, value) => sessionStorage.setItem(key, JSON.stringify(value)),
};

const randomName = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const page = memory.get("page", randomName());
memory.set("page", page);

let session = null;
let question = null;
let shownAt = 0;
let busy = false; // an answer is on its way
let known = ""; // revision of the state that is shown
let state = null;
let everything = false; // whether all items of the ranking are shown
let judge = "";
let mine = []; // keys of own answers, the newest last
let times = []; // seconds of the last answers

const connection = new Connection({
  onLost: (reason) =>
    view.notice(
      `${reason || "The server does not answer."} ${busy ? "Your answer is kept and will be sent again. " : ""}Trying to connect again…`,
    ),
  onFound: () => {
    view.notice("Connected again.", { good: true, seconds: 4 });
    look();
  },
  onSession: (found) => {
    if (session && found.store !== session.store) location.reload();
    session = found;
  },
});

// ------------------------------------------------------------------------------- questions

async function show(found) {
  question = found;
  if (!question) {
    view.enableChoices(false);
    view.showMessage("All pairs are done", "You have answered every pair. Thank you!");
    view.say("All pairs are done. Thank you!");
    return;
  }
  await view.preload(question);
  view.showQuestion(question);
  view.enableChoices(true);
  markCurrent();
  shownAt = performance.now();
}

async function ask() {
  const parameters = new URLSearchParams({ page, judge });
  show((await connection.get(`/api/question?${parameters}`)).question);
}

async function answer(outcome) {
  if (busy || !question) return;
  busy = true;
  const seconds = (performance.now() - shownAt) / 1000;
  view.enableChoices(false);
  if (outcome !== null) view.markChosen(outcome);
  const sides = { left: question.left.item, right: question.right.item };
  const given = { key: randomName(), page, judge, ...sides, outcome, seconds };
  memory.set("unsent", given);
  if (outcome !== null) times = [...times, seconds].slice(-20);
  await send(given);
}

// Sends an answer until it is kept, and shows the next pair.
async function send(given) {
  busy = true;
  try {
    const reply = await sending("/api/answers", given);
    mine = [...mine, given.key].slice(-MOST_UNDO);
    memory.set("mine", mine);
    await settle(reply.question);
  } catch (error) {
    await recover(error, "Your last answer could not be kept");
  }
}

async function undo() {
  if (busy || !mine.length) return;
  busy = true;
  view.enableChoices(false);
  try {
    const reply = await sending("/api/undo", { key: mine.at(-1), page, judge });
    mine = mine.slice(0, -1);
    memory.set("mine", mine);
    view.notice(reply.removed ? "Your last answer is removed." : "It was removed before.", { good: true, seconds: 3 });
    await settle(reply.question);
  } catch (error) {
    await recover(error, "The answer could not be removed");
  }
}

// A server that was started on another file of answers has another token: then once more.
async function sending(path, content) {
  try {
    return await connection.post(path, content);
  } catch (error) {
    if (!(error instanceof Rejected) || error.status !== 403) throw error;
    await connection.begin();
    return connection.post(path, content);
  }
}

async function settle(next) {
  memory.set("unsent", null);
  busy = false;
  element("undo").disabled = !mine.length;
  await show(next);
  look();
}

async function recover(error, what) {
  if (!(error instanceof Rejected)) throw error;
  memory.set("unsent", null);
  busy = false;
  view.notice(`${what}: ${error.message}`, { seconds: 8 });
  if (error.status !== 403) await ask();
}

// -------------------------------------------------------------------------------- progress

function pace() {
  const sorted = times.filter((seconds) => seconds < LONGEST_THOUGHT).sort((a, b) => a - b);
  return sorted.length >= PACE_ANSWERS ? sorted[Math.floor(sorted.length / 2)] : 0;
}

let looking = false;

async function look() {
  if (looking) return;
  looking = true;
  const parameters = new URLSearchParams({ known });
  if (everything) parameters.set("all", "1");
  const found = await connection.look(`/api/state?${parameters}`);
  looking = false;
  if (!found) return;
  state = found;
  known = String(found.revision);
  view.showProgress(state, pace());
  view.showRanking(state, state.progress?.top ?? 0, current());
  view.showAgreement(state);
  if (state.failure) {
    element("ranking-note").textContent = `The ranking could not be brought up to date (${state.failure}). Answers are kept.`;
  }
}

const current = () => (question ? [question.left.item, question.right.item] : []);

function markCurrent() {
  if (state) view.showRanking(state, state.progress?.top ?? 0, current());
}

setInterval(() => {
  if (!document.hidden && session) look();
}, LOOK_EVERY);
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && session) look();
});

// --------------------------------------------------------------------------------- buttons

function toggleResults() {
  const shown = element("results").hidden;
  element("results").hidden = !shown;
  element("toggle").ariaExpanded = String(shown);
  element("toggle").querySelector("span").textContent = shown ? "Hide" : "Show";
  memory.set("hidden", !shown);
}

element("undo").addEventListener("click", undo);
element("skip").addEventListener("click", (event) => event.detail < 2 && answer(null));
element("toggle").addEventListener("click", toggleResults);
element("help-button").addEventListener("click", () => element("help").showModal());
element("all").addEventListener("click", () => {
  everything = true;
  known = "";
  look();
});

// A card is a large button, unless its text is being selected or a double click ends on it.
for (const [side, sign] of [["left", 1], ["right", -1]]) {
  element(side).addEventListener("click", (event) => {
    if (event.detail > 1 || !getSelection().isCollapsed || !question) return;
    answer(weakest(sign));
  });
}

// The outcome of one side that says least about how much better it is.
function weakest(sign) {
  const outcomes = session.answers.map(({ outcome }) => outcome).filter((each) => each * sign > 0);
  return sign * Math.min(...outcomes.map(Math.abs));
}

const KEYS = {
  ArrowLeft: () => answer(weakest(1)),
  ArrowRight: () => answer(weakest(-1)),
  t: () => session.answers.some(({ outcome }) => outcome === 0) && answer(0),
  u: undo,
  s: () => answer(null),
  r: toggleResults,
  "?": () => element("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target instanceof HTMLInputElement || element("help").open;
  if (typing || event.repeat || event.ctrlKey || event.metaKey || event.altKey || !session) return;
  const place = Number(event.key) - 1;
  const act =
    session.answers.length > 3 && session.answers[place]
      ? () => answer(session.answers[place].outcome)
      : KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

// ---------------------------------------------------------------------------------- judges

function nameOfJudge() {
  return new Promise((resolve) => {
    view.enableChoices(false);
    view.showMessage("Who is answering?", "Your name tells your answers from those of other judges.", { form: true });
    element("judge-name").value = judge;
    element("judge-name").focus();
    element("judge-form").onsubmit = (event) => {
      event.preventDefault();
      const name = element("judge-name").value.trim();
      if (name) resolve(name);
    };
  });
}

async function chooseJudge() {
  const name = await nameOfJudge();
  if (name !== judge) {
    mine = []; // each judge takes back their own answers only
    memory.set("mine", mine);
  }
  judge = name;
  memory.set("judge", judge);
  element("judge-shown").textContent = judge;
  element("judge-button").hidden = false;
  element("undo").disabled = !mine.length;
  element("judge-name").blur();
}

element("judge-button").addEventListener("click", async () => {
  if (busy) return;
  question = null;
  await chooseJudge();
  ask();
});

// ----------------------------------------------------------------------------------- begin

async function begin() {
  await connection.begin();
  document.title = session.question;
  element("question").textContent = session.question;
  view.showChoices(session.answers, answer);
  view.enableChoices(false);
  element("key-tie").hidden = !session.answers.some(({ outcome }) => outcome === 0);
  element("key-grades").hidden = session.answers.length <= 3;
  element("last-key").textContent = session.answers.length;
  if (memory.get("hidden", false)) toggleResults();
  if (memory.get("store", session.store) !== session.store) {
    memory.set("mine", []);
    memory.set("unsent", null);
  }
  memory.set("store", session.store);
  mine = memory.get("mine", []);
  judge = memory.get("judge", "");
  element("undo").disabled = !mine.length;
  if (session.named_judges) {
    if (judge) {
      element("judge-shown").textContent = judge;
      element("judge-button").hidden = false;
    } else await chooseJudge();
  }
  look();
  const unsent = memory.get("unsent", null);
  if (unsent) await send(unsent);
  else await ask();
}

begin();
