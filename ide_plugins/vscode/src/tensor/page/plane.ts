import { make } from "./dom";

/** Two axes along which a slice lies, and an index for each of the others. */
export interface Plane {
  readonly rows: number | undefined;
  readonly columns: number | undefined;
  readonly at: readonly number[];
}

export function firstPlane(shape: readonly number[]): Plane {
  const rank = shape.length;
  return {
    rows: rank > 1 ? rank - 2 : undefined,
    columns: rank > 0 ? rank - 1 : undefined,
    at: shape.map(() => 0),
  };
}

/** The plane in which that element lies. */
export function planeThrough(plane: Plane, index: readonly number[]): Plane {
  return { ...plane, at: [...index] };
}

/** `[0, :, :]`, the slice as one writes it. */
export function subscript(plane: Plane): string {
  const each = plane.at.map((index, axis) => (axis === plane.rows || axis === plane.columns ? ":" : String(index)));
  return each.every((text) => text === ":") ? "" : `[${each.join(", ")}]`;
}

/** The element's index in the tensor. */
export function indexOf(plane: Plane, row: number, column: number): number[] {
  return plane.at.map((index, axis) => (axis === plane.rows ? row : axis === plane.columns ? column : index));
}

/** Which axes are rows and columns, and a slider for each of the others. */
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
    // Choosing the other's axis exchanges them.
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
