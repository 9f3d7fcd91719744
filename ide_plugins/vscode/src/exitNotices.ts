// The message that is shown when a debug server ends unexpectedly.

import * as vscode from "vscode";

interface Message {
  readonly command?: string;
  readonly event?: string;
}

/** Says so when a debug server goes away that nobody sent away: VS Code only ends the session. */
export class ExitNotices implements vscode.DebugAdapterTrackerFactory {
  createDebugAdapterTracker(session: vscode.DebugSession): vscode.DebugAdapterTracker {
    let expected = false;
    return {
      onWillReceiveMessage: (message: Message) => {
        expected ||= message.command === "disconnect" || message.command === "terminate";
      },
      onDidSendMessage: (message: Message) => {
        expected ||= message.event === "terminated";
      },
      onExit: (code: number | undefined) => {
        // VS Code names no signal to extensions: it leaves the code out.
        if (!expected && code !== 0) {
          const how = code === undefined ? "it was killed" : `exit code ${code}`;
          const fate = session.configuration.request === "attach" ? "The process" : "The script";
          void vscode.window.showErrorMessage(
            `opstep's debug server ended unexpectedly (${how}). ${fate} goes on without it: start the session again to debug.`,
          );
        }
      },
    };
  }
}
