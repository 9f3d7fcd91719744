import * as vscode from "vscode";

import { Stop } from "./following";
import type { Programs } from "./programs";
import type { Graph, Op, Place } from "./protocol";

const MAX_LINES = 200;
// Of one line, which may make hundreds of ops, so many are asked for.
const NEWEST = 3;

/** Behind each line the tensor that it made: `float32[128, 10] mean 0.01`. */
export class InlineValues implements vscode.InlineValuesProvider {
  constructor(
    private readonly type: string,
    private readonly programs: Programs,
  ) {}

  async provideInlineValues(
    document: vscode.TextDocument,
    viewPort: vscode.Range,
    context: vscode.InlineValueContext,
  ): Promise<vscode.InlineValue[]> {
    const session = vscode.debug.activeDebugSession;
    if (session?.type !== this.type || document.uri.scheme !== "file") {
      return [];
    }
    const place = await placeOf(session, context.frameId);
    const graph = place && (await this.programs.graph(session, place.program));
    if (!graph) {
      return [];
    }
    const [first, last] = [viewPort.start.line + 1, viewPort.end.line + 1];
    const made = madeBy(ranBefore(graph, place), document.uri.fsPath, first, last);
    const stop = new Stop(session, place.threadId);
    const found = await stop.values([...new Set([...made.values()].flat())]);
    const values = new Map(found.map((value) => [value.variable, value]));
    const shown: vscode.InlineValue[] = [];
    for (const [line, variables] of made) {
      // The last one that is there: what the line has come to so far.
      const value = variables.map((name) => values.get(name)).filter((each) => each).pop();
      if (value && line <= document.lineCount) {
        shown.push(new vscode.InlineValueText(document.lineAt(line - 1).range, value.brief));
      }
    }
    return shown;
  }
}

async function placeOf(session: vscode.DebugSession, frameId: number): Promise<Place | undefined> {
  try {
    return await session.customRequest("opstepPlace", { frameId });
  } catch {
    return undefined; // The thread went on.
  }
}

/** The ops of which something can be there: the listing is in the order in which they run. */
export function ranBefore(graph: Graph, place: Place): readonly Op[] {
  const at = graph.ops.find((op) => op.id === place.ops[0])?.listingLine ?? 0;
  return graph.ops.filter((op) => op.listingLine < at || (place.after && op.listingLine === at));
}

/** By line, the newest variables that its ops wrote, in their order; gradients are elsewhere. */
export function madeBy(
  ops: readonly Op[],
  path: string,
  first: number,
  last: number,
): Map<number, string[]> {
  const made = new Map<number, string[]>();
  for (const op of ops) {
    const output = op.outputs[0];
    // What an op writes in place, as an optimizer does, was there before it ran.
    if (!output || op.forward !== 0 || op.inputs.some(({ variable }) => variable === output.variable)) {
      continue;
    }
    for (const line of linesIn(op, path)) {
      if (line >= first && line <= last && (made.has(line) || made.size < MAX_LINES)) {
        made.set(line, [...(made.get(line) ?? []), output.variable].slice(-NEWEST));
      }
    }
  }
  return made;
}

/** A line that called the one that made the op has made it too. */
function linesIn(op: Op, path: string): Set<number> {
  return new Set(op.stack.filter((at) => at.path === path).map((at) => at.line));
}
