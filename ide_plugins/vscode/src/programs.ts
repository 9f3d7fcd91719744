// The programs of the sessions with their graphs, and the places of their ops.

import * as vscode from "vscode";

import type { Stops } from "./stops";
import type { Graph, Op, Program } from "./protocol";

/** The programs of all sessions; each version is fetched once. */
export class Programs {
  private readonly graphs = new Map<vscode.DebugSession, Map<string, Promise<Graph | undefined>>>();

  constructor(stops: Stops) {
    stops.onDidChangePrograms((session) => this.graphs.delete(session));
  }

  async list(session: vscode.DebugSession): Promise<readonly Program[]> {
    const answer = await ask<{ modules: Program[] }>(session, "modules", {});
    return answer?.modules ?? [];
  }

  graph(session: vscode.DebugSession, program: string): Promise<Graph | undefined> {
    const known = this.graphs.get(session) ?? new Map<string, Promise<Graph | undefined>>();
    this.graphs.set(session, known);
    const graph = known.get(program) ?? this.read(session, program, known);
    known.set(program, graph);
    return graph;
  }

  private async read(
    session: vscode.DebugSession,
    program: string,
    known: Map<string, unknown>,
  ): Promise<Graph | undefined> {
    const graph = await ask<Graph>(session, "opstepGraph", { program });
    if (!graph) {
      known.delete(program); // A step cancels the request: the next stop asks again.
    }
    return graph;
  }
}

async function ask<T>(
  session: vscode.DebugSession,
  command: string,
  args: object,
): Promise<T | undefined> {
  try {
    return await session.customRequest(command, args);
  } catch {
    return undefined;
  }
}

/** Shows the Python line that made the op; the listing when there is none. */
export async function showLine(session: vscode.DebugSession, graph: Graph, op: Op): Promise<void> {
  const made = op.stack[0];
  if (made) {
    await open(vscode.Uri.file(made.path), made.line);
  } else {
    await showListing(session, graph, op);
  }
}

export async function showListing(
  session: vscode.DebugSession,
  graph: Graph,
  op: Op,
): Promise<void> {
  // VS Code shows a source without a path by its name; this function does not.
  const source = { ...graph.listing, path: graph.listing.name };
  await open(vscode.debug.asDebugSourceUri(source, session), op.listingLine);
}

async function open(uri: vscode.Uri, line: number): Promise<void> {
  const start = new vscode.Position(line - 1, 0);
  // Beside a view that fills its column, not over it.
  const group = vscode.window.tabGroups.all.find((each) => each.activeTab?.input instanceof vscode.TabInputText);
  try {
    await vscode.window.showTextDocument(uri, {
      selection: new vscode.Range(start, start),
      ...(group ? { viewColumn: group.viewColumn } : {}),
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    await vscode.window.showErrorMessage(`${uri.fsPath} cannot be opened: ${reason}`);
  }
}
