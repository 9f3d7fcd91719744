// The commands that step by ops.

import * as vscode from "vscode";

import type { Stops } from "./stops";

/** The resume mode of each command. Editors themselves step only by lines. */
const STEPS = {
  "opstep.stepOp": "over",
  "opstep.stepOpInto": "into",
  "opstep.stepOpOut": "out",
  "opstep.nextIteration": "iteration",
};

export function registerSteps(stops: Stops): vscode.Disposable[] {
  return Object.entries(STEPS).map(([command, mode]) =>
    vscode.commands.registerCommand(command, () => step(stops, mode)),
  );
}

async function step(stops: Stops, mode: string): Promise<void> {
  const stop = stops.current;
  if (!stop) {
    await vscode.window.showErrorMessage("No opstep session is stopped: pause it first.");
    return;
  }
  try {
    await stop.session.customRequest("opstepResume", { threadId: stop.threadId, mode });
  } catch (error) {
    // A key that repeats faster than ops run finds the thread running: the next press counts.
    if (stops.current === stop) {
      await vscode.window.showErrorMessage(error instanceof Error ? error.message : String(error));
    }
  }
}
