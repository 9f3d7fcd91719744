// The process of a session's debug adapter.

import * as vscode from "vscode";

/** Starts the debug adapter with the interpreter that the configuration provider chose. */
export class AdapterFactory implements vscode.DebugAdapterDescriptorFactory {
  /** @param safeDirectory a folder without Python files: `python -m` imports from its working directory. */
  constructor(private readonly safeDirectory: string) {}

  createDebugAdapterDescriptor(session: vscode.DebugSession): vscode.DebugAdapterDescriptor {
    const python = session.configuration["python"] as string;
    return new vscode.DebugAdapterExecutable(python, ["-m", "opstep_server", "dap"], {
      cwd: this.safeDirectory,
    });
  }
}
