// A slice that was drawn, and the difference between two of them.

import type { Figures, Slice } from "../messages";
import type { Plane } from "./plane";

/** A slice as it was drawn; the previous stop's is compared with the current one. */
export interface DrawnSlice {
  /** Equal for the same part of the same tensor. */
  readonly key: string;
  readonly slice: Slice;
  readonly values: Float32Array;
}

export function keep(expression: string, figures: Figures, plane: Plane, slice: Slice): DrawnSlice {
  const key = JSON.stringify([expression, figures.shape, plane.rows, plane.columns, plane.at, slice.rowStep, slice.columnStep]);
  return { key, slice, values: decode(slice.data ?? "") };
}

/** Now minus before. Equal infinities, and NaN twice, do not differ. */
export function difference(now: DrawnSlice, before: DrawnSlice): Float32Array {
  return now.values.map((value, cell) => {
    const old = before.values[cell] ?? NaN;
    return Object.is(value, old) || (Number.isNaN(value) && Number.isNaN(old)) ? 0 : value - old;
  });
}

/** Float32, little-endian, in base64. */
export function decode(data: string): Float32Array {
  const text = atob(data);
  const bytes = Uint8Array.from(text, (character) => character.charCodeAt(0));
  return new Float32Array(bytes.buffer);
}
