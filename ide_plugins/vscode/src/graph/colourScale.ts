// The colour scale of the graph view: from statistics of an op to its colour.

import type { Op, Statistics } from "../protocol";

/** The statistics that ops can be coloured by, and their names. */
export const KINDS = { bad: "NaN/Inf", mean: "mean", std: "std", l2: "l2", zeros: "zeros" } as const;
export type Kind = keyof typeof KINDS;

/** Steps of colour to each side of zero. */
export const LEVELS = 8;

// From this ratio of the largest to the smallest on, the scale is logarithmic: equal steps would show one
// colour only. It covers at most this many decades.
const LOGARITHMIC = 100;
const DECADES = 6;

/** How an op is drawn. */
export interface Tint {
  /** From 1 to LEVELS; 0 for none. */
  readonly level: number;
  readonly below: boolean;
  readonly bad: string;
  readonly text: string;
}

/** A scale over the statistics of all ops of a program, so that colours can be compared. */
export class ColourScale {
  private constructor(
    readonly kind: Kind,
    /** Of magnitudes, for statistics with a sign. */
    readonly low: number,
    readonly high: number,
    readonly logarithmic: boolean,
  ) {}

  static of(kind: Kind, known: Iterable<Statistics>): ColourScale {
    if (kind === "zeros" || kind === "bad") {
      return new ColourScale(kind, 0, 1, false);
    }
    const sizes: number[] = [];
    for (const each of known) {
      const size = Math.abs(each[kind] ?? 0);
      if (size > 0) {
        sizes.push(size);
      }
    }
    const high = sizes.reduce((a, b) => Math.max(a, b), 0);
    const low = Math.max(sizes.reduce((a, b) => Math.min(a, b), high), high / 10 ** DECADES);
    return high > LOGARITHMIC * low
      ? new ColourScale(kind, low, high, true)
      : new ColourScale(kind, 0, high, false);
  }

  /** From 0 to 1; undefined without a finite value. */
  part(value: number | undefined): number | undefined {
    if (value === undefined) {
      return undefined;
    }
    const size = Math.abs(value);
    const at = this.logarithmic
      ? Math.log(Math.max(size, this.low) / this.low) / Math.log(this.high / this.low)
      : size / (this.high || 1);
    return Math.min(Math.max(at, 0), 1);
  }

  tint(op: Op, known: readonly Statistics[]): Tint {
    const nan = known.reduce((sum, each) => sum + each.nan, 0);
    const inf = known.reduce((sum, each) => sum + each.inf, 0);
    const bad = nan > 0 ? `${nan} NaN` : inf > 0 ? `${inf} Inf` : "";
    // The first of several outputs gives the op's colour.
    const first = op.outputs.flatMap(({ variable }) => known.find((each) => each.variable === variable) ?? [])[0];
    const value = first && valueOf(this.kind, first);
    const part = this.part(value);
    const level = part === undefined || this.kind === "bad" ? 0 : Math.max(1, Math.ceil(part * LEVELS));
    const text = value === undefined ? bad : `${KINDS[this.kind]} ${this.name(value)}`;
    return { level, below: (value ?? 0) < 0, bad, text: this.kind === "bad" ? bad || "finite" : text };
  }

  /** The ends of the scale in words. */
  get ends(): readonly [string, string] {
    const low = this.kind === "mean" ? -this.high : this.low;
    return [this.name(low), this.name(this.high)];
  }

  private name(value: number): string {
    return this.kind === "zeros" ? `${short(100 * value)} %` : short(value);
  }
}

function valueOf(kind: Kind, of: Statistics): number | undefined {
  if (kind === "zeros") {
    return of.zeros / of.count;
  }
  return kind === "bad" ? (of.nan + of.inf) / of.count : of[kind];
}

/** All figures of an op, one in each line. */
export function inWords(known: readonly Statistics[]): string {
  return known
    .map((of) => {
      const figures = (["mean", "std", "l2", "min", "max"] as const).flatMap((name) => {
        const value = of[name];
        return value === undefined ? [] : [`${name} ${short(value)}`];
      });
      const zeros = `${short((100 * of.zeros) / of.count)} % zeros`;
      return `${of.variable}, run ${of.run}: ${[...figures, `${of.nan} NaN`, `${of.inf} Inf`, zeros].join(", ")}`;
    })
    .join("\n");
}

function short(value: number): string {
  return String(Number(value.toPrecision(3)));
}
