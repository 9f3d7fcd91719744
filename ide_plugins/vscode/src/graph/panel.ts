import { randomBytes } from "node:crypto";

import * as vscode from "vscode";

import type { Following } from "../following";
import { marks, toggle } from "../opBreakpoints";
import { type Programs, showLine, showListing } from "../programs";
import type { Graph, Place } from "../protocol";
import type { FromPage, ToPage } from "./messages";

const MAX_VALUES = 2000;

/** The program as a graph, in a panel beside the editor. There is one, which follows the stops. */
export class GraphPanel implements vscode.Disposable {
  private panel: vscode.WebviewPanel | undefined;
  private session: vscode.DebugSession | undefined;
  private graph: Graph | undefined;
  private reveal: number | undefined;
  private switching = true;
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly extension: vscode.Uri,
    private readonly following: Following,
    private readonly programs: Programs,
  ) {
    this.subscriptions = [
      following.onDidChange(() => this.follow()),
      following.onDidChangePrograms((session) => this.compiled(session)),
      vscode.debug.onDidChangeBreakpoints(() => this.sendMarks()),
    ];
  }

  /** Opens the panel: on a program, on one of its ops, or where the run stands. */
  async show(session?: vscode.DebugSession, program?: string, op?: number): Promise<void> {
    const place = await this.following.current?.where();
    const chosen = session ?? this.following.current?.session ?? this.following.sessions[0];
    const id = program ?? place?.program ?? (chosen && (await this.programs.list(chosen)).at(-1)?.id);
    if (!chosen || !id) {
      await vscode.window.showErrorMessage(
        "There is no program to show yet: start debugging, and stop where one runs.",
      );
      return;
    }
    this.reveal = op;
    if (this.panel) {
      this.panel.reveal(undefined, true);
      await this.choose(chosen, id);
      return;
    }
    this.switching = true;
    this.session = chosen;
    this.graph = await this.programs.graph(chosen, id);
    this.open();
  }

  dispose(): void {
    this.panel?.dispose();
    for (const each of this.subscriptions) {
      each.dispose();
    }
  }

  private open(): void {
    const resources = [vscode.Uri.joinPath(this.extension, "dist"), vscode.Uri.joinPath(this.extension, "media")];
    this.panel = vscode.window.createWebviewPanel(
      "opstep.graph",
      "Graph",
      { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
      { enableScripts: true, localResourceRoots: resources, retainContextWhenHidden: true },
    );
    const { webview } = this.panel;
    webview.onDidReceiveMessage((message: FromPage) => this.hear(message));
    this.panel.onDidDispose(() => {
      this.panel = undefined;
    });
    webview.html = page(webview, this.extension);
  }

  private async hear(message: FromPage): Promise<void> {
    const { session, graph } = this;
    if (!session || !graph) {
      return;
    }
    if (message.type === "ready") {
      await this.sendGraph();
    } else if (message.type === "program") {
      await this.choose(session, message.id);
    } else if (message.type === "following") {
      this.switching = message.on;
      await this.follow();
    } else if (message.type === "visible") {
      await this.sendValues(message.variables);
    } else {
      const op = graph.ops.find((each) => each.id === message.op);
      if (op && message.type === "toggle") {
        toggle(op);
      } else if (op && message.type === "line") {
        await showLine(session, graph, op);
      } else if (op) {
        await showListing(session, graph, op);
      }
    }
  }

  /** Shows another program, unless it is the one that is shown. */
  private async choose(session: vscode.DebugSession, program: string): Promise<void> {
    const graph = await this.programs.graph(session, program);
    if (graph && (graph !== this.graph || session !== this.session)) {
      this.session = session;
      this.graph = graph;
      await this.sendGraph();
    } else if (graph) {
      await this.sendPlace();
    }
  }

  private async sendGraph(): Promise<void> {
    if (this.session && this.graph && this.panel) {
      this.panel.title = `Graph of ${this.graph.name}`;
      const programs = (await this.programs.list(this.session)).map(({ id, name }) => ({ id, name }));
      this.post({ type: "graph", graph: this.graph, programs });
      this.sendMarks();
      await this.sendPlace();
    }
  }

  private sendMarks(): void {
    if (this.graph) {
      this.post({ type: "marks", marks: [...marks(this.graph.ops)] });
    }
  }

  private async follow(): Promise<void> {
    const stop = this.following.current;
    const place = this.panel && (await stop?.where());
    if (!this.panel || stop !== this.following.current) {
      return;
    }
    const elsewhere = stop?.session !== this.session || place?.program !== this.graph?.id;
    if (stop && place && elsewhere && this.switching) {
      await this.choose(stop.session, place.program);
    } else {
      await this.sendPlace();
    }
  }

  private async sendPlace(): Promise<void> {
    const stop = this.following.current;
    const place = stop?.session === this.session ? await stop?.where() : undefined;
    if (stop !== this.following.current) {
      return;
    }
    if (place && place.program === this.graph?.id) {
      const { ops, fault } = place;
      this.post({ type: "place", ops, text: standing(place), ...(fault ? { fault } : {}) });
    } else {
      const ended = !this.session || !this.following.sessions.includes(this.session);
      const text = ended ? "the session has ended" : place ? `stopped in ${place.programName}` : "running";
      this.post({ type: "place", ops: [], text });
    }
    if (this.reveal !== undefined) {
      this.post({ type: "reveal", op: this.reveal });
      this.reveal = undefined;
    }
  }

  private async sendValues(variables: readonly string[]): Promise<void> {
    const stop = this.following.current;
    const place = stop?.session === this.session ? await stop?.where() : undefined;
    if (stop && place && place.program === this.graph?.id && variables.length > 0) {
      const values = await stop.values(variables.slice(0, MAX_VALUES));
      if (stop === this.following.current) {
        this.post({ type: "values", values });
      }
    }
  }

  /** A program that is compiled anew, or that is the same in the next session, is shown anew. */
  private async compiled(session: vscode.DebugSession): Promise<void> {
    const { graph } = this;
    if (!this.panel || !graph) {
      return;
    }
    const ended = !this.session || !this.following.sessions.includes(this.session);
    if (session !== this.session && !ended) {
      return;
    }
    const same = (await this.programs.list(session)).find(({ name }) => name === graph.name);
    if (same) {
      await this.choose(session, same.id);
    } else if (ended) {
      await this.sendPlace();
    }
  }

  private post(message: ToPage): void {
    void this.panel?.webview.postMessage(message);
  }
}

