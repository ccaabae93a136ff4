// Columns and their roles, and what the user knows beside the files. What is clicked is kept at once.
import { alertIn, announce, ask, busy, el, job, root } from "./dom.js";

const place = document.getElementById("main");
const body = document.querySelector("#columns tbody");
const ONE = ["target", "group", "weight", "example_id"];
let found = null;
let settings = null;
let kept = Promise.resolve();

function roleOf(column) {
  return settings.roles[column.name] ?? column.usual;
}

function setRole(column, role) {
  const roles = { ...settings.roles };
  if (ONE.includes(role)) for (const other of Object.keys(roles)) if (roles[other] === role) delete roles[other];
  if (role === column.usual) delete roles[column.name];
  else roles[column.name] = role;
  const positive = role === "target" || settings.roles[column.name] === "target" ? null : settings.positive;
  settings = { ...settings, roles, positive };
  // A page without any role would be guessed at again.
  if (!Object.keys(roles).length) settings.roles[column.name] = role;
  showRoles();
  keep();
}

function line(column, i) {
  const pills = el("fieldset", { class: "roles" }, el("legend", { class: "hidden" }, `Role of ${column.name}`));
  for (const [role, name] of Object.entries(found.roles)) {
    const button = el("input", { type: "radio", name: `role-${i}`, value: role });
    button.addEventListener("change", () => setRole(column, role));
    pills.append(el("label", {}, button, el("span", {}, name)));
  }
  const where = column.where ? [el("span", { class: "where" }, column.where)] : [];
  return el("tr", {}, el("th", { scope: "row" }, el("bdi", {}, column.name), ...where), el("td", {}, pills),
    el("td", { class: "first" }), el("td", { class: "kind" }), el("td", { class: "remark" }));
}

function showRoles() {
  found.columns.forEach((column, i) => {
    const own = roleOf(column);
    for (const button of body.children[i].querySelectorAll("input")) button.checked = button.value === own;
  });
}

function kindOf(column) {
  const parts = [column.kind + (column.written ? ` (${column.written})` : ""), column.described];
  const missing = Math.max(0, ...column.missing);
  if (missing) parts.push(`up to ${missing < 0.01 ? "1" : Math.round(100 * missing)} % missing`);
  return parts.filter(Boolean).join("; ");
}

function show() {
  if (body.children.length !== found.columns.length) body.replaceChildren(...found.columns.map(line));
  found.columns.forEach((column, i) => {
    const [, , first, kind, remark] = body.children[i].children;
    first.textContent = column.first.map((value) => value || "(missing)").join(" · ");
    kind.textContent = kindOf(column);
    remark.textContent = column.remark;
  });
  showRoles();
  const files = found.files.map((file, i) =>
    `${file.name}: ${file.format}, ${found.file_rows ? `${found.file_rows[i].toLocaleString("en")} rows, ` : ""}${file.columns} columns`);
  const sizes = found.labeled_rows === undefined ? [] : [
    `${found.labeled_rows.toLocaleString("en")} labelled rows, ${found.composition}; ` +
    `${found.unlabeled_rows.toLocaleString("en")} unlabelled rows`];
  document.getElementById("sizes").textContent = [...files, ...sizes].join(". ") + ".";
  document.getElementById("alarms").replaceChildren(...found.alarms.map((text) => el("p", { class: "alert", role: "alert" }, text)));
  document.getElementById("notes").replaceChildren(...found.notes.map((text) => el("li", {}, text)));
  document.getElementById("groups").replaceChildren(...found.groups.map((name) => el("option", { value: name })));
  const positive = document.getElementById("positive");
  positive.replaceChildren(el("option", { value: "" }, "as read"), ...found.values.map((value) => el("option", { value }, value)));
  positive.value = settings.positive ?? (found.positive === undefined ? "" : found.positive);
}

/** Keep the settings on the page's side, one request after the other. */
function keep() {
  const sent = settings;
  kept = kept.then(async () => {
    if (sent !== settings) return;
    const answer = await ask("PUT", `jobs/${job}/settings`, sent);
    document.getElementById("command").textContent = answer.command;
    alertIn(place, null);
    if (answer.looks) follow();
  }).catch((error) => alertIn(place, error.message));
  return kept;
}

