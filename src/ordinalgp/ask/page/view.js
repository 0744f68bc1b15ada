// What is on the page. Everything that comes from the items is set as text, never as markup.

const SHORT_TEXT = 90;
const FEW_TEXT = 700;

export const element = (id) => document.getElementById(id);

function make(tag, name, text) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (text !== undefined) node.textContent = text;
  return node;
}

// ----------------------------------------------------------------------------------- cards

function makePart(part, count) {
  const node = make("div", "part");
  if (part.label && count > 1 && !part.image) node.append(make("span", "label", part.label));
  if (part.image) {
    node.classList.add("picture");
    const image = make("img");
    image.alt = part.text;
    image.src = part.image;
    image.decoding = "async";
    node.append(image);
    return node;
  }
  if (!part.label && count > 1) node.classList.add("title");
  const text = make("div", "text", part.text);
  text.dir = "auto";
  node.append(text);
  if (part.shortened) node.append(make("span", "cut", "This is only the beginning of the text."));
  return node;
}

function fill(content, item) {
  const letters = item.parts.reduce((sum, part) => sum + (part.image ? 0 : part.text.length), 0);
  const pictures = item.parts.some((part) => part.image);
  content.className = "content";
  if (item.parts.length === 1 && !pictures && letters <= SHORT_TEXT) content.classList.add("alone");
  else if (letters <= FEW_TEXT) content.classList.add("few");
  if (letters > FEW_TEXT) content.classList.add("long");
  content.replaceChildren(...item.parts.map((part) => makePart(part, item.parts.length)));
  content.scrollTop = 0;
}

// Pictures are loaded before they are shown, but nobody waits for them longer than this.
const PICTURE_PATIENCE = 1500;

export async function preload(question) {
  const addresses = [...question.left.parts, ...question.right.parts]
    .map((part) => part.image)
    .filter(Boolean);
  const loads = addresses.map((address) => {
    const image = new Image();
    image.src = address;
    return image.decode().catch(() => {});
  });
  const patience = new Promise((resolve) => setTimeout(resolve, PICTURE_PATIENCE));
  if (loads.length) await Promise.race([Promise.all(loads), patience]);
}

export function showQuestion(question) {
  element("message").hidden = true;
  for (const side of ["left", "right"]) {
    const card = element(side);
    card.hidden = false;
    card.classList.remove("chosen", "other");
    card.dataset.item = question[side].item;
    fill(element(`${side}-content`), question[side]);
    for (const name of document.querySelectorAll(`.name-of-${side}`)) {
      name.textContent = `: ${question[side].name}`;
    }
  }
  for (const button of element("choices").children) button.classList.remove("chosen");
  say(`Left: ${question.left.name}. Right: ${question.right.name}.`);
}

export function showMessage(title, text, { form = false } = {}) {
  for (const side of ["left", "right"]) element(side).hidden = true;
  markChosen(null);
  element("message-title").textContent = title;
  element("message-text").textContent = text;
  element("judge-form").hidden = !form;
  element("message").hidden = false;
}

export function markChosen(outcome) {
  element("left").classList.toggle("chosen", outcome > 0);
  element("left").classList.toggle("other", outcome < 0);
  element("right").classList.toggle("chosen", outcome < 0);
  element("right").classList.toggle("other", outcome > 0);
  for (const button of element("choices").children) {
    button.classList.toggle("chosen", button.dataset.outcome === String(outcome));
  }
}

// --------------------------------------------------------------------------------- choices

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

export function keyOf(place, answers) {
  if (answers.length > 3) return String(place + 1);
  const { outcome } = answers[place];
  return outcome > 0 ? "←" : outcome < 0 ? "→" : "T";
}

export function showChoices(answers, choose) {
  const buttons = answers.map(({ outcome, label }, place) => {
    const button = make("button");
    button.type = "button";
    button.dataset.outcome = outcome;
    const side = outcome > 0 ? "left" : outcome < 0 ? "right" : "";
    const words = make("span");
    if (side) {
      // Cards are above each other on a telephone.
      const upright = label.replace("left", "upper").replace("right", "lower");
      words.append(make("span", "beside", capital(label)), make("span", "above", capital(upright)));
      words.append(make("span", `hidden name-of-${side}`));
    } else {
      words.append(make("span", "", capital(label)));
    }
    const key = make("kbd", "", keyOf(place, answers));
    key.ariaHidden = "true";
    if (outcome < 0 && answers.length <= 3) button.append(words, key);
    else button.append(key, words);
    button.addEventListener("click", (event) => {
      if (event.detail < 2) choose(outcome);
    });
    return button;
  });
  element("choices").classList.toggle("many", answers.length > 3);
  element("choices").replaceChildren(...buttons);
}

export function enableChoices(enabled) {
  for (const button of element("choices").children) button.disabled = !enabled;
  element("skip").disabled = !enabled;
}

// -------------------------------------------------------------------------------- progress

