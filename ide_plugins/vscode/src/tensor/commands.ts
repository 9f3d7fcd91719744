// The commands that open a tensor view, and the views that are open.

import * as vscode from "vscode";

import type { Stops } from "../stops";
import type { Subject } from "./messages";
import { TensorPanel, VIEW } from "./panel";

/** The Variables view's data about the clicked row. */
interface VariableRow {
  readonly variable?: { readonly name: string; readonly evaluateName?: string };
}

/** Opens tensors in tabs: from the Variables view, from a name in an editor, or as typed. */
export class TensorViews implements vscode.Disposable, vscode.WebviewPanelSerializer {
  private readonly panels = new Set<TensorPanel>();
  private readonly subscriptions: vscode.Disposable[];

  constructor(
    private readonly extension: vscode.Uri,
    private readonly stops: Stops,
  ) {
    this.subscriptions = [
      vscode.commands.registerCommand("opstep.showTensor", (row?: VariableRow | string) => this.show(row)),
      vscode.commands.registerCommand("opstep.showTensorHere", () => this.show(nameInEditor())),
      vscode.languages.registerHoverProvider("python", this),
      vscode.window.registerWebviewPanelSerializer(VIEW, this),
    ];
  }

  dispose(): void {
    for (const each of [...this.panels, ...this.subscriptions]) {
      each.dispose();
    }
  }

  /** While a program is stopped, VS Code shows its own hover, and this one only with Alt. */
  provideHover(document: vscode.TextDocument, position: vscode.Position): vscode.Hover | undefined {
    const range = this.stops.current && document.getWordRangeAtPosition(position, NAME);
    if (!range) {
      return undefined;
    }
    const name = document.getText(range);
    const asked = encodeURIComponent(JSON.stringify([name]));
    const text = new vscode.MarkdownString(`[Show \`${name}\` in the tensor view](command:opstep.showTensor?${asked})`);
    text.isTrusted = { enabledCommands: ["opstep.showTensor"] };
    return new vscode.Hover(text, range);
  }

  private async show(row?: VariableRow | string): Promise<void> {
    const given = typeof row === "string" ? row : row?.variable?.evaluateName;
    const expression = given ?? (await this.ask(nameInEditor()));
    if (!expression) {
      return;
    }
    if (!this.stops.current) {
      void vscode.window.showErrorMessage("No opstep session is stopped: stop at an op first.");
      return;
    }
    const open = [...this.panels].find((panel) => panel.expression === expression);
    if (open) {
      open.reveal();
      return;
    }
    this.open({ expression, against: "" });
  }

  /** The window was reloaded: the view shows its tensor again at the next stop. */
  async deserializeWebviewPanel(panel: vscode.WebviewPanel, kept: Subject | undefined): Promise<void> {
    if (kept) {
      this.open(kept, panel);
    } else {
      panel.dispose();
    }
  }

  private open(subject: Subject, existing?: vscode.WebviewPanel): void {
    const closed = (): unknown => this.panels.delete(panel);
    const panel: TensorPanel = new TensorPanel(this.extension, this.stops, subject, closed, existing);
    this.panels.add(panel);
  }

  private ask(value: string | undefined): Thenable<string | undefined> {
    return vscode.window.showInputBox({
      title: "Show a tensor",
      prompt: "A variable, or an expression such as grad(fc_0.w)[0]",
      ...(value ? { value } : {}),
    });
  }
}

/** The name with its attributes: `self.loss`. */
const NAME = /[A-Za-z_]\w*(\.[A-Za-z_]\w*)*/;

function nameInEditor(): string | undefined {
  const editor = vscode.window.activeTextEditor;
  if (!editor) {
    return undefined;
  }
  if (!editor.selection.isEmpty) {
    return editor.document.getText(editor.selection).trim();
  }
  const range = editor.document.getWordRangeAtPosition(editor.selection.active, NAME);
  return range && editor.document.getText(range);
}
