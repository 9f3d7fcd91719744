// The messages between the tensor view's page and the extension.

/** The answer of `opstepTensor`. */
export interface Figures {
  readonly type: string;
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly bytes: number;
  readonly summary: Summary;
  readonly histogram?: Histogram;
  readonly firstBad?: readonly number[];
}

export interface Summary {
  readonly count: number;
  readonly zeros: number;
  readonly nan: number;
  readonly inf: number;
  readonly min?: number;
  readonly max?: number;
  readonly mean?: number;
  readonly std?: number;
}

export interface Histogram {
  readonly low: number;
  readonly high: number;
  readonly counts: readonly number[];
}

/** The answer of `opstepSlice`. */
export interface Slice {
  readonly rows: number;
  readonly columns: number;
  readonly rowStart: number;
  readonly columnStart: number;
  readonly rowStep: number;
  readonly columnStep: number;
  readonly data?: string;
  readonly texts?: readonly string[];
}

/** Requests to the adapter; the extension adds the expression and the frame. */
export type Query =
  | { readonly command: "opstepTensor"; readonly bins: number }
  | {
      readonly command: "opstepSlice";
      readonly rows?: number;
      readonly columns?: number;
      readonly at: readonly number[];
      readonly rowStart?: number;
      readonly rowCount?: number;
      readonly columnStart?: number;
      readonly columnCount?: number;
      readonly maxRows?: number;
      readonly maxColumns?: number;
      readonly text?: boolean;
    };

export type FromPage =
  | { readonly kind: "ready" }
  | { readonly kind: "query"; readonly id: number; readonly query: Query }
  /** `part` is the slice in view, as a subscript, for tensors that are too large to copy. */
  | { readonly kind: "copy"; readonly part: string }
  | { readonly kind: "save" }
  | { readonly kind: "compare" }
  | { readonly kind: "expression"; readonly expression: string };

export interface Subject {
  readonly expression: string;
  /** Compared with this one; empty for none. */
  readonly against: string;
}

export type ToPage =
  /** `stop` rises with each stop; `where` describes it. */
  | { readonly kind: "stopped"; readonly stop: number; readonly where: string; readonly subject: Subject }
  | { readonly kind: "running" }
  | { readonly kind: "ended" }
  | { readonly kind: "answer"; readonly id: number; readonly body: unknown }
  | { readonly kind: "failure"; readonly id: number; readonly sentence: string };