function standing(place: Place): string {
  const iterations = place.iterations.map((each) => `, iteration ${each}`).join("");
  return `run ${place.run}${iterations}`;
}

function page(webview: vscode.Webview, extension: vscode.Uri): string {
  const nonce = randomBytes(16).toString("base64");
  const resource = (...at: string[]): string =>
    webview.asWebviewUri(vscode.Uri.joinPath(extension, ...at)).toString();
  return `<!DOCTYPE html>
<html lang="en">
<head>
  <meta charset="utf-8">
  <meta http-equiv="Content-Security-Policy"
    content="default-src 'none'; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'">
  <link rel="stylesheet" href="${resource("media", "graph.css")}">
  <title>Graph</title>
</head>
<body>
  <header>
    <select id="program" aria-label="Program"></select>
    <input id="find" type="search" placeholder="Find op ( / )" aria-label="Find an op by name or type">
    <span id="found" role="status"></span>
    <span class="space"></span>
    <span id="standing" role="status"></span>
    <button id="fold" title="Fold or unfold all blocks">Fold blocks</button>
    <button id="fit" title="Show all of it (0)">Fit</button>
    <button id="follow" aria-pressed="true" title="Keep the current op in view (F)">Follow</button>
  </header>
  <svg id="graph" tabindex="0" role="application"
    aria-label="Graph of the program. Arrow keys go from op to op, Enter to its Python line, B sets a breakpoint."></svg>
  <footer id="details" aria-live="polite"></footer>
  <script nonce="${nonce}" src="${resource("dist", "graph.js")}"></script>
</body>
</html>`;
}
