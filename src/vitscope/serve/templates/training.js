"use strict";
// Asks how far the training is every two seconds, and draws the curve anew when an epoch is finished.
const PERIOD = 2000;
const page = document.body.dataset;
const at = (id) => document.getElementById(id);
let epochs = Number(page.epochs);

function line(row, tag, cells) {
  for (const text of cells) {
    const made = document.createElement(tag);
    made.className = "number";
    made.textContent = text;
    row.append(made);
  }
  return row;
}

function show(found) {
  const run = found.entry;
  at("state").textContent = run.state;
  at("state").className = "state " + run.state;
  at("exams").hidden = run.exams === 0 || run.state === "damaged";
  if (run.epochs === epochs) return;
  epochs = run.epochs;
  at("epochs").textContent = epochs;
  at("none").hidden = epochs > 0;
  at("curve").hidden = epochs === 0;
  at("curve").src = `/curve/${page.path}?epochs=${epochs}`;
  at("columns").replaceChildren();
  line(at("columns"), "th", found.columns.map((name) => name.replaceAll("_", " ")));
  at("rows").replaceChildren(...found.rows.map((cells) => line(document.createElement("tr"), "td", cells)));
}

async function follow() {
  try {
    const answer = await fetch("/progress/" + page.path, { cache: "no-store" });
    if (answer.ok) show(await answer.json());
  } catch {
    at("state").textContent = "the server does not answer";
  }
  setTimeout(follow, PERIOD);
}

setTimeout(follow, PERIOD);
