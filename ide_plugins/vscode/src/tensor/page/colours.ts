// Colours of numbers in a heat map.

export type Colour = readonly [number, number, number];

// From dark to light, for values of one sign; through white at zero for both.
const RISING: readonly Colour[] = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];
const SIGNED: readonly Colour[] = [[5, 48, 97], [67, 147, 195], [247, 247, 247], [214, 96, 77], [103, 0, 31]];
const GREY: readonly Colour[] = [[0, 0, 0], [255, 255, 255]];

// Colours that are in no scale.
export const NAN: Colour = [255, 0, 220];
export const ABOVE: Colour = [255, 140, 0];
export const BELOW: Colour = [0, 225, 255];

/** A colour for each value between the smallest and the largest. */
export class Scale {
  private constructor(
    readonly low: number,
    readonly high: number,
    private readonly colours: readonly Colour[],
  ) {}

  static of(low: number, high: number): Scale {
    if (low < 0 && high > 0) {
      const far = Math.max(-low, high);
      return new Scale(-far, far, SIGNED);
    }
    return new Scale(low, high, RISING);
  }

  /** The colours of a difference: white for none. */
  static around(far: number): Scale {
    return new Scale(-far, far, SIGNED);
  }

  static grey(low: number, high: number): Scale {
    return new Scale(low, high, GREY);
  }

  /** From 0 to 1. */
  part(value: number): number {
    const span = this.high - this.low;
    return span > 0 ? Math.min(Math.max((value - this.low) / span, 0), 1) : 0.5;
  }

  colour(value: number): Colour {
    if (Number.isNaN(value)) {
      return NAN;
    }
    if (!Number.isFinite(value)) {
      return value > 0 ? ABOVE : BELOW;
    }
    const at = this.part(value) * (this.colours.length - 1);
    const index = Math.min(Math.floor(at), this.colours.length - 2);
    const [from, to] = [this.colours[index] ?? NAN, this.colours[index + 1] ?? NAN];
    const mix = (k: 0 | 1 | 2) => Math.round(from[k] + (to[k] - from[k]) * (at - index));
    return [mix(0), mix(1), mix(2)];
  }
}

/** The smallest and the largest finite value. */
export function extent(values: ArrayLike<number>): readonly [number, number] {
  let [low, high] = [Infinity, -Infinity];
  for (let i = 0; i < values.length; ++i) {
    const value = values[i] ?? NaN;
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  }
  return low <= high ? [low, high] : [0, 0];
}
