// The HTML of a web page of this extension, with its content security policy.

import { randomBytes } from "node:crypto";

import * as vscode from "vscode";

/** A view's page may load only this extension's script and styles. */
export function pageOptions(extension: vscode.Uri): vscode.WebviewOptions {
  const folders = ["dist", "media"].map((name) => vscode.Uri.joinPath(extension, name));
  return { enableScripts: true, localResourceRoots: folders };
}

/** The page that dist/NAME.js fills and media/NAME.css styles. */
export function pageHtml(webview: vscode.Webview, extension: vscode.Uri, name: string, body = ""): string {
  const nonce = randomBytes(18).toString("base64url");
  const uri = (...path: string[]) => webview.asWebviewUri(vscode.Uri.joinPath(extension, ...path));
  const policy = `default-src 'none'; script-src 'nonce-${nonce}'; style-src ${webview.cspSource};`;
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="${uri("media", `${name}.css`)}">
</head>
<body>${body}
<script nonce="${nonce}" src="${uri("dist", `${name}.js`)}"></script>
</body>
</html>`;
}
