// The ops of a listing, read from its text; docs/dap.md names it "listing".

export interface ListedOp {
  /** The line's number in the text, from 0. */
  readonly line: number;
  readonly id: number;
  /** The column at which the op begins: more inside a block. */
  readonly depth: number;
  readonly type: string;
  readonly outputs: ReadonlyMap<string, string>;
  readonly inputs: ReadonlySet<string>;
  /** The op's name and the Python line that made it, as in the listing. */
  readonly remark: string;
}

const OP_LINE = /^#(\d+)\s+/;
const OUTPUT = /([^\s,]+) ([a-z]+\d*\[[^\]]*\])/g;
const INPUT = /[=[ ]([A-Za-z_@][\w@]*(?:[./][\w@]+)*)(?=[,\])])/g;

export function parseListing(text: string): ListedOp[] {
  return text.split(/\r?\n/).flatMap((content, line) => parseLine(content, line) ?? []);
}

function parseLine(content: string, line: number): ListedOp | undefined {
  const head = OP_LINE.exec(content);
  if (!head) {
    return undefined;
  }
  const depth = head[0].length;
  const remarkAt = content.lastIndexOf("  # ");
  const body = content.slice(depth, remarkAt < 0 ? undefined : remarkAt);
  const call = /^(?:(.*?) = )?([a-z_]\w*)\((.*)\)\s*$/.exec(body);
  const outputs = [...(call?.[1] ?? "").matchAll(OUTPUT)].map((match) => [match[1]!, match[2]!] as const);
  const inputs = [...`=${call?.[3] ?? ""})`.matchAll(INPUT)].map((match) => match[1]!);
  return {
    line,
    id: Number(head[1]),
    depth,
    type: call?.[2] ?? "",
    outputs: new Map(outputs),
    inputs: new Set(inputs),
    remark: remarkAt < 0 ? "" : content.slice(remarkAt + 4),
  };
}

/** First and last line of each op with the ops of its blocks. */
export function blocksOf(ops: readonly ListedOp[]): [number, number][] {
  const folds: [number, number][] = [];
  const open: ListedOp[] = [];
  const close = (depth: number, last: number): void => {
    for (let top = open.at(-1); top && top.depth >= depth; top = open.at(-1)) {
      open.pop();
      if (last > top.line) {
        folds.push([top.line, last]);
      }
    }
  };
  let last = 0;
  for (const op of ops) {
    close(op.depth, last);
    open.push(op);
    last = op.line;
  }
  close(0, last);
  return folds.sort((a, b) => a[0] - b[0]);
}

/** Sentences about a word at a line: a variable, or the type of the op there; none for others. */
export function explain(ops: readonly ListedOp[], line: number, word: string): string[] {
  const here = ops.find((op) => op.line === line);
  if (here && here.type === word && !here.outputs.has(word)) {
    return [`op #${here.id} ${here.type}: ${here.remark}`];
  }
  const makers = ops.filter((op) => op.outputs.has(word));
  const readers = ops.filter((op) => op.inputs.has(word));
  if (makers.length + readers.length === 0 || (makers.length === 0 && DTYPES.test(word))) {
    return [];
  }
  const type = makers[0]?.outputs.get(word);
  const names = (found: readonly ListedOp[]): string => found.map((op) => `#${op.id} ${op.type}`).join(", ");
  return [
    `${word}${type ? ` ${type}` : ""}`,
    makers.length ? `written by ${names(makers)}` : "not written here: a parameter, or from outside",
    readers.length ? `read by ${names(readers)}` : "not read here",
  ];
}

const DTYPES = /^(bool|true|false|u?int\d+|b?float\d+|block)$/;
