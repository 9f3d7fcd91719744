// The processes with an executor, and the picker that offers them.

import { execFile } from "node:child_process";

import * as vscode from "vscode";

import { chooseInterpreter } from "./interpreter";

/** A process with an executor, as `opstep ps --json` describes it. */
export interface RunningProcess {
  readonly pid: number;
  readonly argv: readonly string[];
  readonly policy: string;
  readonly attached: boolean;
  readonly server: string;
}

/** The command behind `${command:pickProcess}`: the id of a process that can be attached to. */
export async function pickProcess(
  safeDirectory: string,
  configuration?: vscode.DebugConfiguration,
): Promise<string | undefined> {
  const folder = vscode.workspace.workspaceFolders?.[0];
  const python = await chooseInterpreter(configuration?.["python"] as string | undefined, folder);
  let running: RunningProcess[];
  try {
    running = await list(python, safeDirectory);
  } catch (error) {
    const reason = error instanceof Error ? error.message.trim().split("\n").pop() : String(error);
    void vscode.window.showErrorMessage(
      `The processes that ${python} knows cannot be listed (${reason}): ` +
        'set "python" in launch.json or the setting opstep.python.',
    );
    return undefined;
  }
  if (running.length === 0) {
    void vscode.window.showErrorMessage(
      "No process of yours has an executor now: start the script first, then attach.",
    );
    return undefined;
  }
  const chosen = await vscode.window.showQuickPick(running.map(item), {
    title: "Attach with opstep",
    placeHolder: "The process to debug",
    matchOnDescription: true,
    matchOnDetail: true,
  });
  return chosen?.label;
}

/** A process as an item of the picker. */
export function item(running: RunningProcess): vscode.QuickPickItem {
  const remarks = [
    ...(running.policy === "full" ? [] : [running.policy]),
    ...(running.attached ? ["debugged by somebody"] : running.server ? ["connected to a server"] : []),
  ];
  return {
    label: String(running.pid),
    description: running.argv.join(" "),
    ...(remarks.length ? { detail: remarks.join(", ") } : {}),
  };
}

function list(python: string, safeDirectory: string): Promise<RunningProcess[]> {
  return new Promise((resolve, reject) => {
    const options = { cwd: safeDirectory, timeout: 30_000 };
    execFile(python, ["-m", "opstep_server", "ps", "--json"], options, (error, stdout, stderr) => {
      if (error) {
        reject(new Error(stderr || error.message));
      } else {
        resolve(JSON.parse(stdout) as RunningProcess[]);
      }
    });
  });
}
