// The messages that the page of a tensor view sends and receives.

import type { FromPage, Query, Subject, ToPage } from "../messages";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): Subject | undefined;
  setState(kept: Subject): void;
};

const vscode = acquireVsCodeApi();
const waiting = new Map<number, { take(body: never): void; fail(error: Error): void }>();
let asked = 0;

export function tell(message: FromPage): void {
  vscode.postMessage(message);
}

/** The state to restore when the window is reloaded. */
export function remember(subject: Subject): void {
  vscode.setState(subject);
}

export function remembered(): Subject | undefined {
  return vscode.getState();
}

/** The adapter's answer; fails with the adapter's sentence. */
export function query<T>(query: Query): Promise<T> {
  asked += 1;
  const id = asked;
  return new Promise<T>((take, fail) => {
    waiting.set(id, { take, fail });
    tell({ kind: "query", id, query });
  });
}

export function listen(hear: (message: ToPage) => void): void {
  window.addEventListener("message", (event: MessageEvent<ToPage>) => {
    const message = event.data;
    if (message.kind !== "answer" && message.kind !== "failure") {
      hear(message);
      return;
    }
    const asking = waiting.get(message.id);
    waiting.delete(message.id);
    if (message.kind === "answer") {
      asking?.take(message.body as never);
    } else {
      asking?.fail(new Error(message.sentence));
    }
  });
}
