// The panel of the graph view, in the extension's process.

import * as vscode from "vscode";

import type { Stops } from "../stops";
import { marks, toggle } from "../opBreakpoints";
import { pageHtml, pageOptions } from "../page";
import { type Programs, showLine, showListing } from "../programs";
import type { Graph, Place } from "../protocol";
import type { Kind } from "./colourScale";
import type { FromPage, PageState, ToPage } from "./messages";
import { SHELL } from "./shell";
import { StatisticsTap } from "./statisticsTap";

const VIEW = "opstep.graph";
const MAX_VALUES = 2000;

/** The program as a graph, in a panel beside the editor. There is one, which follows the stops. */
export class GraphPanel implements vscode.Disposable, vscode.WebviewPanelSerializer {
  private panel: vscode.WebviewPanel | undefined;
  private session: vscode.DebugSession | undefined;
  private graph: Graph | undefined;
  private reveal: number | undefined;
  private switching = true;
  /** What was shown before the window was reloaded. */
  private wanted: string | undefined;
  private by: Kind | "" = "";
  private readonly tap = new StatisticsTap((statistics, problem) =>
    this.post({ type: "statistics", statistics, problem }),
  );
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly extension: vscode.Uri,
    private readonly stops: Stops,
    private readonly programs: Programs,
  ) {
    this.subscriptions = [
      stops.onDidChange(() => this.follow()),
      stops.onDidChangePrograms((session) => this.compiled(session)),
      vscode.debug.onDidChangeBreakpoints(() => this.sendMarks()),
      vscode.window.registerWebviewPanelSerializer(VIEW, this),
      this.tap,
    ];
  }

  /** Opens the panel: on a program, on one of its ops, or at the current op. */
  async show(session?: vscode.DebugSession, program?: string, op?: number): Promise<void> {
    const place = await this.stops.current?.where();
    const chosen = session ?? this.stops.current?.session ?? this.stops.sessions[0];
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
    this.adopt(
      vscode.window.createWebviewPanel(
        VIEW,
        "Graph",
        { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
        { ...pageOptions(this.extension), retainContextWhenHidden: true },
      ),
    );
  }

  /** The window was reloaded: its sessions are gone, and the panel waits for the next one. */
  async deserializeWebviewPanel(panel: vscode.WebviewPanel, kept: PageState | undefined): Promise<void> {
    this.wanted = kept?.program;
    panel.webview.options = pageOptions(this.extension);
    this.adopt(panel);
  }

  dispose(): void {
    this.panel?.dispose();
    for (const each of this.subscriptions) {
      each.dispose();
    }
  }

  private adopt(panel: vscode.WebviewPanel): void {
    this.panel?.dispose();
    this.panel = panel;
    panel.iconPath = vscode.Uri.joinPath(this.extension, "media", "icon.svg");
    panel.webview.onDidReceiveMessage((message: FromPage) => this.hear(message));
    panel.onDidChangeViewState(() => this.updateTap());
    panel.onDidDispose(() => {
      if (panel === this.panel) {
        this.panel = undefined;
        this.by = "";
        this.updateTap();
      }
    });
    panel.webview.html = pageHtml(panel.webview, this.extension, "graph", SHELL);
  }

  private async hear(message: FromPage): Promise<void> {
    const { session, graph } = this;
    if (message.type === "ready") {
      await (graph ? this.sendGraph() : this.find());
    } else if (message.type === "colour") {
      this.by = message.by;
      this.updateTap();
    } else if (message.type === "following") {
      this.switching = message.on;
      await this.follow();
    } else if (!session || !graph) {
      return;
    } else if (message.type === "program") {
      await this.choose(session, message.id);
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

  /** Ops are tapped only while their colours are visible. */
  private updateTap(): void {
    const { session, graph, panel } = this;
    const live = session !== undefined && this.stops.sessions.includes(session);
    const seen = this.by !== "" && panel?.visible === true && live && graph !== undefined;
    this.tap.watch(seen ? session : undefined, graph?.id ?? "");
  }

  /** Shows another program, unless it is shown already. */
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
      this.updateTap();
      await this.sendPlace();
    }
  }

  /** Chooses a program to show when there was none. */
  private async find(): Promise<void> {
    const session = this.stops.current?.session ?? this.stops.sessions[0];
    if (session) {
      await this.compiled(session);
    }
    if (!this.graph) {
      this.post({ type: "place", ops: [], text: "start debugging to see a program here" });
    }
  }

  private sendMarks(): void {
    if (this.graph) {
      this.post({ type: "marks", marks: [...marks(this.graph.ops)] });
    }
  }

  private async follow(): Promise<void> {
    const stop = this.stops.current;
    const place = this.panel && (await stop?.where());
    if (!this.panel || stop !== this.stops.current) {
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
    const stop = this.stops.current;
    const place = stop?.session === this.session ? await stop?.where() : undefined;
    if (stop !== this.stops.current) {
      return;
    }
    if (place && place.program === this.graph?.id) {
      const { ops, fault } = place;
      this.post({ type: "place", ops, text: standing(place), ...(fault ? { fault } : {}) });
    } else {
      const ended = !this.session || !this.stops.sessions.includes(this.session);
      const text = ended ? "the session has ended" : place ? `stopped in ${place.programName}` : "running";
      this.post({ type: "place", ops: [], text });
    }
    if (this.reveal !== undefined) {
      this.post({ type: "reveal", op: this.reveal });
      this.reveal = undefined;
    }
  }

  private async sendValues(variables: readonly string[]): Promise<void> {
    const stop = this.stops.current;
    const place = stop?.session === this.session ? await stop?.where() : undefined;
    if (stop && place && place.program === this.graph?.id && variables.length > 0) {
      const values = await stop.values(variables.slice(0, MAX_VALUES));
      if (stop === this.stops.current) {
        this.post({ type: "values", values });
      }
    }
  }

  /** Shows a program again when it was compiled again, or is the same in the next session. */
  private async compiled(session: vscode.DebugSession): Promise<void> {
    const name = this.graph?.name ?? this.wanted;
    if (!this.panel || name === undefined) {
      return;
    }
    const ended = !this.session || !this.stops.sessions.includes(this.session);
    if (session !== this.session && !ended) {
      return;
    }
    const same = (await this.programs.list(session)).find((each) => each.name === name);
    if (same) {
      await this.choose(session, same.id);
    } else if (ended && this.graph) {
      this.updateTap();
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
