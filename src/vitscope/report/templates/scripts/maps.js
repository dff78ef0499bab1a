// Attention maps: all layers and heads of an image at a glance, one of them enlarged over the image.

const CELL = 32;  // points of a small map's side

const HEAT = Array.from({ length: 256 }, (_, step) => {  // dark violet over orange to yellow
  const stops = [[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]];
  const place = Math.min(step / 255 * (stops.length - 1), stops.length - 1.001), i = Math.floor(place);
  return stops[i].map((c, k) => c + (place - i) * (stops[i + 1][k] - c));
});

const between = (value, most) => Math.min(most, Math.max(0, value));

// The colour of every point of one map (images, heads, rows, columns), enlarged to a picture of the given size.
const paintMap = (layer, image, head, width, height, paint) => {
  const [, heads, rows, columns] = layer.shape, start = (image * heads + head) * rows * columns;
  for (let y = 0; y < height; y += 1) {
    const line = start + Math.floor(y * rows / height) * columns;
    for (let x = 0; x < width; x += 1) paint(x, y, HEAT[layer.steps[line + Math.floor(x * columns / width)]]);
  }
};

const maps = (panel, data) => {
  const pictures = bytesOf(data.images.bytes), [, , tall, wide] = data.images.shape;
  const layers = data.layers.map((one) => ({ ...one, steps: bytesOf(one.bytes) }));
  const most = Math.max(...layers.map((one) => one.heads.length));
  const cell = [CELL, Math.round(CELL * tall / wide)];
  const select = (name, options) => {
    const choice = make("select", {}, ...options.map((text, i) => make("option", { value: i }, text)));
    return [choice, make("label", {}, name, choice)];
  };
  const [image, imageLabel] = select("image", data.places.map((place) => `no. ${place}`));
  const [layer, layerLabel] = select("layer", layers.map((one) => one.name));
  const [head, headLabel] = select("head", []);
  const strength = make("input", { type: "range", min: 0, max: 100, value: 65 });
  const viewer = make("canvas", { className: "viewer", width: wide, height: tall });
  const grid = make("canvas", { width: most * cell[0], height: layers.length * cell[1] });
  const cursor = make("div", { className: "cursor" });
  const overview = make("div", { className: "overview", tabIndex: 0 }, grid, cursor);
  const note = make("p", { className: "note" });
  viewer.setAttribute("role", "img");
  note.setAttribute("aria-live", "polite");
  overview.setAttribute("role", "application");
  overview.setAttribute("aria-label", "All layers (up and down) and heads (left and right) of the image; "
    + "Page Up and Page Down change the image");

  const drawOverview = () => {
    const context = grid.getContext("2d"), pixels = context.createImageData(grid.width, grid.height);
    layers.forEach((one, row) => one.heads.forEach((_, column) => {
      paintMap(one, Number(image.value), column, cell[0] - 2, cell[1] - 2, (x, y, colour) => {
        pixels.data.set([...colour, 255], 4 * ((row * cell[1] + y + 1) * grid.width + column * cell[0] + x + 1));
      });
    }));
    context.putImageData(pixels, 0, 0);
  };

  const draw = () => {
    const one = layers[layer.value], place = Number(image.value), share = strength.value / 100;
    const context = viewer.getContext("2d"), pixels = context.createImageData(wide, tall);
    paintMap(one, place, Number(head.value), wide, tall, (x, y, colour) => {
      const at = 4 * (y * wide + x);
      for (let c = 0; c < 3; c += 1) {
        const grey = pictures[((place * 3 + c) * tall + y) * wide + x];
        pixels.data[at + c] = share * colour[c] + (1 - share) * grey;
      }
      pixels.data[at + 3] = 255;
    });
    context.putImageData(pixels, 0, 0);
    Object.assign(cursor.style, {
      left: `${100 * head.value / most}%`, top: `${100 * layer.value / layers.length}%`,
      width: `${100 / most}%`, height: `${100 / layers.length}%`,
    });
    const top = number(one.highest[place][head.value]);
    const text = `${one.name}, ${one.heads[head.value]}, image no. ${data.places[place]}: `
      + `largest value ${top}, attention of the ${one.query}`;
    viewer.setAttribute("aria-label", text);
    note.textContent = text;
  };

  const choose = (row, column) => {
    const { heads } = layers[row];
    layer.value = row;
    head.replaceChildren(...heads.map((text, i) => make("option", { value: i }, text)));
    head.value = between(column, heads.length - 1);
    draw();
  };

  const placeOf = (event) => {
    const box = grid.getBoundingClientRect();
    const row = between(Math.floor((event.clientY - box.top) / box.height * layers.length), layers.length - 1);
    return [row, between(Math.floor((event.clientX - box.left) / box.width * most), most - 1)];
  };

  layer.addEventListener("change", () => choose(Number(layer.value), Number(head.value)));
  head.addEventListener("change", draw);
  image.addEventListener("change", () => { drawOverview(); draw(); });
  strength.addEventListener("input", draw);
  overview.addEventListener("click", (event) => choose(...placeOf(event)));
  overview.addEventListener("pointermove", (event) => {
    const [row, column] = placeOf(event), one = layers[row];
    if (column < one.heads.length) say(`${one.name}, ${one.heads[column]}`, event.clientX, event.clientY); else hush();
  });
  overview.addEventListener("pointerleave", hush);
  overview.addEventListener("keydown", (event) => {
    const step = {
      ArrowUp: [-1, 0, 0], ArrowDown: [1, 0, 0], ArrowLeft: [0, -1, 0], ArrowRight: [0, 1, 0],
      PageUp: [0, 0, -1], PageDown: [0, 0, 1],
    }[event.key];
    if (!step) return;
    event.preventDefault();
    if (step[2]) {
      image.value = between(Number(image.value) + step[2], data.places.length - 1);
      drawOverview();
    }
    choose(between(Number(layer.value) + step[0], layers.length - 1), Number(head.value) + step[1]);
  });

  overview.style.setProperty("--heads", most);
  const controls = make("div", { className: "controls" }, imageLabel, layerLabel, headLabel,
    make("label", {}, "map over image", strength));
  panel.append(controls, make("div", { className: "maps" }, viewer, overview), note);
  drawOverview();
  choose(data.shown, 0);
};
