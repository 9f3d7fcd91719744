/** Pictures: tensors with the shape of an image. */
export interface Layout {
  readonly rows: number;
  readonly columns: number;
  /** The axis of red, green and blue; undefined for grey. */
  readonly channels: number | undefined;
}

// Smaller ones are tables.
const SMALLEST = 8;

/** [.., 3, H, W], [.., H, W, 3], or grey [.., H, W]. */
export function pictureLayout(shape: readonly number[]): Layout | undefined {
  const rank = shape.length;
  const large = (axis: number) => (shape[axis] ?? 0) >= SMALLEST;
  if (rank >= 3 && shape[rank - 3] === 3 && large(rank - 2) && large(rank - 1)) {
    return { rows: rank - 2, columns: rank - 1, channels: rank - 3 };
  }
  if (rank >= 3 && shape[rank - 1] === 3 && large(rank - 3) && large(rank - 2)) {
    return { rows: rank - 3, columns: rank - 2, channels: rank - 1 };
  }
  if (rank >= 3 && shape[rank - 1] === 1 && large(rank - 3) && large(rank - 2)) {
    return { rows: rank - 3, columns: rank - 2, channels: undefined };
  }
  if (rank >= 2 && large(rank - 2) && large(rank - 1)) {
    return { rows: rank - 2, columns: rank - 1, channels: undefined };
  }
  return undefined;
}

/** The values for black and for white. */
export function brightness(dtype: string, min = 0, max = 1): readonly [number, number] {
  if (dtype === "uint8") {
    return [0, 255];
  }
  return min >= 0 && max <= 1 ? [0, 1] : [min, max];
}
