// The answers of the debug adapter to opstep's own requests; docs/dap.md describes them.

export interface Slot {
  readonly slot: string;
  readonly variable: string;
}

export interface Output {
  readonly variable: string;
  readonly type: string;
}

export interface SourceLine {
  readonly path: string;
  readonly line: number;
}

export interface Op {
  readonly id: number;
  readonly name: string;
  readonly type: string;
  readonly block: number;
  /** The op that this one is a gradient of, or 0. */
  readonly forward: number;
  readonly gradient: boolean;
  /** The forward op of a gradient, if it is in another program. */
  readonly forwardName?: string;
  readonly listingLine: number;
  readonly inputs: readonly Slot[];
  readonly outputs: readonly Output[];
  /** The lines that made it, the innermost first. */
  readonly stack: readonly SourceLine[];
}

/** Variables that go from the op that makes them to an op of the same block that reads them. */
export interface Edge {
  readonly from: number;
  readonly to: number;
  readonly variables: readonly string[];
}

/** A block that an op runs; block 0 is the program itself. */
export interface Block {
  readonly id: number;
  readonly op: number;
  readonly name: string;
}

export interface Graph {
  readonly id: string;
  readonly name: string;
  readonly version: number;
  readonly listing: { readonly name: string; readonly sourceReference: number };
  readonly blocks: readonly Block[];
  readonly ops: readonly Op[];
  readonly edges: readonly Edge[];
}

export interface Program {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly ops: number;
}

/** The place of a stopped thread. */
export interface Place {
  readonly threadId: number;
  readonly program: string;
  readonly programName: string;
  readonly run: number;
  /** The op, then the ops around it. */
  readonly ops: readonly number[];
  readonly iterations: readonly number[];
  readonly after: boolean;
  readonly fault?: string;
}

/** The name of a variable in a frame's Python code. */
export interface Name {
  readonly name: string;
  readonly variable: string;
  /** The line that assigned it, if known. */
  readonly line?: number;
}

export interface Names {
  /** Of the frame's file. */
  readonly path: string;
  readonly names: readonly Name[];
}

export interface Value {
  readonly variable: string;
  readonly value: string;
  readonly brief: string;
  readonly nan: number;
  readonly inf: number;
}

/** A tap's last statistics of a value; without finite elements, figures are left out. */
export interface Statistics {
  readonly op: number;
  readonly variable: string;
  readonly run: number;
  readonly iteration: number;
  readonly count: number;
  readonly nan: number;
  readonly inf: number;
  readonly zeros: number;
  readonly min?: number;
  readonly max?: number;
  readonly mean?: number;
  readonly std?: number;
  readonly l2?: number;
}
