// What all parts of the page's script use. Everything on the page is readable without it.

const tip = document.getElementById("tip");

const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

const unpack = async (element) => {
  const stream = new Blob([bytesOf(element.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
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
