"use strict";
// What the page adds once it is open: tables and CSV files out of packed data, names under the pointer, lines that can be
// picked out, attention maps by image and head, surfaces that can be turned. Everything is readable without it.
(() => {
  const tip = document.getElementById("tip");

  const unpack = async (element) => {
    const bytes = Uint8Array.from(atob(element.textContent), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new Response(stream).text();
  };

  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  const say = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - box.width - 4))}px`;
    tip.style.top = `${y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18}px`;
  };

  const hush = () => { tip.hidden = true; };

  const number = (value) => (value === null ? "unknown" : String(Number(value.toPrecision(3))));

  const interval = (value, low, high) =>
    low === null ? number(value) : `${number(value)} [${number(low)}, ${number(high)}]`;

  // --- tables ---

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

  // --- heat maps: name and value of the cell under the pointer, or of the one the arrow keys lead to ---

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

  // --- lines of units: kinds switched on and off, one unit picked out, the name of the nearest line ---

  const pointsOf = (group) => {
    const path = group.querySelector("path");
    const found = path ? (path.getAttribute("d").match(/-?\d+(\.\d+)?/g) || []).map(Number) : [];
    return found.flatMap((x, i) => (i % 2 ? [] : [[x, found[i + 1]]]));
  };

  const distance = ([px, py], [ax, ay], [bx, by]) => {
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    const t = length ? Math.max(0, Math.min(1, ((px - ax) * (bx - ax) + (py - ay) * (by - ay)) / length)) : 0;
    return Math.hypot(px - ax - t * (bx - ax), py - ay - t * (by - ay));
  };

  const series = (panel, data) => {
    const svg = panel.querySelector("svg");
    const lines = data.units.map((unit, i) => {
      const group = svg.querySelector(`[data-series="${i}"]`);
      return group && { ...unit, group, points: pointsOf(group) };
    }).filter(Boolean);
    const off = new Set();
    let picked = "";
    const update = (hovered) => {
      for (const line of lines) {
        const chosen = hovered ? line === hovered : !picked || line.name === picked;
        line.group.style.display = off.has(line.kind) ? "none" : "";
        line.group.classList.toggle("faded", !chosen);
        line.group.classList.toggle("picked", chosen && Boolean(hovered || picked));
      }
    };
    const kinds = [...new Set(lines.map((line) => line.kind))].map((kind) => {
      const box = make("input", { type: "checkbox", checked: true });
      box.addEventListener("change", () => { if (box.checked) off.delete(kind); else off.add(kind); update(); });
      return make("label", {}, box, kind);
    });
    const choice = make("select", {}, make("option", { value: "" }, "all units"),
      ...lines.map((line) => make("option", { value: line.name }, line.name)));
    choice.setAttribute("aria-label", "Unit to pick out");
    choice.addEventListener("change", () => { picked = choice.value; update(); });
    panel.append(make("div", { className: "controls" }, ...kinds, choice));
    svg.addEventListener("pointermove", (event) => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      let nearest = null, least = 8;
      for (const line of lines) {
        if (off.has(line.kind)) continue;
        for (let i = 1; i < line.points.length; i += 1) {
          const d = distance([place.x, place.y], line.points[i - 1], line.points[i]);
          if (d < least) [nearest, least] = [line, d];
        }
      }
      update(nearest);
      if (nearest) say(`${nearest.name} (${nearest.kind})`, event.clientX, event.clientY); else hush();
    });
    svg.addEventListener("pointerleave", () => { update(); hush(); });
  };

  // --- attention maps: layer, head and image by choice ---

  const heatColour = (t) => {  // dark violet over orange to yellow
    const stops = [[0, 0, 4], [87, 16, 110], [188, 55, 84], [249, 142, 9], [252, 255, 164]];
    const place = Math.min(t * (stops.length - 1), stops.length - 1.001), i = Math.floor(place);
    return stops[i].map((c, k) => c + (place - i) * (stops[i + 1][k] - c));
  };

  const maps = (panel, data) => {
    const select = (name, options) => {
      const choice = make("select", {}, ...options.map((text, i) => make("option", { value: i }, text)));
      return [choice, make("label", {}, name, choice)];
    };
    const [layer, layerLabel] = select("layer", data.layers.map((one) => one.name));
    const [head, headLabel] = select("head", data.layers[0].heads);
    const [image, imageLabel] = select("image", data.places.map((place) => `no. ${place}`));
    const strength = make("input", { type: "range", min: 0, max: 100, value: 65 });
    const canvas = make("canvas", { className: "viewer" });
    canvas.setAttribute("role", "img");
    const draw = () => {
      const one = data.layers[layer.value], map = one.maps[image.value][head.value];
      const picture = data.images[image.value], side = [picture[0].length, picture[0][0].length];
      [canvas.height, canvas.width] = side;
      const context = canvas.getContext("2d"), pixels = context.createImageData(side[1], side[0]);
      const share = strength.value / 100;
      for (let y = 0; y < side[0]; y += 1) {
        for (let x = 0; x < side[1]; x += 1) {
          const value = map[Math.floor(y * map.length / side[0])][Math.floor(x * map[0].length / side[1])] / 255;
          const colour = heatColour(value), at = 4 * (y * side[1] + x);
          for (let c = 0; c < 3; c += 1) pixels.data[at + c] = share * colour[c] + (1 - share) * picture[c][y][x];
          pixels.data[at + 3] = 255;
        }
      }
      context.putImageData(pixels, 0, 0);
      const top = number(one.highest[image.value][head.value]);
      const text = `${one.name}, ${one.heads[head.value]}, image no. ${data.places[image.value]}: largest value ${top}`;
      canvas.setAttribute("aria-label", text);
      note.textContent = text;
    };
    const note = make("span", { className: "note" });
    layer.addEventListener("change", () => {
      const before = head.value, heads = data.layers[layer.value].heads;
      head.replaceChildren(...heads.map((text, i) => make("option", { value: i }, text)));
      head.value = before < heads.length ? before : 0;
      draw();
    });
    for (const control of [head, image]) control.addEventListener("change", draw);
    strength.addEventListener("input", draw);
    const controls = make("div", { className: "controls" }, layerLabel, headLabel, imageLabel,
      make("label", {}, "map over image", strength));
    panel.append(controls, canvas, make("div", {}, note));
    draw();
  };

  // --- surfaces: the script that draws them is large, so that it is unpacked when it is asked for ---

  let plotly = null;
  const loadPlotly = () => {
    plotly ??= unpack(document.getElementById("plotly")).then((text) => {
      document.head.append(make("script", { textContent: text }));
      return window.Plotly;
    });
    return plotly;
  };

  const surface = (panel, figure) => {
    const button = make("button", { type: "button" }, "Turn it by hand");
    button.addEventListener("click", async () => {
      button.disabled = true;
      const library = await loadPlotly(), style = getComputedStyle(document.body);
      const place = make("div", { className: "surface" });
      panel.querySelector(".drawing").replaceChildren(place);
      const axis = { color: style.color, gridcolor: "#8088", zerolinecolor: "#8088" };
      for (const name of ["xaxis", "yaxis", "zaxis"]) Object.assign(figure.layout.scene[name] ??= {}, axis);
      figure.layout.font = { ...figure.layout.font, color: style.color, family: style.fontFamily };
      await library.newPlot(place, figure.data, figure.layout, { responsive: true, displayModeBar: false });
      button.parentElement.remove();
    });
    panel.append(make("div", { className: "controls" }, button));
  };

  const widgets = { heat, series, maps, surface };
  const waiting = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      waiting.unobserve(target);
      unpack(target.querySelector(".payload")).then((text) => {
        widgets[target.dataset.widget](target, JSON.parse(text));
        target.dataset.ready = "yes";
      });
    }
  }, { rootMargin: "600px" });
  for (const panel of document.querySelectorAll("[data-widget]")) waiting.observe(panel);

  addEventListener("keydown", (event) => { if (event.key === "Escape") hush(); });
})();
