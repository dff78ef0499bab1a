// Figures come to life when they come near the window, so that the first view waits for none of them.

const widgets = { heat, series, maps, surface, scatter };
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
