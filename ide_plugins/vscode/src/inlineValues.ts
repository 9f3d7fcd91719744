// Tensors shown beside the names in the Python editor.

import * as vscode from "vscode";

import { Stop } from "./stops";
import type { Name, Names, Place } from "./protocol";

const MAX_NAMES = 200;

/** The values of names, beside the lines of the function that assigned them: `h: float32[8, 4] mean 0.01`. */
export class InlineValues implements vscode.InlineValuesProvider {
  constructor(private readonly type: string) {}

  async provideInlineValues(
    document: vscode.TextDocument,
    viewPort: vscode.Range,
    context: vscode.InlineValueContext,
  ): Promise<vscode.InlineValue[]> {
    const session = vscode.debug.activeDebugSession;
    if (session?.type !== this.type || document.uri.scheme !== "file") {
      return [];
    }
    const frameId = context.frameId;
    const place = await ask<Place>(session, "opstepPlace", frameId);
    const names = await ask<Names>(session, "opstepNames", frameId);
    if (!place || names?.path !== document.uri.fsPath) {
      return [];
    }
    const last = Math.min(viewPort.end.line + 1, document.lineCount);
    const assigned = inView(names.names, viewPort.start.line + 1, last);
    const found = await new Stop(session, place.threadId).values(
      [...new Set(assigned.map(({ variable }) => variable))],
    );
    // Variables that are not written yet have no value.
    const values = new Map(found.map((value) => [value.variable, value.brief]));
    const shown: vscode.InlineValue[] = [];
    for (const { name, variable, line } of assigned) {
      const value = values.get(variable);
      if (value !== undefined && line !== undefined) {
        shown.push(new vscode.InlineValueText(rangeOf(document, line - 1, name), `${name}: ${value}`));
      }
    }
    return shown;
  }
}

async function ask<T>(
  session: vscode.DebugSession,
  command: string,
  frameId: number,
): Promise<T | undefined> {
  try {
    return await session.customRequest(command, { frameId });
  } catch {
    return undefined; // The thread went on.
  }
}

/** The names that are assigned on visible lines. */
export function inView(names: readonly Name[], first: number, last: number): readonly Name[] {
  return names
    .filter(({ line }) => line !== undefined && line >= first && line <= last)
    .slice(0, MAX_NAMES);
}

function rangeOf(document: vscode.TextDocument, line: number, name: string): vscode.Range {
  const text = document.lineAt(line);
  const at = text.text.indexOf(name);
  return at < 0 ? text.range : new vscode.Range(line, at, line, at + name.length);
}
