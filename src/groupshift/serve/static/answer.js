// Shares that can be sorted and searched, the map of what selection would change, predictions, and the next update.
import { announce, ask, busy, el, job, root, slots, uploadToNew } from "./dom.js";

const PAGE = 50;
const MOST_DRAWN = 40;
const COLUMNS = {
  group: "Group", share: "Share", low: "90 % interval", labeled: "Labelled sample", if_likelier: "If twice as likely",
  before: "Before", change: "Change", rows: "Rows",
};
const percent = (value, digits = 1) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)} %`);
const points = (value) => (value === null ? "new" : `${value < 0 ? "−" : "+"}${Math.abs(100 * value).toFixed(1)}`);
let shares = null;
let order = [];
let sorted = { by: "share", up: false };
let first = 0;

/** A cell of the line of a group, or of all together. */
function text(name, line) {
  if (name === "rows") return line.rows.toLocaleString("en");
  if (name === "low") return `${percent(line.low)} to ${percent(line.high)}`;
  if (name === "change") return points(line.change);
  if (name.startsWith("class ")) return percent(line[name]);
  if (name === "labeled") return line.labeled === null ? "none" : percent(line.labeled);
  return percent(line[name]);
}

function row(name, line, names, whole) {
  return el("tr", { class: whole ? "marked" : null }, el("th", { scope: "row" }, el("bdi", {}, name)),
    ...names.map((column) => el("td", {}, text(column, line))));
}

function arrange() {
  const wanted = document.getElementById("search").value.trim().toLocaleLowerCase();
  const all = shares.group.map((_, i) => i);
  // The largest moves, up or down, come first.
  const key = sorted.by === "change" ? shares.change.map((value) => value && Math.abs(value)) : shares[sorted.by];
  order = all.filter((i) => shares.group[i].toLocaleLowerCase().includes(wanted));
  const compare = sorted.by === "group" ? (a, b) => key[a].localeCompare(key[b], undefined, { numeric: true }) : (a, b) => key[a] - key[b];
  // What has no number stands at the end, whichever way.
  order.sort((a, b) => (key[a] === null) - (key[b] === null) || (sorted.up ? compare(a, b) : compare(b, a)) || a - b);
  first = 0;
  document.getElementById("found").textContent = wanted ? `${order.length} of ${all.length} groups` : "";
  draw();
}

function draw() {
  const names = Object.keys(COLUMNS).filter((name) => name in shares);
  document.querySelector("#shares thead tr").replaceChildren(...names.map((name) => {
    const own = sorted.by === name;
    const button = el("button", { type: "button" }, COLUMNS[name] + (own ? (sorted.up ? " ↑" : " ↓") : ""));
    button.addEventListener("click", () => {
      sorted = { by: name, up: own ? !sorted.up : name === "group" };
      arrange();
      document.querySelector(`#shares th[data-name="${name}"] button`).focus();
      announce(`Sorted by ${COLUMNS[name]}, ${sorted.up ? "ascending" : "descending"}`);
    });
    return el("th", { scope: "col", "data-name": name, "aria-sort": own ? (sorted.up ? "ascending" : "descending") : null }, button);
  }));
  const shown = order.slice(first, first + PAGE);
  const numbers = names.slice(1);
  const line = (i) => Object.fromEntries([...numbers, "high"].filter((name) => name in shares).map((name) => [name, shares[name][i]]));
  // All groups together stand first, however the others are sorted.
  document.querySelector("#shares tbody").replaceChildren(row("All groups together", shares.overall, numbers, true),
    ...shown.map((i) => row(shares.group[i], line(i), numbers, false)));
  const pages = order.length > PAGE;
  document.querySelector(".pager").hidden = !pages;
  document.getElementById("where").textContent = `${first + 1}–${first + shown.length} of ${order.length.toLocaleString("en")}`;
  document.getElementById("back").disabled = first === 0;
  document.getElementById("forth").disabled = first + PAGE >= order.length;
}

