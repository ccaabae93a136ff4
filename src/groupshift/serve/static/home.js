// Two files in, and earlier jobs.
import { announce, ask, busy, job, put, root, slots, uploadAll, uploadToNew } from "./dom.js";

const form = document.getElementById("new");
const places = slots(form);

form.addEventListener("submit", (event) => {
  event.preventDefault();
  busy(form, async () => {
    announce("The files are on their way.");
    const id = job ?? (await ask("POST", "jobs")).id;
    await (job ? uploadAll : uploadToNew)(places, id);
    await ask("POST", `jobs/${id}/start/${document.body.dataset.kind === "update" ? "update" : "look"}`);
    if (job) location.reload();
    else location.assign(`${root}jobs/${id}`);
  });
});

document.getElementById("swap")?.addEventListener("click", () => {
  const [first, second] = places.map((place) => place.querySelector("input"));
  const files = [first.files[0], second.files[0]];
  put(first, files[1]);
  put(second, files[0]);
});

for (const button of document.querySelectorAll("[data-remove]")) {
  button.addEventListener("click", () => {
    // A second click is the confirmation.
    if (!button.dataset.sure) {
      button.dataset.sure = "yes";
      button.textContent = "Remove its files for good?";
      return;
    }
    busy(button.closest("li"), async () => {
      await ask("DELETE", `jobs/${button.dataset.remove}`);
      location.reload();
    });
  });
}
