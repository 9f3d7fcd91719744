// The messages between the graph view's page and the extension.

import type { Graph, Statistics, Value } from "../protocol";
import type { Kind } from "./colourScale";

/** The messages from the extension to the page. */
export type ToPage =
  | { readonly type: "graph"; readonly graph: Graph; readonly programs: readonly Choice[] }
  /** The op of the stop and those around it; none while it runs. */
  | { readonly type: "place"; readonly ops: readonly number[]; readonly text: string; readonly fault?: string }
  | { readonly type: "marks"; readonly marks: readonly (readonly [number, string])[] }
  | { readonly type: "values"; readonly values: readonly Value[] }
  /** New statistics; `problem` is why there are none. */
  | { readonly type: "statistics"; readonly statistics: readonly Statistics[]; readonly problem: string }
  | { readonly type: "reveal"; readonly op: number };

/** The messages from the page to the extension. */
export type FromPage =
  | { readonly type: "ready" }
  | { readonly type: "program"; readonly id: string }
  /** Whether to show the program of the stop. */
  | { readonly type: "following"; readonly on: boolean }
  | { readonly type: "toggle"; readonly op: number }
  | { readonly type: "line"; readonly op: number }
  | { readonly type: "listing"; readonly op: number }
  /** The statistic that colours ops; "" for none, and then nothing is tapped. */
  | { readonly type: "colour"; readonly by: Kind | "" }
  /** These variables are on the screen. */
  | { readonly type: "visible"; readonly variables: readonly string[] };

/** The state of a page that is kept when the window is reloaded. */
export interface PageState {
  readonly program?: string;
  readonly colour?: Kind | "";
}

export interface Choice {
  readonly id: string;
  readonly name: string;
}
