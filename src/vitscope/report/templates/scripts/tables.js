// Tables and CSV files out of packed data.

const parseCsv = (text) => {
  const rows = [[""]];
  let quoted = false;
  for (let i = 0; i < text.length; i += 1) {
    const c = text[i], row = rows[rows.length - 1];
    if (quoted && c === '"' && text[i + 1] === '"') { row[row.length - 1] += c; i += 1; }
    else if (c === '"') quoted = !quoted;
    else if (c === "," && !quoted) row.push("");
    else if (c === "\n" && !quoted) rows.push([""]);
    else row[row.length - 1] += c;
  }
  return rows.filter((row) => row.length > 1 || row[0]);
};

const shown = (cell) => {
  const value = Number(cell);
  return cell !== "" && Number.isFinite(value) ? String(Number(value.toPrecision(4))) : cell || "–";
};

const buildTable = (text) => {
  const [names, ...rows] = parseCsv(text);
  const kept = names.map((_, i) => i).filter((i) => rows.some((row) => row[i]));
  const word = (i) => (rows.some((row) => row[i] && !Number.isFinite(Number(row[i]))) ? "word" : "");
  const classes = names.map((_, i) => word(i));
  const head = make("tr", {}, ...kept.map((i) => make("th", { scope: "col", className: classes[i] }, names[i])));
  const body = rows.map((row) =>
    make("tr", {}, ...kept.map((i) => make("td", { className: classes[i] }, shown(row[i])))));
  return make("table", {}, make("thead", {}, head), make("tbody", {}, ...body));
};

const save = (name, text) => {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};

for (const details of document.querySelectorAll("details.data")) {
  const payload = details.querySelector(".payload"), button = details.querySelector("button");
  button.disabled = false;
  button.addEventListener("click", async () => save(button.dataset.file, await unpack(payload)));
  details.addEventListener("toggle", async () => {
    const place = details.querySelector(".scroll");
    if (details.open && !place.firstChild) place.append(buildTable(await unpack(payload)));
  });
}