/** Shares as estimated and as they would be, a line for each group; the largest groups where they are many. */
function map() {
  const drawn = shares.group.map((_, i) => i).sort((a, b) => shares.rows[b] - shares.rows[a]).slice(0, MOST_DRAWN)
    .sort((a, b) => shares.share[b] - shares.share[a]);
  const place = document.getElementById("map");
  const width = Math.max(320, Math.min(780, place.clientWidth || 780));
  const left = Math.min(180, width * 0.34), right = width - 26, lineHeight = 24;
  const x = (value) => left + (right - left) * value;
  const height = 34 + lineHeight * drawn.length;
  const svg = el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-labelledby": "map-words" });
  for (const tick of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(el("line", { class: "grid", x1: x(tick), x2: x(tick), y1: 20, y2: height }),
      el("text", { class: "tick", x: x(tick), y: 13 }, percent(tick, 0)));
  }
  drawn.forEach((i, at) => {
    const y = 34 + lineHeight * at, now = x(shares.share[i]), then = x(shares.if_likelier[i]);
    const name = shares.group[i], most = Math.floor(left / 7.5);
    svg.append(el("g", {},
      el("title", {}, `${name}: ${percent(shares.share[i])}; if twice as likely: ${percent(shares.if_likelier[i])}`),
      el("text", { class: "end", x: left - 10, y: y + 4 }, name.length > most ? `${name.slice(0, most - 1)}…` : name),
      el("line", { class: "link", x1: now, x2: then, y1: y, y2: y }),
      el("path", { class: "other", d: `M${then} ${y - 4.6}L${then + 4.6} ${y}L${then} ${y + 4.6}L${then - 4.6} ${y}Z` }),
      el("circle", { class: "dot", cx: now, cy: y, r: 4.3 })));
  });
  place.replaceChildren(svg);
  const { share, if_likelier: then } = shares.overall;
  const rest = shares.group.length > drawn.length ? ` The picture shows the ${drawn.length} groups with most rows; the table has all.` : "";
  document.getElementById("map-words").textContent =
    `All groups together: ${percent(then)} would be positive instead of ${percent(share)}.${rest}`;
}

for (const [id, step] of [["back", -PAGE], ["forth", PAGE]]) {
  document.getElementById(id)?.addEventListener("click", () => { first += step; draw(); });
}

for (const button of document.querySelectorAll("[data-predict]")) {
  button.addEventListener("click", () => busy(button.parentElement, async () => {
    const task = `predict${button.dataset.predict}`;
    const told = document.getElementById("predicting");
    await ask("POST", `jobs/${job}/start/${task}`);
    for (;;) {
      const state = await ask("GET", `jobs/${job}/state?task=${encodeURIComponent(task)}`);
      if (state.status === "done") break;
      if (!["waiting", "running"].includes(state.status)) { told.textContent = ""; throw new Error(state.sentence); }
      told.textContent = state.sentence || `Predicting. ${state.last} …`;
      await new Promise((next) => setTimeout(next, 400));
    }
    location.reload();
  }));
}

const form = document.getElementById("update");
const places = slots(form);
form.addEventListener("submit", (event) => {
  event.preventDefault();
  busy(form, async () => {
    const { id } = await ask("POST", `jobs/${job}/update`);
    await uploadToNew(places, id);
    await ask("POST", `jobs/${id}/start/update`);
    location.assign(`${root}jobs/${id}`);
  });
});

document.getElementById("again").addEventListener("click", (event) => busy(event.target.parentElement, async () => {
  const { id } = await ask("POST", `jobs/${job}/again`);
  location.assign(`${root}jobs/${id}`);
}));

if (document.getElementById("shares")) {
  shares = await ask("GET", `jobs/${job}/shares`);
  if (shares.change) sorted = { by: "change", up: false };
  if (shares.classes) {
    // Of several classes each has a column of shares.
    delete COLUMNS.rows;
    shares.classes.forEach((name, i) => { COLUMNS[`class ${i}`] = name; });
    COLUMNS.rows = "Rows";
    sorted = { by: "group", up: true };
  }
  document.getElementById("search").addEventListener("input", arrange);
  arrange();
  if (document.getElementById("map")) {
    map();
    window.addEventListener("resize", map);
  }
}
document.documentElement.classList.add("drawn");
