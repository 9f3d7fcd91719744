// The message when a debug server ends unexpectedly.

import * as vscode from "vscode";

interface Message {
  readonly command?: string;
  readonly event?: string;
}

/** Shows a message when a debug server ends by itself: VS Code only ends the session. */
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
        // VS Code tells extensions no signal: it leaves the code out.
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
