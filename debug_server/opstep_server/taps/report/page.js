// The page around the plots: facts about the log, search, order, keys. Names are not trusted: they
// reach the page only as text, never as markup.

const DATA = JSON.parse(document.getElementById("data").textContent);
dataBegin = DATA.begin;

const state = { time: false, log: false, cards: [], shown: [] };

function make(tag, properties, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function many(count, one, more) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : more || one + "s"}`;
}

// ---- theme -------------------------------------------------------------------------------------

const system = window.matchMedia("(prefers-color-scheme: dark)");
let colours = {};

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  const style = getComputedStyle(document.documentElement);
  for (const each of ["text", "faint", "line", "mean", "band", "other", "zeros", "nan", "inf"]) {
    colours[each] = style.getPropertyValue(`--${each}`).trim();
  }
  redraw();
}

function toggleTheme() {
  setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

// ---- one source --------------------------------------------------------------------------------

class Card {
  constructor(source) {
    this.source = source;
    this.words = [source.op, source.tap, source.program, source.type, source.variable, source.process, source.place]
      .join("\n").toLowerCase();
    this.points = null;
    this.figures = [];
    this.at = -1;
    const about = [source.type, source.variable, source.kind, source.place]
      .filter((text) => text).join(" · ");
    const where = `tap ${source.tap || "-"} · ${source.program ? `program ${source.program} · ` : ""}${source.process || "-"} · ${many(source.records, "record")}`;
    this.readout = make("div", { className: "readout faint" });
    this.plots = make("div", { className: "plots" });
    this.element = make(
      "section", { className: "card", tabIndex: 0 },
      make("h2", { textContent: source.op || source.variable || "-" }),
      make("span", { className: "about", textContent: about }), " ",
      make("span", { className: "about faint", textContent: where }),
    );
    if (source.faulty) {
      const text = ` ${many(source.faulty, "record")} with NaN or Inf`;
      this.element.append(make("span", { className: "bad", textContent: text }));
    }
    if (source.errors) {
      const text = `${many(source.errors[0], "record")} without a value: ${source.errors[1]}`;
      this.element.append(make("div", { className: "bad", textContent: text }));
    }
    this.element.append(this.plots, this.readout);
    this.element.card = this;
  }

  get xs() {
    return state.time ? this.points.time : this.points.step;
  }

  // Canvases exist only while they are visible.
  open() {
    if (this.points) return;
    this.points = unpack(this.source);
    const captions = this.captions();
    for (const name of Object.keys(captions)) {
      const canvas = make("canvas", {});
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `${this.source.op}: ${captions[name]}`);
      canvas.addEventListener("mousemove", (event) => this.pointed(name, event));
      canvas.addEventListener("mouseleave", () => this.read(-1));
      this.figures.push({ name, canvas, area: null });
      this.plots.append(make("figure", {}, make("figcaption", { textContent: captions[name] }), canvas));
    }
    this.draw();
  }

  close() {
    this.points = null;
    this.figures = [];
    this.plots.replaceChildren();
    this.readout.textContent = "";
  }

  captions() {
    const { points, source } = this;
    const captions = {};
    const has = (name) => points[name].some((value) => !Number.isNaN(value));
    const low = shown(asNumber(source.low || 0));
    const high = shown(asNumber(source.high || 0));
    if (points.n) {
      captions.mean = source.values ? `value, from ${low} to ${high}` : `mean, min to max: from ${low} to ${high}`;
    }
    if (has("std")) captions.std = `std, last ${shown(points.std[points.n - 1])}`;
    if (has("l2")) captions.l2 = `l2, last ${shown(points.l2[points.n - 1])}`;
    if (points.n && !source.values) {
      const sum = (name) => points[name].reduce((a, b) => a + b, 0);
      captions.counts = `NaN ${shown(sum("nan"))} · Inf ${shown(sum("inf"))} · zeros ${percent(sum("zeros") / sum("count"))}`;
    }
    if (source.heat) captions.heat = "histogram over steps";
    return captions;
  }

  draw() {
    if (!this.points) return;
    for (const figure of this.figures) {
      if (figure.name === "heat") {
        drawHeat(figure.canvas, this.source.heat, colours);
        continue;
      }
      figure.area = DRAW[figure.name](figure.canvas, this.points, this.xs, colours, state);
      if (this.at >= 0) figure.area.cursor(this.xs[this.at]);
    }
  }

  pointed(name, event) {
    const area = this.figures.find((figure) => figure.name === name).area;
    if (!area) return;
    let best = -1;
    let distance = Infinity;
    this.xs.forEach((x, i) => {
      const away = Math.abs(area.x(x) - event.offsetX);
      if (away < distance) [best, distance] = [i, away];
    });
    this.read(best);
  }

  read(at) {
    if (!this.points || at === this.at) return;
    this.at = Math.min(Math.max(at, -1), this.points.n - 1);
    this.readout.textContent = "";
    if (this.at >= 0) {
      const p = this.points;
      const parts = [`step ${shown(p.step[this.at])}`];
      if (!Number.isNaN(p.time[this.at])) parts.push(clock(p.time[this.at]));
      for (const name of ["mean", "min", "max", "std", "l2", "nan", "inf", "zeros", "count"]) {
        parts.push(`${name} ${shown(p[name][this.at])}`);
      }
      this.readout.textContent = parts.join("  ");
    }
    this.draw();
  }
}

// ---- filter and order --------------------------------------------------------------------------

const compare = new Intl.Collator("en", { numeric: true }).compare;
const byName = (a, b) => compare(a.source.op, b.source.op) || compare(a.words, b.words);
const ORDERS = {
  name: byName,
  "NaN and Inf first": (a, b) => (b.source.faulty || 0) - (a.source.faulty || 0) || byName(a, b),
  "most records": (a, b) => b.source.records - a.source.records || byName(a, b),
};

const observer = new IntersectionObserver(
  (entries) => entries.forEach((entry) => (entry.isIntersecting ? entry.target.card.open() : entry.target.card.close())),
  { rootMargin: "400px" },
);

function redraw() {
  state.cards.forEach((card) => card.draw());
}

function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter((word) => word);
  state.shown = [];
  for (const card of state.cards) {
    const hidden = !words.every((word) => card.words.includes(word));
    card.element.hidden = hidden;
    if (!hidden) state.shown.push(card);
  }
  const all = DATA.sources.length;
  found.textContent = words.length ? `${state.shown.length.toLocaleString("en")} of ${many(all, "source")}` : many(all, "source");
  none.hidden = state.shown.length > 0;
}

function reorder() {
  state.cards.sort(ORDERS[order.value]);
  list.append(...state.cards.map((card) => card.element));
  search();
}

function toggle(name, button) {
  state[name] = !state[name];
  button.setAttribute("aria-pressed", String(state[name]));
  redraw();
}

// ---- the page ----------------------------------------------------------------------------------

function countsTable() {
  const reasons = [...new Set(DATA.counts.taps.flatMap((tap) => Object.keys(tap[4])))];
  const head = ["tap", "produced", "delivered", "waiting", "dropped", "why"];
  const row = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, { textContent: cell })));
  const rows = DATA.counts.taps.map(([name, produced, delivered, waiting, dropped]) => {
    const sum = Object.values(dropped).reduce((a, b) => a + b, 0);
    const why = reasons.filter((r) => dropped[r]).map((r) => `${r} ${dropped[r].toLocaleString("en")}`);
    const numbers = [produced, delivered, waiting, sum].map((n) => n.toLocaleString("en"));
    const made = row("td", [name, ...numbers, why.join(", ")]);
    if (sum) made.children[4].className = "bad";
    return made;
  });
  return make("table", { id: "counts" }, row("th", head), ...rows);
}

function header() {
  const range = DATA.from ? `, from ${DATA.from} to ${DATA.to}` : "";
  const processes = DATA.processes.filter((name) => name);
  const listed = processes.length > 8 ? `${processes.slice(0, 8).join(", ")} and more` : processes.join(", ");
  const made = make(
    "header", {},
    make("h1", { textContent: `Tap log ${DATA.directory}` }),
    make("p", { textContent: `${many(DATA.records, "record")} of ${many(DATA.sources.length, "source")} in ${many(DATA.files, "file")}${range}` }),
    make("p", { className: "faint", textContent: `${many(processes.length, "process", "processes")}${listed ? `: ${listed}` : ""} · page made ${DATA.made}` }),
  );
  for (const note of DATA.notes) made.append(make("p", { className: "note", textContent: note }));
  if (DATA.counts.taps.length) {
    made.append(countsTable());
    if (DATA.counts.time) made.append(make("p", { className: "faint", textContent: `Counts of the processes at ${DATA.counts.time}.` }));
  } else {
    made.append(make("p", { className: "faint", textContent: "There is no counts.json: the number of dropped records is unknown." }));
  }
  const keys = [["/", "search"], ["Esc", "all again"], ["j k", "next, previous"], ["← →", "point by point"],
    ["Enter", "larger"], ["x", "step or time"], ["l", "logarithmic"], ["t", "theme"]];
  made.append(make("p", { className: "faint" }, ...keys.flatMap(([key, what]) => [make("kbd", { textContent: key }), ` ${what}  `])));
  return made;
}

const field = make("input", { id: "search", type: "search", placeholder: "search op, tap, variable, type, line" });
field.setAttribute("aria-label", "search");
const found = make("span", { id: "found" });
found.setAttribute("role", "status");
const order = make("select", { id: "order" }, ...Object.keys(ORDERS).map((name) => make("option", { textContent: name })));
order.setAttribute("aria-label", "order");
const timeButton = make("button", { id: "time", textContent: "time axis" });
const logButton = make("button", { id: "log", textContent: "logarithmic" });
const themeButton = make("button", { id: "theme", textContent: "theme" });
const none = make("p", { id: "none", hidden: true, textContent: "No source has these words." });
const list = make("main", {});

field.addEventListener("input", search);
order.addEventListener("change", reorder);
timeButton.addEventListener("click", () => toggle("time", timeButton));
logButton.addEventListener("click", () => toggle("log", logButton));
themeButton.addEventListener("click", toggleTheme);
system.addEventListener("change", () => setTheme(system.matches ? "dark" : "light"));
window.addEventListener("resize", redraw);

function move(by) {
  const at = state.shown.indexOf(document.activeElement && document.activeElement.card);
  const next = state.shown[at < 0 ? 0 : Math.min(Math.max(at + by, 0), state.shown.length - 1)];
  if (next) {
    next.element.focus();
    next.element.scrollIntoView({ block: "nearest" });
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target === field || event.target === order;
  const card = event.target.card;
  if (event.key === "Escape") {
    field.value = "";
    search();
    field.blur();
  } else if (typing) {
    if (event.key === "Enter" && event.target === field) move(0);
    return;
  } else if (event.key === "/") field.focus();
  else if (event.key === "j") move(1);
  else if (event.key === "k") move(-1);
  else if (event.key === "x") toggle("time", timeButton);
  else if (event.key === "l") toggle("log", logButton);
  else if (event.key === "t") toggleTheme();
  else if (card && event.key === "Enter") {
    card.element.classList.toggle("large");
    card.draw();
  } else if (card && event.key === "ArrowRight") card.read(card.at + 1);
  else if (card && event.key === "ArrowLeft") card.read(card.at < 0 ? Infinity : card.at - 1);
  else return;
  event.preventDefault();
});

document.body.append(
  header(),
  make("div", { id: "bar" }, field, found, order, timeButton, logButton, themeButton),
  none, list,
);
state.cards = DATA.sources.map((source) => new Card({ op: "", ...source }));
reorder();
setTheme(system.matches ? "dark" : "light");
state.cards.forEach((card) => observer.observe(card.element));
