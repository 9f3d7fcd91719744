// The choice of colours in the graph view, with its legend.

import type { Op, Statistics } from "../../protocol";
import { ColourScale, inWords, type Kind, KINDS, LEVELS, type Tint } from "../colourScale";

const WAITING = "…";

/** The ops' statistics from a tap, the choice of the statistic that colours ops, and its legend. */
export class Colours {
  private readonly known = new Map<number, Map<string, Statistics>>();
  private current: ColourScale | undefined;
  // Why there are no statistics.
  private problem = WAITING;

  constructor(
    private readonly select: HTMLSelectElement,
    private readonly legend: HTMLElement,
    private readonly chosen: (by: Kind | "") => void,
  ) {
    for (const [kind, name] of Object.entries(KINDS)) {
      select.append(new Option(name, kind));
    }
    select.addEventListener("change", () => this.choose(this.by));
  }

  get by(): Kind | "" {
    return this.select.value as Kind | "";
  }

  choose(by: Kind | ""): void {
    this.select.value = by;
    if (!by) {
      this.clear();
    }
    this.scale();
    this.chosen(by);
  }

  clear(): void {
    this.known.clear();
    this.problem = WAITING;
    this.scale();
  }

  take(statistics: readonly Statistics[], problem: string): void {
    for (const each of statistics) {
      const of = this.known.get(each.op) ?? new Map<string, Statistics>();
      of.set(each.variable, each);
      this.known.set(each.op, of);
    }
    this.problem = problem;
    this.scale();
  }

  tint(op: Op): Tint | undefined {
    const known = this.known.get(op.id);
    return known && this.current?.tint(op, [...known.values()]);
  }

  words(op: Op): string {
    const known = this.known.get(op.id);
    return known ? inWords([...known.values()]) : "";
  }

  private scale(): void {
    const { by, legend } = this;
    const all = [...this.known.values()].flatMap((of) => [...of.values()]);
    this.current = by ? ColourScale.of(by, all) : undefined;
    legend.hidden = !by;
    legend.title = this.current?.logarithmic ? "The scale is logarithmic." : "";
    if (!this.current) {
      return;
    }
    if (this.problem || all.length === 0) {
      legend.replaceChildren(this.problem || "no statistics yet: they come as ops run");
      return;
    }
    const [low, high] = this.current.ends;
    const swatches = by === "bad" ? ["none", "bad"] : steps(by === "mean");
    const bar = document.createElement("span");
    bar.className = "bar";
    bar.append(...swatches.map(swatch));
    const words = by === "bad" ? ["finite", "NaN/Inf"] : [low, `${high}${this.current.logarithmic ? " (log)" : ""}`];
    legend.replaceChildren(words[0] ?? "", bar, words[1] ?? "");
  }
}

function steps(signed: boolean): string[] {
  const up = Array.from({ length: LEVELS }, (_, at) => `up-${at + 1}`);
  return signed ? [...up.map((name) => name.replace("up", "down")).reverse(), ...up] : up;
}

function swatch(kind: string): HTMLElement {
  const made = document.createElement("i");
  made.className = kind;
  return made;
}
