// Models as points by any two of their numbers, with intervals where there are some.

const svgElement = (tag, attributes, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
};

const ticksOf = (low, high, logarithmic) => {
  if (logarithmic) {
    const found = [];
    for (let e = Math.floor(Math.log10(low)); e <= Math.log10(high); e += 1)
      for (const m of [1, 2, 5]) if (m * 10 ** e >= low && m * 10 ** e <= high) found.push(m * 10 ** e);
    return found.length > 8 ? found.filter((_, i) => i % 3 === 0) : found;
  }
  const rough = (high - low) / 5, size = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * size).find((s) => s >= rough);
  const first = Math.ceil(low / step);
  return Array.from({ length: Math.floor(high / step) - first + 1 }, (_, i) => (first + i) * step);
};

const short = (value) => {
  const unit = [[1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([size]) => Math.abs(value) >= size);
  return unit ? `${Number((value / unit[0]).toPrecision(3))} ${unit[1]}` : number(value);
};

const widthOf = (svg, words) => {
  const text = svg.appendChild(svgElement("text", {}, words)), { width } = text.getBBox();
  text.remove();
  return width;
};

const scatter = (panel, data) => {
  const drawing = panel.querySelector(".drawing"), width = 760, height = 460;
  const edge = { right: 18, top: 14, bottom: 46 };
  const names = Object.keys(data.numbers);
  const choose = (label, chosen) => {
    const select = make("select", {}, ...names.map((name) => make("option", { value: name }, name)));
    select.value = chosen;
    select.addEventListener("change", draw);
    return [select, make("label", {}, `${label} `, select)];
  };
  const [across, acrossLabel] = choose("across", data.across), [up, upLabel] = choose("up", data.up);
  panel.insertBefore(make("div", { className: "controls" }, acrossLabel, upLabel), drawing);

  function scaleOf(name, places, from, to) {
    const { value, low, high, log } = data.numbers[name];
    const known = places.flatMap((i) => [value[i], low[i], high[i]]).filter((v) => v !== null && (!log || v > 0));
    const map = log ? Math.log10 : (v) => v;
    let least = Math.min(...known), most = Math.max(...known);
    if (least === most) [least, most] = log ? [least / 2, most * 2] : [least - 1, most + 1];
    const room = 0.05 * (map(most) - map(least)), start = map(least) - room, end = map(most) + room;
    const place = (v) => from + ((map(v) - start) / (end - start)) * (to - from);
    return { place, ticks: ticksOf(log ? 10 ** start : start, log ? 10 ** end : end, log) };
  }

  function draw() {
    const x = data.numbers[across.value], y = data.numbers[up.value];
    const usable = (n, i) => n.value[i] !== null && (!n.log || n.value[i] > 0);
    const places = data.models.map((_, i) => i).filter((i) => usable(x, i) && usable(y, i));
    const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, role: "img" });
    svg.setAttribute("aria-label", `${up.value} against ${across.value} of ${places.length} models`);
    drawing.replaceChildren(svg);
    if (!places.length) { svg.append(svgElement("text", { x: width / 2, y: height / 2, "text-anchor": "middle" }, "no model has both")); return; }
    const v = scaleOf(up.value, places, height - edge.bottom, edge.top);
    const side = 32 + Math.max(...v.ticks.map((tick) => widthOf(svg, short(tick))));  // the label stands left of the ticks
    const h = scaleOf(across.value, places, side, width - edge.right);
    const bottom = height - edge.bottom, taken = [];  // by names, which do not stand on one another
    for (const tick of h.ticks) {
      svg.append(svgElement("line", { class: "faint", x1: h.place(tick), x2: h.place(tick), y1: edge.top, y2: bottom }),
        svgElement("text", { x: h.place(tick), y: bottom + 18, "text-anchor": "middle" }, short(tick)));
    }
    for (const tick of v.ticks) {
      svg.append(svgElement("line", { class: "faint", x1: side, x2: width - edge.right, y1: v.place(tick), y2: v.place(tick) }),
        svgElement("text", { x: side - 8, y: v.place(tick) + 4, "text-anchor": "end" }, short(tick)));
    }
    svg.append(svgElement("text", { x: (side + width - edge.right) / 2, y: height - 6, "text-anchor": "middle" }, across.value));
    svg.append(svgElement("text", { transform: `translate(14 ${(edge.top + bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, up.value));
    for (const i of places) {
      const cx = h.place(x.value[i]), cy = v.place(y.value[i]);
      const bar = (x1, y1, x2, y2) => svgElement("line", { class: "bar", x1, y1, x2, y2 });
      const point = svgElement("g", { class: "point", tabindex: 0 });
      if (y.low[i] !== null && (!y.log || y.low[i] > 0)) point.append(bar(cx, v.place(y.low[i]), cx, v.place(y.high[i])));
      if (x.low[i] !== null && (!x.log || x.low[i] > 0)) point.append(bar(h.place(x.low[i]), cy, h.place(x.high[i]), cy));
      point.append(svgElement("circle", { cx, cy, r: 5 }));
      const told = `${data.models[i]}: ${across.value} ${interval(x.value[i], x.low[i], x.high[i])}, ` +
        `${up.value} ${interval(y.value[i], y.low[i], y.high[i])}`;
      point.setAttribute("aria-label", told);
      const show = () => { const b = point.lastChild.getBoundingClientRect(); say(told, b.left, b.top); };
      for (const event of ["pointerenter", "focus"]) point.addEventListener(event, show);
      for (const event of ["pointerleave", "blur"]) point.addEventListener(event, hush);
      svg.append(point);
      const name = data.models[i], wide = 6.6 * name.length, left = cx > width - wide - 30 ? cx - 8 - wide : cx + 8;
      if (taken.every(([x0, x1, y0]) => left > x1 || left + wide < x0 || Math.abs(cy - y0) > 13)) {
        taken.push([left, left + wide, cy]);
        const end = left < cx;
        svg.append(svgElement("text", { class: "named", x: cx + (end ? -8 : 8), y: cy - 7, "text-anchor": end ? "end" : "start" }, name));
      }
    }
  }
  draw();
};
