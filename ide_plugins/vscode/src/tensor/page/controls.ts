// The controls that choose a slice: two axes, and an index for each of the others.

import { make } from "./dom";
import type { Plane } from "./plane";

/** The choice of axes for rows and columns, and a slider for each of the others. */
export function controls(
  shape: readonly number[],
  current: () => Plane,
  hidden: number | undefined,
  change: (plane: Plane) => void,
): HTMLElement {
  const made = make("div", { class: "controls" });
  if (shape.length < 2) {
    return made;
  }
  const plane = current();
  made.append(axisChoice("rows", shape, plane, change), axisChoice("columns", shape, plane, change));
  shape.forEach((size, axis) => {
    if (axis !== plane.rows && axis !== plane.columns && axis !== hidden) {
      made.append(slider(axis, size, current, change));
    }
  });
  return made;
}

function axisChoice(
  which: "rows" | "columns",
  shape: readonly number[],
  plane: Plane,
  change: (plane: Plane) => void,
): HTMLElement {
  const select = make("select", { "aria-label": `axis of the ${which}` });
  shape.forEach((size, axis) => {
    const option = make("option", { value: String(axis) }, `axis ${axis} (${size})`);
    option.selected = axis === plane[which];
    select.append(option);
  });
  select.addEventListener("change", () => {
    const chosen = Number(select.value);
    const other = which === "rows" ? "columns" : "rows";
    // Choosing the axis of the other list exchanges both.
    const rest = plane[other] === chosen ? plane[which] : plane[other];
    change({ ...plane, [which]: chosen, [other]: rest });
  });
  return make("label", {}, `${which} `, select);
}

function slider(axis: number, size: number, current: () => Plane, change: (plane: Plane) => void): HTMLElement {
  const limits = { min: "0", max: String(size - 1), value: String(current().at[axis] ?? 0) };
  const range = make("input", { type: "range", "aria-label": `index in axis ${axis}`, ...limits });
  const box = make("input", { type: "number", "aria-label": `index in axis ${axis}, as a number`, ...limits });
  const take = (text: string) => {
    const index = Math.min(Math.max(Math.round(Number(text)), 0), size - 1);
    range.value = box.value = String(index);
    const plane = current();
    change({ ...plane, at: plane.at.map((old, each) => (each === axis ? index : old)) });
  };
  range.addEventListener("input", () => take(range.value));
  box.addEventListener("change", () => take(box.value));
  return make("label", { class: "axis" }, `axis ${axis} `, range, box, ` of ${size}`);
}
