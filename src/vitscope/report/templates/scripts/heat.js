// Heat maps: name and value of the cell under the pointer, or of the one the arrow keys lead to.

const heat = (panel, data) => {
  const drawing = panel.querySelector(".drawing"), svg = drawing.querySelector("svg");
  const area = (image) => { const b = image.getBoundingClientRect(); return b.width * b.height; };
  const image = [...svg.querySelectorAll("image")].sort((a, b) => area(b) - area(a))[0];
  if (!image) return;
  const rows = data.rows.length, columns = data.columns.length;
  const cursor = make("div", { className: "cursor", hidden: true });
  drawing.append(cursor);
  let row = 0, column = 0;
  const show = () => {
    const box = image.getBoundingClientRect(), home = drawing.getBoundingClientRect();
    const width = box.width / columns, height = box.height / rows;
    const left = box.left + column * width, top = box.bottom - (row + 1) * height;
    Object.assign(cursor.style, {
      left: `${left - home.left}px`, top: `${top - home.top}px`, width: `${width}px`, height: `${height}px`,
    });
    cursor.hidden = false;
    const found = interval(data.value[row][column], data.low[row][column], data.high[row][column]);
    say(`${data.rows[row]} and ${data.columns[column]}: ${data.quantity} ${found}`, left + width / 2, top + height);
  };
  const leave = () => { cursor.hidden = true; hush(); };
  svg.addEventListener("pointermove", (event) => {
    const box = image.getBoundingClientRect();
    const x = (event.clientX - box.left) / box.width, y = (box.bottom - event.clientY) / box.height;
    if (x < 0 || x >= 1 || y < 0 || y >= 1) { leave(); return; }
    [row, column] = [Math.floor(y * rows), Math.floor(x * columns)];
    show();
  });
  svg.addEventListener("pointerleave", leave);
  svg.tabIndex = 0;
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] }[event.key];
    if (!step) return;
    event.preventDefault();
    row = Math.min(rows - 1, Math.max(0, row + step[0]));
    column = Math.min(columns - 1, Math.max(0, column + step[1]));
    show();
  });
};
