// The statistics and the histogram of a tensor.

import type { Figures, Histogram, Summary } from "../messages";
import { make, number } from "./dom";

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [320, 84];

/** The summary as a table; in a comparison with a column for the previous stop. */
export function statistics(
  figures: Figures,
  before: Summary | undefined,
  goTo: (index: readonly number[]) => void,
): HTMLElement {
  const { summary } = figures;
  const table = make("table", { class: "statistics" });
  if (before) {
    table.append(row("th", "", "now", "before"));
  }
  const share = (part: number) => (part ? `${part} (${number((100 * part) / summary.count)} %)` : "none");
  const add = (name: string, text: (of: Summary) => string, bad = false) => {
    const made = row("td", name, text(summary), ...(before ? [text(before)] : []));
    made.classList.toggle("bad", bad);
    made.classList.toggle("changed", before !== undefined && text(summary) !== text(before));
    table.append(made);
    return made;
  };
  if (figures.dtype === "bool") {
    add("true", (of) => share(of.count - of.zeros));
    return table;
  }
  add("min", (of) => number(of.min));
  add("max", (of) => number(of.max));
  add("mean", (of) => number(of.mean));
  add("std", (of) => number(of.std));
  add("zeros", (of) => share(of.zeros));
  if (/^b?float/.test(figures.dtype)) {
    const nan = add("NaN", (of) => share(of.nan), summary.nan > 0);
    const inf = add("Inf", (of) => share(of.inf), summary.inf > 0);
    const first = figures.firstBad;
    if (first) {
      const button = make("button", { class: "link", title: "Go to the first NaN or Inf" });
      button.textContent = `first at [${first.join(", ")}]`;
      button.addEventListener("click", () => goTo(first));
      (summary.nan ? nan : inf).append(make("td", {}, button));
    }
  }
  return table;
}

function row(tag: "td" | "th", name: string, ...texts: string[]): HTMLTableRowElement {
  const cells = texts.map((text) => make(tag, {}, text));
  return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
}

export function histogram({ low, high, counts }: Histogram): HTMLElement {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `Histogram from ${number(low)} to ${number(high)}`);
  const [most, width] = [Math.max(...counts, 1), WIDTH / counts.length];
  counts.forEach((count, index) => {
    const bar = document.createElementNS(SVG, "rect");
    // A small bar is never shown as empty.
    const height = count ? Math.max((count / most) * HEIGHT, 1.5) : 0;
    const edge = (at: number) => number(low + ((high - low) * at) / counts.length);
    const place = { x: index * width, y: HEIGHT - height, width: Math.max(width - 1, 0.5), height };
    for (const [name, value] of Object.entries(place)) {
      bar.setAttribute(name, String(value));
    }
    const title = document.createElementNS(SVG, "title");
    title.textContent = `${count} from ${edge(index)} to ${edge(index + 1)}`;
    bar.append(title);
    svg.append(bar);
  });
  const ends = make("div", { class: "ends" }, make("span", {}, number(low)), make("span", {}, number(high)));
  const figure = make("div", { class: "histogram" }, ends);
  figure.prepend(svg);
  return figure;
}