let following = null;
async function follow() {
  clearTimeout(following);
  const looking = document.getElementById("looking");
  const state = await ask("GET", `jobs/${job}/state?task=look`);
  if (state.status === "waiting" || state.status === "running") {
    looking.textContent = state.sentence || `Looking again with these roles. ${state.last} …`;
    following = setTimeout(follow, 400);
    return;
  }
  looking.textContent = "";
  if (state.status === "failed") alertIn(place, state.sentence);
  found = await ask("GET", `jobs/${job}/columns`);
  show();
  document.getElementById("command").textContent = found.command;
}

/** A percentage as a share; a comma is as good as a point. Undefined where it is none, null where nothing stands. */
function share(text) {
  const plain = text.trim().replace("%", "").replace(",", ".").trim();
  if (!plain) return null;
  const value = Number(plain) / 100;
  return Number.isFinite(value) && value >= 0 && value <= 1 ? value : undefined;
}

function readShare(input) {
  const value = share(input.value);
  input.classList.toggle("invalid", value === undefined);
  input.setAttribute("aria-invalid", value === undefined);
  return value;
}

function knownLine(known = {}) {
  const of = (value) => (value === null || value === undefined ? "" : Number((100 * value).toPrecision(10)));
  const inputs = [["Group", known.group ?? "", { list: "groups" }], ["Share in percent", of(known.share), { inputmode: "decimal" }],
    ["Standard error in points, if known", of(known.std_error), { inputmode: "decimal" }]]
    .map(([label, value, more]) => el("input", { type: "text", "aria-label": label, placeholder: label, value, autocomplete: "off", ...more }));
  const remove = el("button", { type: "button", "aria-label": "Remove this group" }, "Remove");
  const made = el("tr", {}, ...inputs.map((input) => el("td", {}, input)), el("td", {}, remove));
  inputs.forEach((input) => input.addEventListener("change", readKnown));
  remove.addEventListener("click", () => { made.remove(); readKnown(); document.getElementById("add-known").focus(); });
  return made;
}

function readKnown() {
  const help = document.getElementById("known-help");
  help.textContent = "";
  const known = [];
  for (const row of document.querySelectorAll("#known tbody tr")) {
    const [group, own, error] = row.querySelectorAll("input");
    const value = readShare(own), std = readShare(error);
    if (!group.value.trim() && value === null) continue;
    if (!group.value.trim() || value === null || value === undefined || std === undefined) {
      help.textContent = "A line needs a group and a share between 0 and 100 %; it is not used yet.";
      continue;
    }
    known.push({ group: group.value.trim(), share: value, std_error: std });
  }
  settings = { ...settings, known_shares: known };
  keep();
}

document.getElementById("add-known").addEventListener("click", () => {
  const made = knownLine();
  document.querySelector("#known tbody").append(made);
  made.querySelector("input").focus();
});
document.getElementById("positive").addEventListener("change", (event) => {
  settings = { ...settings, positive: event.target.value || null };
  keep();
});
document.getElementById("overall").addEventListener("change", (event) => {
  const value = readShare(event.target);
  document.getElementById("overall-help").textContent = value === undefined ? "This is no rate between 0 and 100 %." : "";
  if (value === undefined) return;
  settings = { ...settings, known_overall: value };
  keep();
});
for (const button of document.querySelectorAll("[name=selection]")) {
  button.addEventListener("change", () => { settings = { ...settings, selection: button.value }; keep(); });
}
document.getElementById("fit").addEventListener("click", (event) => {
  busy(event.target.parentElement, async () => {
    await kept;
    await ask("POST", `jobs/${job}/start/fit`);
    announce("The fit begins.");
    location.assign(`${root}jobs/${job}`);
  });
});

async function start() {
  found = await ask("GET", `jobs/${job}/columns`);
  settings = found.settings;
  show();
  document.querySelector(`[name=selection][value=${settings.selection}]`).checked = true;
  if (settings.known_overall !== null) document.getElementById("overall").value = Number((100 * settings.known_overall).toPrecision(10));
  document.querySelector("#known tbody").append(...settings.known_shares.map(knownLine));
  document.documentElement.classList.add("drawn");
  follow();
}
start();
