// Breakpoints on single ops, as function breakpoints of VS Code.

import * as vscode from "vscode";

import type { Op } from "./protocol";

/** The breakpoint at an op: the op's own, a shared one, or a disabled one. */
export type Mark = "own" | "shared" | "off";

/**
 * Sets or removes the op's own breakpoint: a function breakpoint with its name, which VS Code keeps
 * for the next session and shows with all others.
 */
export function toggle(op: Op): void {
  const own = functionBreakpoints().filter((each) => each.functionName === op.name);
  if (own.length > 0) {
    vscode.debug.removeBreakpoints(own);
  } else {
    vscode.debug.addBreakpoints([new vscode.FunctionBreakpoint(op.name)]);
  }
}

/** The breakpoints by op. */
export function marks(ops: readonly Op[]): Map<number, Mark> {
  const functions = functionBreakpoints();
  const lines = new Map<string, boolean>();
  for (const each of vscode.debug.breakpoints) {
    if (each instanceof vscode.SourceBreakpoint) {
      const { uri, range } = each.location;
      const key = `${uri.fsPath}:${range.start.line + 1}`;
      lines.set(key, lines.get(key) === true || each.enabled);
    }
  }
  const byId = new Map(ops.map((op) => [op.id, op]));
  const found = new Map<number, Mark>();
  for (const op of ops) {
    const mark = markOf(op, forwardOf(op, byId), functions, lines);
    if (mark) {
      found.set(op.id, mark);
    }
  }
  return found;
}

/** The forward op of a gradient, of this program or of another one. */
function forwardOf(op: Op, byId: ReadonlyMap<number, Op>): Named | undefined {
  return byId.get(op.forward) ?? (op.forwardName === undefined ? undefined : { name: op.forwardName, type: "" });
}

function markOf(
  op: Op,
  forward: Named | undefined,
  functions: readonly vscode.FunctionBreakpoint[],
  lines: ReadonlyMap<string, boolean>,
): Mark | undefined {
  const own = functions.find((each) => each.functionName === op.name);
  if (own) {
    return own.enabled ? "own" : "off";
  }
  const shared = functions.filter((each) => matches(each.functionName, op, forward));
  const made = op.stack[0];
  // A line stands for the ops that it made, not for their gradients.
  const line = made && !op.gradient ? lines.get(`${made.path}:${made.line}`) : undefined;
  if (shared.some((each) => each.enabled) || line === true) {
    return "shared";
  }
  return shared.length > 0 || line === false ? "off" : undefined;
}

function functionBreakpoints(): vscode.FunctionBreakpoint[] {
  return vscode.debug.breakpoints.filter((each) => each instanceof vscode.FunctionBreakpoint);
}

/** An op type, or a pattern over op names with * and ?; with "grad:" before it, gradients only. */
export function matches(pattern: string, op: Named, forward?: Named): boolean {
  if (pattern.startsWith("grad:")) {
    const rest = pattern.slice("grad:".length);
    return forward !== undefined && (matches(rest, op) || matches(rest, forward));
  }
  if (pattern === op.type) {
    return true;
  }
  const escaped = pattern.replace(/[.+^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${escaped.replaceAll("*", ".*").replaceAll("?", ".")}$`).test(op.name);
}

interface Named {
  readonly name: string;
  readonly type: string;
}
