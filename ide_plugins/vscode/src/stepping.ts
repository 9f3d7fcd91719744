import * as vscode from "vscode";

import type { Following } from "./following";

/** By command, how the adapter is to go on. Editors themselves step by lines only. */
const STEPS = {
  "opstep.stepOp": "over",
  "opstep.stepOpInto": "into",
  "opstep.stepOpOut": "out",
  "opstep.nextIteration": "iteration",
};

export function registerSteps(following: Following): vscode.Disposable[] {
  return Object.entries(STEPS).map(([command, mode]) =>
    vscode.commands.registerCommand(command, () => step(following, mode)),
  );
}

async function step(following: Following, mode: string): Promise<void> {
  const stop = following.current;
  if (!stop) {
    await vscode.window.showErrorMessage("No opstep session is stopped: pause it first.");
    return;
  }
  try {
    await stop.session.customRequest("opstepResume", { threadId: stop.threadId, mode });
  } catch (error) {
    // A key that repeats faster than ops run finds the thread running: the next press counts.
    if (following.current === stop) {
      await vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
    }
  }
}
