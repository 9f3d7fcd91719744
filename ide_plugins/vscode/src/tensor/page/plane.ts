/** A plane of a tensor: two axes along which a slice lies, and an index for each of the others. */
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

/** The plane through that element. */
export function planeThrough(plane: Plane, index: readonly number[]): Plane {
  return { ...plane, at: [...index] };
}

/** The element's index in the tensor. */
export function indexOf(plane: Plane, row: number, column: number): number[] {
  return plane.at.map((index, axis) => (axis === plane.rows ? row : axis === plane.columns ? column : index));
}

/** The part to copy of a tensor with more elements than `most`: the first rows of the slice. */
export function copiable(shape: readonly number[], plane: Plane, most: number): string {
  if (shape.reduce((count, size) => count * size, 1) <= most) {
    return "";
  }
  const columns = plane.columns === undefined ? 1 : Math.min(shape[plane.columns] ?? 1, most);
  const upTo = (axis: number, limit: number) => ((shape[axis] ?? 1) > limit ? `:${limit}` : ":");
  const each = plane.at.map((index, axis) => {
    if (axis === plane.columns) {
      return upTo(axis, most);
    }
    return axis === plane.rows ? upTo(axis, Math.floor(most / columns)) : String(index);
  });
  return `[${each.join(", ")}]`;
}
