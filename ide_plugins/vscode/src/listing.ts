// Folding and hovers in the editor of a listing.

import * as vscode from "vscode";

import { blocksOf, explain, type ListedOp, parseListing } from "./listingText";

const LANGUAGE = "opstep-listing";

/** Folds blocks and describes variables and ops in listings. */
export class Listing implements vscode.FoldingRangeProvider, vscode.HoverProvider {
  static register(): vscode.Disposable[] {
    const listing = new Listing();
    return [
      vscode.languages.registerFoldingRangeProvider(LANGUAGE, listing),
      vscode.languages.registerHoverProvider(LANGUAGE, listing),
    ];
  }

  private parsed: { document: vscode.TextDocument; version: number; ops: ListedOp[] } | undefined;

  provideFoldingRanges(document: vscode.TextDocument): vscode.FoldingRange[] {
    return blocksOf(this.ops(document)).map(([first, last]) => new vscode.FoldingRange(first, last));
  }

  provideHover(document: vscode.TextDocument, position: vscode.Position): vscode.Hover | undefined {
    const range = document.getWordRangeAtPosition(position);
    const lines = range ? explain(this.ops(document), position.line, document.getText(range)) : [];
    if (!range || lines.length === 0) {
      return undefined;
    }
    const text = new vscode.MarkdownString();
    text.appendCodeblock(lines[0]!, LANGUAGE);
    text.appendText(lines.slice(1).join("\n\n"));
    return new vscode.Hover(text, range);
  }

  /** Listings are read-only and may be long: each is parsed once. */
  private ops(document: vscode.TextDocument): ListedOp[] {
    if (this.parsed?.document !== document || this.parsed.version !== document.version) {
      this.parsed = { document, version: document.version, ops: parseListing(document.getText()) };
    }
    return this.parsed.ops;
  }
}
