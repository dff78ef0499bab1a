// Surfaces: the script that draws them is large, so that it is unpacked when it is asked for.

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
