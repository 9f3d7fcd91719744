// The panel of a tensor view, in the extension's process.

import * as vscode from "vscode";

import type { Stop, Stops } from "../stops";
import { pageHtml, pageOptions } from "../page";
import type { FromPage, Query, Subject, ToPage } from "./messages";

export const VIEW = "opstep.tensor";

/** One tensor in its own tab, refreshed at each stop. */
export class TensorPanel implements vscode.Disposable {
  private readonly panel: vscode.WebviewPanel;
  private readonly subscriptions: vscode.Disposable[];
  private frame: { stop: Stop; id: Promise<number> } | undefined;
  private shown = 0;
  private ready = false;
  private behind = false;

  constructor(
    extension: vscode.Uri,
    private readonly stops: Stops,
    private subject: Subject,
    closed: () => void,
    panel?: vscode.WebviewPanel,
  ) {
    const { Beside } = vscode.ViewColumn;
    const options = { ...pageOptions(extension), retainContextWhenHidden: true };
    const place = { viewColumn: Beside, preserveFocus: false };
    this.panel = panel ?? vscode.window.createWebviewPanel(VIEW, subject.expression, place, options);
    this.panel.webview.options = pageOptions(extension);
    this.panel.iconPath = vscode.Uri.joinPath(extension, "media", "icon.svg");
    this.subscriptions = [
      stops.onDidChange((stop) => this.show(stop)),
      this.panel.onDidChangeViewState(() => this.behind && this.show(stops.current)),
      this.panel.webview.onDidReceiveMessage((message: FromPage) => this.hear(message)),
      this.panel.onDidDispose(() => {
        this.dispose();
        closed();
      }),
    ];
    this.panel.webview.html = pageHtml(this.panel.webview, extension, "tensor");
  }

  get expression(): string {
    return this.subject.expression;
  }

  reveal(): void {
    this.panel.reveal();
  }

  dispose(): void {
    for (const each of this.subscriptions.splice(0)) {
      each.dispose();
    }
    this.panel.dispose();
  }

  private show(stop: Stop | undefined): void {
    // A hidden view is refreshed when it becomes visible, so that steps do not wait for it.
    this.behind = !this.panel.visible;
    if (!this.ready || this.behind) {
      return;
    }
    if (!stop) {
      this.tell({ kind: this.stops.sessions.length ? "running" : "ended" });
      return;
    }
    this.shown += 1;
    const number = this.shown;
    void stop.where().then((place) => {
      if (place && number === this.shown && this.stops.current === stop) {
        const where = `${place.programName}, run ${place.run}`;
        this.tell({ kind: "stopped", stop: number, where, subject: this.subject });
      }
    });
  }

  private hear(message: FromPage): void {
    switch (message.kind) {
      case "ready":
        this.ready = true;
        this.show(this.stops.current);
        break;
      case "query":
        void this.answer(message.id, message.query);
        break;
      case "copy":
        void this.reporting(() => this.copy(message.part));
        break;
      case "save":
        void this.reporting(() => this.save());
        break;
      case "compare":
        void this.reporting(() => this.compare());
        break;
      case "expression":
        this.look({ expression: message.expression, against: "" });
        break;
    }
  }

  private look(subject: Subject): void {
    this.subject = subject;
    const { expression, against } = subject;
    this.panel.title = against ? `${expression} − ${against}` : expression;
    this.show(this.stops.current);
  }

  private async answer(id: number, query: Query): Promise<void> {
    const { command, ...more } = query;
    const { expression, against } = this.subject;
    try {
      const body = await this.ask(command, { expression, against, ...more });
      this.tell({ kind: "answer", id, body });
    } catch (error) {
      this.tell({ kind: "failure", id, sentence: sentence(error) });
    }
  }

  /** Asks in the frame of the current op of the thread in view. */
  private async ask<T>(command: string, more: object): Promise<T> {
    const stop = this.stops.current;
    if (!stop) {
      throw new Error("Nothing is stopped: pause first.");
    }
    if (this.frame?.stop !== stop) {
      this.frame = { stop, id: topFrame(stop) };
    }
    return stop.session.customRequest(command, { frameId: await this.frame.id, ...more });
  }

  private async copy(part: string): Promise<void> {
    const expression = part ? `(${this.expression})${part}` : this.expression;
    const found = await this.ask<{ result: string }>("evaluate", { expression, context: "clipboard" });
    await vscode.env.clipboard.writeText(found.result);
    vscode.window.setStatusBarMessage(`opstep: copied ${this.expression}${part} as NumPy`, 4000);
  }

  private async save(): Promise<void> {
    const name = `${this.expression.replace(/[^\w.-]+/g, "_")}.npy`;
    const folder = this.stops.current?.session.workspaceFolder?.uri;
    const chosen = await vscode.window.showSaveDialog({
      title: `Save ${this.expression}`,
      filters: { "NumPy arrays": ["npy"] },
      ...(folder ? { defaultUri: vscode.Uri.joinPath(folder, name) } : {}),
    });
    if (chosen) {
      // The dialog has asked whether a file may be overwritten.
      const asked = { expression: this.expression, path: chosen.fsPath, overwrite: true };
      const { path, data } = await this.ask<{ path: string; data?: string }>("opstepSave", asked);
      if (data !== undefined) {
        await vscode.workspace.fs.writeFile(chosen, Buffer.from(data, "base64"));
      }
      const where = path || chosen.fsPath;
      void vscode.window.showInformationMessage(`Saved ${this.expression} to ${where}.`);
    }
  }

  private async compare(): Promise<void> {
    const against = await vscode.window.showInputBox({
      title: `Compare ${this.expression} with`,
      prompt: "A tensor of the same shape, or an expression for one; empty for none.",
      value: this.subject.against,
    });
    if (against !== undefined) {
      this.look({ expression: this.expression, against: against.trim() });
    }
  }

  private async reporting(action: () => Promise<void>): Promise<void> {
    try {
      await action();
    } catch (error) {
      void vscode.window.showErrorMessage(sentence(error));
    }
  }

  private tell(message: ToPage): void {
    void this.panel.webview.postMessage(message);
  }
}

async function topFrame(stop: Stop): Promise<number> {
  const asked = { threadId: stop.threadId, startFrame: 0, levels: 1 };
  const found = await stop.session.customRequest("stackTrace", asked);
  return found.stackFrames[0].id as number;
}

function sentence(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
