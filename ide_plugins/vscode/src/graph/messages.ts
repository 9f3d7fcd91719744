// The messages between the graph view's page and the extension.

import type { Graph, Statistics, Value } from "../protocol";
import type { Kind } from "./colourScale";

/** What the extension tells the page. */
export type ToPage =
  | { readonly type: "graph"; readonly graph: Graph; readonly programs: readonly Choice[] }
  /** The op at which the run stands and those around it; none while it runs. */
  | { readonly type: "place"; readonly ops: readonly number[]; readonly text: string; readonly fault?: string }
  | { readonly type: "marks"; readonly marks: readonly (readonly [number, string])[] }
  | { readonly type: "values"; readonly values: readonly Value[] }
  /** What is new; `problem` is why nothing comes. */
  | { readonly type: "statistics"; readonly statistics: readonly Statistics[]; readonly problem: string }
  | { readonly type: "reveal"; readonly op: number };

/** What the page tells the extension. */
export type FromPage =
  | { readonly type: "ready" }
  | { readonly type: "program"; readonly id: string }
  /** Whether the program in which the run stands is to be shown. */
  | { readonly type: "following"; readonly on: boolean }
  | { readonly type: "toggle"; readonly op: number }
  | { readonly type: "line"; readonly op: number }
  | { readonly type: "listing"; readonly op: number }
  /** What ops are coloured by; "" for nothing, and then nothing is tapped. */
  | { readonly type: "colour"; readonly by: Kind | "" }
  /** These variables are on the screen. */
  | { readonly type: "visible"; readonly variables: readonly string[] };

/** The state of a page that is kept when the window is loaded anew. */
export interface PageState {
  readonly program?: string;
  readonly colour?: Kind | "";
}

export interface Choice {
  readonly id: string;
  readonly name: string;
}
