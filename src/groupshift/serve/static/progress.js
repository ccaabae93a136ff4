// A task under way: its steps, how far the last has come, and a way to stop it.
import { alertIn, announce, ask, busy, el, job } from "./dom.js";

const steps = document.getElementById("steps");
const bar = document.getElementById("bar");
const waiting = document.getElementById("waiting");
let screen = "progress";

function show(state) {
  waiting.hidden = state.status !== "waiting" || !state.sentence;
  waiting.textContent = state.sentence;
  const last = state.steps.length - 1;
  // A line for each step once, so that a screen reader is not told everything again.
  state.steps.forEach((name, i) => {
    if (!steps.children[i]) {
      steps.append(el("li", {}, name));
      announce(name);
    }
    steps.children[i].className = i === last ? "now" : "";
    if (i === last) steps.children[i].setAttribute("aria-current", "step");
    else steps.children[i].removeAttribute("aria-current");
  });
  if (state.share === null) bar.removeAttribute("value");
  else bar.value = state.share;
  document.getElementById("last").textContent = state.last === state.steps[last] ? "" : state.last;
}

async function follow() {
  try {
    const state = await ask("GET", `jobs/${job}/state`);
    screen = state.screen;
    if (screen !== "progress") {
      location.reload();
      return;
    }
    alertIn(document, null);
    show(state);
  } catch (error) {
    alertIn(document, error.message);
  }
  setTimeout(follow, 500);
}

document.getElementById("stop").addEventListener("click", (event) => {
  busy(event.target.parentElement, () => ask("POST", `jobs/${job}/stop`));
});
follow();
