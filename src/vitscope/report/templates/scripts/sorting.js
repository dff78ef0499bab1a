// Tables whose columns can be sorted by: a click on a heading, the largest first, then the least first.

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], headings = [...table.tHead.rows[0].cells];
  const value = (row, i) => {
    const { sort } = row.cells[i].dataset;
    return sort === undefined ? row.cells[i].textContent.trim().toLowerCase() : Number(sort);
  };
  const compare = (a, b, up) => {
    const words = typeof a === "string";
    if (!words && (Number.isNaN(a) || Number.isNaN(b))) return Number.isNaN(a) - Number.isNaN(b);  // unknown: last
    return (up ? 1 : -1) * (words ? a.localeCompare(b) : a - b);
  };
  headings.forEach((heading, i) => {
    const name = heading.textContent;
    const button = make("button", { type: "button", className: "sort", title: `sort by ${name}` }, name);
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = typeof value(body.rows[0], i) === "string" ? "ascending" : "descending";
      const before = heading.getAttribute("aria-sort");
      const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
      for (const other of headings) other.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order);
      const up = order === "ascending";
      body.append(...[...body.rows].sort((a, b) => compare(value(a, i), value(b, i), up)));
    });
  });
}
