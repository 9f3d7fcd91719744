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
