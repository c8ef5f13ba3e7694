"use strict";
// The live page: one stream of events for the chosen model, drawn as SVG by hand.

const byId = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 190, LEFT = 52, RIGHT = 12, TOP = 10, BOTTOM = 26; // of a chart, in pixels
const KEYS_EVERY = 900; // milliseconds between two looks at the keys of a fleet
const RETRY_FIRST = 500, RETRY_MOST = 10000, SILENCE = 40000; // milliseconds

let chosen = named();
let connection = null; // an AbortController
let watched = null; // the key of a fleet that is looked at, as JSON: its integers may be larger than ours
let keysAsked = 0, keysTimer, askingKeys = false, askAgain = false; // keysAsked: when, in milliseconds

function named() { // the model that the address names
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

// --- asking -------------------------------------------------------------------------------------

class Refused extends Error {
  constructor(status, detail) { super(detail); this.status = status; }
}

async function ask(path, signal) {
  const token = sessionStorage.getItem("token");
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(path, { headers, signal, cache: "no-store" });
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, problem.detail || answer.statusText);
  }
  return answer;
}

// fetch instead of EventSource, which cannot send a token
async function* events(path, signal, alive) {
  const reader = (await ask(path, signal)).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const lines = block.split("\n");
      const name = lines.find((line) => line.startsWith("event: "));
      const data = lines.find((line) => line.startsWith("data: "));
      if (name && data) yield { name: name.slice(7), data: JSON.parse(data.slice(6)) };
    }
  }
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function follow() {
  let wait = RETRY_FIRST;
  for (;;) {
    connection = new AbortController();
    const { signal } = connection;
    let watchdog;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => connection.abort("silence"), SILENCE);
    };
    try {
      alive();
      await listModels(signal);
      byId("token-form").hidden = true;
      const path = `/v1/models/${encodeURIComponent(chosen)}/events`;
      for await (const event of events(path, signal, alive)) {
        if (event.name === "state") {
          tell("live", "Live");
          show(event.data);
          wait = RETRY_FIRST;
        }
      }
      tell("lost", "The service has stopped; trying again …");
    } catch (error) {
      if (signal.aborted && signal.reason === "another model") wait = 0;
      else if (error.status === 401) await askForToken();
      else if (error.status) tell("lost", `${error.message} Trying again …`);
      else tell("lost", "The service cannot be reached; trying again …");
    } finally {
      clearTimeout(watchdog);
    }
    await sleep(wait);
    wait = Math.min(Math.max(wait, RETRY_FIRST) * 1.7, RETRY_MOST);
  }
}

function askForToken() {
  tell("lost", sessionStorage.getItem("token") ? "This is not the token" : "A token is needed");
  byId("token-form").hidden = false;
  byId("token").focus();
  return new Promise((resolve) => {
    byId("token-form").addEventListener("submit", (event) => {
      event.preventDefault();
      sessionStorage.setItem("token", byId("token").value);
      byId("token").value = "";
      resolve();
    }, { once: true });
  });
}

async function listModels(signal) {
  const { models } = await (await ask("/v1/models", signal)).json();
  const names = models.map((model) => model.name);
  if (!names.includes(chosen)) chosen = names[0];
  const select = byId("model");
  if (select.options.length !== names.length || names.some((n, i) => select.options[i].value !== n)) {
    select.replaceChildren(...names.map((name) => new Option(name, name)));
  }
  select.value = chosen;
  byId("choice").hidden = false;
}

function tell(state, text) {
  const place = byId("connection");
  if (place.textContent !== text) place.textContent = text; // said once by a screen reader
  place.dataset.state = state;
}

// --- showing ------------------------------------------------------------------------------------

