// What the pages share: elements from text alone, requests to this page's own address, uploads, alerts.

export const root = document.body.dataset.root;
export const job = document.body.dataset.job;

/** An element with attributes and children; text is always text. */
export function el(tag, attributes = {}, ...children) {
  const svg = ["svg", "g", "line", "circle", "path", "text", "title"].includes(tag);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

/** The answer to a request; an error carries the page's sentence. */
export async function ask(method, path, body) {
  const options = { method, headers: {} };
  if (body !== undefined) {
    options.body = JSON.stringify(body);
    options.headers["Content-Type"] = "application/json";
  }
  let answer;
  try {
    answer = await fetch(root + path, options);
  } catch {
    throw new Error(LOST);
  }
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(found.sentence ?? LOST);
  return found;
}

const LOST = "The program behind this page does not answer. Was it ended in its terminal? Start `groupshift serve` " +
  "again; with --folder, your jobs are found again.";

/** Send a file as it is; `told` hears which part of it has gone. */
export function upload(path, file, told) {
  return new Promise((done, failed) => {
    const request = new XMLHttpRequest();
    request.open("PUT", `${root}${path}?name=${encodeURIComponent(file.name.toWellFormed?.() ?? file.name)}`);
    request.upload.onprogress = (event) => event.lengthComputable && told(event.loaded / event.total);
    request.onload = () => {
      let found = {};
      try { found = JSON.parse(request.responseText); } catch { /* no sentence came */ }
      if (request.status < 300) done(found);
      else failed(new Error(found.sentence ?? LOST));
    };
    request.onerror = () => failed(new Error(
      `${file.name} did not arrive. If it is a folder, or was changed or moved meanwhile, choose it again; else: ${LOST}`));
    request.send(file);
  });
}

/** Say something to those who do not see the page. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** Show a sentence of trouble in the nearest place for it, or take it away. */
export function alertIn(place, sentence) {
  const box = place.querySelector(".alert[hidden], .alert.shown") ?? document.querySelector(".alert[hidden], .alert.shown");
  box.textContent = sentence ?? "";
  box.hidden = !sentence;
  box.classList.toggle("shown", Boolean(sentence));
}

/** Drop zones around file inputs, and what was chosen in words. */
export function slots(form) {
  const all = [...form.querySelectorAll(".slot")];
  for (const slot of all) {
    const input = slot.querySelector("input");
    const show = () => {
      const file = input.files[0];
      slot.querySelector(".chosen").textContent = file ? `${file.name}, ${size(file.size)}` : "";
    };
    input.addEventListener("change", show);
    slot.addEventListener("dragover", (event) => { event.preventDefault(); slot.classList.add("over"); });
    slot.addEventListener("dragleave", () => slot.classList.remove("over"));
    slot.addEventListener("drop", (event) => {
      event.preventDefault();
      slot.classList.remove("over");
      // Two files dropped at once fill this place and the next.
      [...event.dataTransfer.files].slice(0, all.length).forEach((file, i) => {
        put(all[(all.indexOf(slot) + i) % all.length].querySelector("input"), file);
      });
    });
  }
  // A file that misses its place must not replace the page.
  for (const kind of ["dragover", "drop"]) window.addEventListener(kind, (event) => event.preventDefault());
  return all;
}

/** Put a file into an input, as if it had been chosen; none empties it. */
export function put(input, file) {
  const carrier = new DataTransfer();
  if (file) carrier.items.add(file);
  input.files = carrier.files;
  input.dispatchEvent(new Event("change"));
}

/** Upload what the places hold to a job that was made for them; it is removed again if a file is refused. */
export async function uploadToNew(places, id) {
  try {
    await uploadAll(places, id);
  } catch (error) {
    await ask("DELETE", `jobs/${id}`).catch(() => {});
    throw error;
  }
}

/** Upload what the places hold to a job. */
export async function uploadAll(places, id) {
  for (const slot of places) {
    const file = slot.querySelector("input").files[0];
    if (!file) continue;
    const bar = slot.querySelector("progress");
    bar.hidden = false;
    await upload(`jobs/${id}/files/${slot.dataset.slot}`, file, (share) => { bar.value = share; });
    bar.value = 1;
  }
}

function size(bytes) {
  return bytes < 1e6 ? `${Math.max(1, Math.round(bytes / 1e3))} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

/** Run something that the user started: its buttons wait, and trouble is said. */
export async function busy(place, work) {
  const buttons = [...place.querySelectorAll("button")].filter((button) => !button.disabled);
  buttons.forEach((button) => { button.disabled = true; });
  alertIn(place, null);
  try {
    await work();
  } catch (error) {
    alertIn(place, error.message);
  } finally {
    buttons.forEach((button) => { button.disabled = false; });
  }
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(document.getElementById(button.dataset.copy).textContent);
    button.textContent = "Copied";
    announce("Copied");
  });
}
