// Lines of units: kinds switched on and off, one unit picked out, the name of the nearest line.

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