const whole = new Intl.NumberFormat("en"), listed = new Intl.ListFormat("en-GB");
const count = (n) => (n == null ? "–" : whole.format(n));
const figure = (x) => {
  if (x == null || !Number.isFinite(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(1) : String(Number(x.toPrecision(3)));
};
const percent = (x) => (x == null ? "–" : `${x === 0 ? 0 : (100 * x).toFixed(x < 0.1 ? 2 : 1)} %`);

const ERRORS = {
  classification: ["Error", percent], regression: ["Mean squared error", figure],
  novelty: ["Alarms", percent],
};

function show(state) {
  const [word, shown] = ERRORS[state.task];
  document.title = `${state.name} – kernelstream`;
  byId("main").hidden = false; // before it is drawn, which depends on its width
  const parts = [state.class, state.n_features == null ? null : `${count(state.n_features)} features`,
    state.n_classes == null ? null : `${count(state.n_classes)} classes`];
  byId("about").textContent = parts.filter(Boolean).join(" · ");
  const failure = state.failure != null
    ? `Learning has stopped: ${state.failure}. Restart the service: it continues with all rows that were accepted.`
    : state.disk_problem != null
      ? `Rows or checkpoints are not saved: ${state.disk_problem}. Free some space: writes are tried again by themselves.`
      : "";
  byId("failure").hidden = failure === "";
  byId("failure").textContent = failure;
  const own = [
    ["Step size", state.step_size, figure], ["Support vectors", state.n_support, count],
    ["Members", state.weights && Object.keys(state.weights).length, count], ["Keys", state.n_keys, count],
    ["Rows without target", state.n_without_target || null, count],
  ].filter(([, value]) => value != null).map(([name, value, format]) => [name, format(value)]);
  figures(byId("figures"), [
    ["Rows learned", count(state.n_learned)],
    ["Rows per second", figure(state.rows_per_second)],
    [`${word}, all rows`, shown(state.error)],
    [`${word}, last 1,000`, shown(state.recent_error)],
    ...own,
    ["Bad rows", count(state.n_skipped)],
    ["Rows in the queue", count(state.n_queued)],
  ]);
  byId("keys-section").hidden = state.n_keys == null;
  if (state.n_keys != null) keys();
  charts(byId("charts"), "h2", state);
  byId("empty").hidden = state.history.length > 0;
  byId("events").textContent = changes(state);
  badRows(state.bad_rows);
}

function changes({ n_events, events }) {
  const latest = events.slice(-8).map(count);
  if (latest.length === 0) return "None so far.";
  return `${count(n_events)} so far; the latest at ${latest.length === 1 ? "row" : "rows"} ${listed.format(latest)}.`;
}

function figures(list, pairs) {
  if (list.children.length !== pairs.length) {
    list.replaceChildren(...pairs.map(() => {
      const box = document.createElement("div");
      box.append(document.createElement("dt"), document.createElement("dd"));
      return box;
    }));
  }
  pairs.forEach(([name, value], i) => {
    const [term, text] = list.children[i].children;
    if (term.textContent !== name) term.textContent = name;
    if (text.textContent !== value) text.textContent = value;
  });
}

// --- keys of a fleet ----------------------------------------------------------------------------

const keyText = (json) => (json.startsWith('"') ? JSON.parse(json) : json);

function keys() { // soon, but not too often
  clearTimeout(keysTimer);
  if (askingKeys) askAgain = true;
  else keysTimer = setTimeout(askForKeys, Math.max(keysAsked + KEYS_EVERY - Date.now(), 0));
}

async function askForKeys() {
  askingKeys = true;
  const name = chosen, path = `/v1/models/${encodeURIComponent(name)}/keys?`;
  try {
    const sort = byId("keys-sort").value;
    const found = await (await ask(`${path}limit=20&sort=${sort}`, connection.signal)).json();
    if (name === chosen) keyTable(found.keys);
    if (watched !== null) await oneKey(path);
  } catch (error) {
    if (error.status) byId("key-title").textContent = error.message;
  } finally {
    askingKeys = false;
    keysAsked = Date.now();
    if (askAgain) keys();
    askAgain = false;
  }
}

function keyTable(lines) {
  const focused = document.activeElement.dataset.key; // which must not be lost with its line
  byId("keys").tBodies[0].replaceChildren(...lines.map((line) => {
    const made = document.createElement("tr"), button = document.createElement("button");
    button.textContent = keyText(line.text);
    button.dataset.key = line.text;
    button.addEventListener("click", () => look(line.text));
    made.insertCell().append(button);
    for (const text of [count(line.n_seen), figure(line.drift_score), figure(line.step_size), count(line.n_support)]) {
      made.insertCell().textContent = text;
    }
    return made;
  }));
  if (focused) {
    for (const button of byId("keys").querySelectorAll("button")) if (button.dataset.key === focused) button.focus();
  }
}

async function oneKey(path) {
  const wanted = watched;
  const answer = await ask(`${path}key=${encodeURIComponent(wanted)}`, connection.signal)
    .catch((error) => { if (error.status === 404) return null; throw error; });
  const state = answer === null ? null : await answer.json();
  if (wanted !== watched) return;
  const title = state === null ? `There is no model of the key ${keyText(wanted)}.` : `The model of ${keyText(wanted)}`;
  if (byId("key-title").textContent !== title) byId("key-title").textContent = title;
  byId("key-figures").hidden = state === null;
  if (state === null) {
    byId("key-charts").replaceChildren();
    return;
  }
  const [word, shown] = ERRORS[state.task];
  figures(byId("key-figures"), [
    ["Rows learned", count(state.n_seen)], ["Since you look", count(state.n_learned)],
    [`${word} since then`, shown(state.error)], ["Drift score", figure(state.drift_score)],
    ["Step size", figure(state.step_size)], ["Margin", figure(state.margin)],
    ["Support vectors", count(state.n_support)],
  ]);
  charts(byId("key-charts"), "h3", state);
}

function look(key) {
  watched = key;
  keysAsked = 0;
  keys();
}

function lookAway() {
  watched = null;
  keysAsked = 0;
  byId("key-title").textContent = "";
  byId("key-figures").hidden = true;
  byId("key-charts").replaceChildren();
}

// what is typed is a key as JSON (7, ["attic", 2]), or else a text
function typedKey(text) {
  if (/^-?\d+$/.test(text)) return text;
  try {
    const key = JSON.parse(text);
    if (typeof key === "string" || Array.isArray(key)) return text;
  } catch { /* a text */ }
  return JSON.stringify(text);
}

function badRows(rows) {
  byId("no-bad").hidden = rows.length > 0;
  byId("bad").hidden = rows.length === 0;
  byId("bad").tBodies[0].replaceChildren(...rows.slice().reverse().map((bad) => {
    const line = document.createElement("tr");
    const time = new Date(1000 * bad.time).toLocaleTimeString();
    for (const text of [time, bad.row == null ? "not queued" : count(bad.row), bad.reason]) {
      line.insertCell().textContent = text;
    }
    return line;
  }));
}

// --- charts -------------------------------------------------------------------------------------

const drawn = new Map(); // what is shown in a place, and the width for which it was drawn

function charts(place, heading, state) {
  const [word, shown] = ERRORS[state.task], points = state.history;
  const series = (name, label) => ({ label, values: points.map((point) => point[name]) });
  const members = Object.keys(state.weights || {});
  const wanted = [
    { title: word, format: shown, zero: true,
      lines: [series("error", "model"), ...Object.keys(state.baselines).map((n) => series(n, n))] },
    { title: "Keys", format: figure, zero: true, lines: [series("n_keys", "keys")] },
    { title: "Step size", format: figure, lines: [series("step_size", "step size")] },
    { title: "Drift score", format: figure, lines: [series("drift_score", "drift score")] },
    { title: "Support vectors", format: figure, zero: true, lines: [series("n_support", "support vectors")] },
    { title: "Weights of the members", format: figure, zero: true, lines: members.map((name) => ({
      label: name, values: points.map((point) => (point.weights || {})[name]) })) },
  ].filter((chart) => points.length && chart.lines.some((line) => line.values.some(Number.isFinite)));
  const rows = points.map((point) => point.row);
  drawn.set(place, { heading, state, width: place.clientWidth });
  while (place.children.length > wanted.length) place.lastChild.remove();
  while (place.children.length < wanted.length) place.append(document.createElement("figure"));
  wanted.forEach((chart, i) => draw(place.children[i], heading, chart, rows, state.events)); // as wide as they are now
}

function element(name, attributes, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

function ticks(low, high, most) {
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= raw * (1 - 1e-9));
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9) || 0; k * step <= high * (1 + 1e-9) + 1e-12; k++) found.push(k * step + 0);
  return found;
}

