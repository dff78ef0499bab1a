"use strict";
// Asks for the runs every two seconds and shows those that pass the filter. All text goes in as text, never as markup.
const PERIOD = 2000;
const box = document.getElementById("filter"), state = document.getElementById("state");
const body = document.getElementById("runs"), count = document.getElementById("count"), none = document.getElementById("none");
let runs = null, shown = "";

function cell(row, text, numeric) {
  const made = row.insertCell();
  made.textContent = text;
  if (numeric) made.className = "number";
  return made;
}

function kind(text) {
  if (!text) return [];
  const made = document.createElement("span");
  made.className = "kind";
  made.textContent = text;
  return [" ", made];
}

function address(path) {
  return "/run/" + path.split("/").map(encodeURIComponent).join("/");
}

function accuracy(run) {
  if (run.accuracy === null) return "–";
  const [value, low, high] = [run.accuracy, run.low, run.high].map((number) => (100 * number).toFixed(1));
  const named = run.score === "Accuracy" ? "" : run.score + " ";
  return `${named}${value}\u00a0% [${low},\u00a0${high}]`; // at most the interval goes to another line
}

function passes(run) {
  const text = [run.path, run.name, run.model, run.data, run.kind].join(" ").toLowerCase();
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  return (!state.value || run.state === state.value) && words.every((word) => text.includes(word));
}

function show() {
  if (runs === null) return;
  const chosen = runs.filter(passes), now = JSON.stringify(chosen);
  count.textContent = chosen.length === runs.length ? `${runs.length} runs` : `${chosen.length} of ${runs.length} runs`;
  none.hidden = runs.length > 0;
  if (now === shown) return;
  shown = now;
  body.replaceChildren();
  for (const run of chosen) {
    const row = body.insertRow(), link = document.createElement("a"), badge = document.createElement("span");
    link.href = address(run.path);
    link.textContent = run.path === "." ? run.name : run.path;
    cell(row, "").append(link, ...kind(run.kind === "study" ? "study" : ""));
    cell(row, run.model).append(...kind(run.random_weights ? "random weights" : ""));
    cell(row, run.data);
    badge.className = "state " + run.state;
    badge.textContent = run.state;
    const trouble = document.createElement("span");
    trouble.className = "trouble";
    trouble.textContent = run.trouble;
    cell(row, "").append(badge, " ", trouble);
    cell(row, run.exams, true);
    cell(row, run.epochs, true);
    cell(row, accuracy(run), true);
    cell(row, run.started.slice(0, 16).replace("T", " "));
  }
}

async function follow() {
  try {
    const answer = await fetch("/runs.json", { cache: "no-store" });
    if (answer.ok) {
      runs = (await answer.json()).runs;
      show();
    }
  } catch {
    count.textContent = "the server does not answer";
  }
  setTimeout(follow, PERIOD);
}

box.form.addEventListener("submit", (event) => event.preventDefault());
box.addEventListener("input", show);
state.addEventListener("input", show);
follow();