const NUMBERS = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"];
const inWords = (n) => NUMBERS[n] ?? String(n);
const counted = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

// About that many: nobody knows it to the last digit.
export function rounded(n) {
  const step = n < 10 ? 1 : n < 60 ? 5 : n < 200 ? 10 : 50;
  return Math.max(1, Math.round(n / step) * step);
}

function best(top) {
  return top === 1 ? "the best item is" : `the top ${inWords(top)} are`;
}

export function progressText(state, pace) {
  const answers = counted(state.answers, "answer", "answers");
  const found = state.progress;
  if (!found) return state.answers ? `${answers}.` : "No answers yet.";
  const those = capital(best(found.top));
  if (found.settled) return `${answers}. ${those} settled: stop here, or go on for the rest.`;
  const percent = `${Math.round(100 * found.certainty)} % sure`;
  if (found.remaining === null) return `${answers}. ${percent} of the top ${inWords(found.top)}.`;
  const sure = `${percent} now`;
  if (found.beyond) return `${answers}. More than ${rounded(found.remaining)} more until ${best(found.top)} settled; ${sure}.`;
  if (found.remaining < 4) return `${answers}. A few more until ${best(found.top)} settled; ${sure}.`;
  const about = rounded(found.remaining);
  const minutes = Math.round((about * pace) / 60);
  const time = minutes ? `, ${counted(minutes, "minute", "minutes")} at your pace` : "";
  return `${answers}. About ${about} more until ${best(found.top)} settled${time}; ${sure}.`;
}

export function showProgress(state, pace) {
  element("progress-text").textContent = progressText(state, pace);
  const found = state.progress;
  let share = 0;
  if (found) share = found.settled ? 1 : found.remaining ? state.answers / (state.answers + found.remaining) : found.certainty;
  element("bar").style.width = `${Math.round(1000 * share) / 10}%`;
}

// --------------------------------------------------------------------------------- ranking

export function showRanking(state, top, current) {
  const found = state.ranking;
  element("ranking").hidden = !found;
  if (!found && state.answers) element("ranking-note").textContent = "The ranking is on its way.";
  if (!found) return;
  const n = found.items;
  element("ranking").classList.toggle("hundreds", n > 99);
  element("ranking-note").textContent = `From ${counted(found.answers, "answer", "answers")}. An item's rank lies in its interval with a probability of 90 %.`;
  const rows = found.rows.map((row, place) => {
    const line = make("tr", place < top ? "top" : "");
    if (current.includes(row.item)) line.classList.add("current");
    line.append(make("td", "rank", String(place + 1)));
    const name = make("th", "name");
    name.scope = "row";
    const clip = make("span", "clip", row.name);
    clip.dir = "auto";
    clip.title = row.name;
    name.append(clip);
    const range = make("td", "range");
    const interval = make("div", "interval");
    interval.append(make("span", "", row.low === row.high ? `${row.low}` : `${row.low} – ${row.high}`));
    const scale = make("div", "scale");
    scale.ariaHidden = "true";
    const band = make("i");
    band.style.left = `${(100 * (row.low - 1)) / n}%`;
    band.style.right = `${(100 * (n - row.high)) / n}%`;
    scale.append(band);
    interval.append(scale);
    range.append(interval);
    line.append(name, range);
    return line;
  });
  element("ranking-rows").replaceChildren(...rows);
  element("all").hidden = found.rows.length >= n;
  element("all").textContent = `Show all ${n.toLocaleString("en")}`;
}

export function showAgreement(state) {
  const found = state.agreement;
  element("agreement").hidden = !found || found.judges.length < 2;
  if (element("agreement").hidden) return;
  const { shared, same } = found;
  element("agreement-text").textContent = shared
    ? `Two judges who answered the same pair agreed ${same.toLocaleString("en")} of ${counted(shared, "time", "times")} (${Math.round((100 * same) / shared)} %).`
    : "No pair has been answered by two judges yet.";
  const rows = found.judges.map((judge) => {
    const line = make("tr");
    const name = make("th");
    name.scope = "row";
    const clip = make("span", "clip", judge.judge);
    clip.dir = "auto";
    clip.title = judge.judge;
    name.append(clip);
    const same = judge.shared ? `${judge.same} of ${judge.shared}` : "–";
    line.append(name, make("td", "", judge.answers.toLocaleString("en")), make("td", "", same));
    return line;
  });
  element("judges").replaceChildren(...rows);
}

// --------------------------------------------------------------------------------- notices

let hiding = 0;

export function notice(text, { good = false, seconds = 0 } = {}) {
  clearTimeout(hiding);
  const box = element("notice");
  box.classList.toggle("good", good);
  if (box.textContent !== text) box.textContent = text;
  box.hidden = false;
  if (seconds) hiding = setTimeout(() => (box.hidden = true), 1000 * seconds);
}

// For those who listen: what has changed.
export function say(text) {
  element("said").textContent = text;
}