function draw(place, level, { title, format, zero, lines }, rows, changes) {
  const width = Math.max(place.clientWidth - 28, 240); // without the padding
  const values = lines.flatMap((line) => line.values.filter(Number.isFinite));
  let low = Math.min(...values), high = Math.max(...values);
  if (zero) low = Math.min(low, 0);
  if (high - low < 1e-12) { high += Math.abs(high) * 0.1 || 1; if (!zero) low -= Math.abs(low) * 0.1; }
  const first = 0, last = rows[rows.length - 1];
  const x = (row) => LEFT + (width - LEFT - RIGHT) * (row - first) / Math.max(last - first, 1);
  const y = (value) => TOP + (HEIGHT - TOP - BOTTOM) * (1 - (value - low) / (high - low));
  const shapes = [];
  for (const tick of ticks(low, high, 4)) {
    shapes.push(element("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y(tick), y2: y(tick) }));
    shapes.push(element("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, format(tick)));
  }
  for (const tick of ticks(first, last, 4)) {
    const anchor = tick === 0 ? "start" : x(tick) > width - 40 ? "end" : "middle";
    const label = tick === 0 ? "row 0" : count(Math.round(tick));
    shapes.push(element("text", { x: x(tick), y: HEIGHT - 8, "text-anchor": anchor }, label));
  }
  for (const row of changes) {
    shapes.push(element("line", { class: "event", x1: x(row), x2: x(row), y1: TOP, y2: HEIGHT - BOTTOM }));
  }
  lines.forEach((line, i) => {
    let path = "", pen = "M";
    line.values.forEach((value, k) => {
      if (!Number.isFinite(value)) { pen = "M"; return; }
      path += `${pen}${x(rows[k]).toFixed(1)} ${y(value).toFixed(1)}`;
      pen = "L";
    });
    shapes.push(element("path", { class: `line c${i % 5} d${i % 4}`, d: path }));
  });
  const said = lines.map((line) => {
    const known = line.values.filter(Number.isFinite);
    return known.length ? `${line.label} ${format(known[known.length - 1])}` : null;
  }).filter(Boolean).join(", ");
  const picture = element("svg", {
    viewBox: `0 0 ${width} ${HEIGHT}`, role: "img",
    "aria-label": `${title} over ${count(last)} rows. Now: ${said}. Changes of the stream: ${changes.length}.`,
  }, ...shapes);
  const caption = document.createElement("figcaption");
  const heading = document.createElement(level);
  heading.textContent = title;
  caption.append(heading);
  if (lines.length > 1) {
    lines.forEach((line, i) => {
      const key = document.createElement("span");
      key.className = "key";
      key.append(element("svg", { viewBox: "0 0 26 11", "aria-hidden": "true" },
        element("path", { class: `line c${i % 5} d${i % 4}`, d: "M1 6L25 6" })), ` ${line.label}`);
      caption.append(key);
    });
  }
  place.replaceChildren(caption, picture);
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const { heading, state, width } = drawn.get(target) || {};
    if (state && target.children.length && target.clientWidth !== width) charts(target, heading, state);
  }
});
for (const id of ["charts", "key-charts"]) resized.observe(byId(id));

function choose(name) {
  chosen = name;
  lookAway();
  history.replaceState(null, "", `#${encodeURIComponent(chosen)}`);
  connection.abort("another model");
}
byId("model").addEventListener("change", (event) => choose(event.target.value));
window.addEventListener("hashchange", () => { if (named() !== chosen) choose(named()); });
byId("keys-sort").addEventListener("change", () => { keysAsked = 0; keys(); });
byId("keys-form").addEventListener("submit", (event) => {
  event.preventDefault();
  if (byId("key").value) look(typedKey(byId("key").value));
});
follow();
