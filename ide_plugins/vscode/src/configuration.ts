// Debug configurations: the offered ones, their completion and checks, and the commands that start one.

import * as path from "node:path";

import * as vscode from "vscode";

import { checkInterpreter, chooseInterpreter } from "./interpreter";

const CURRENT_FILE: vscode.DebugConfiguration = {
  type: "opstep",
  request: "launch",
  name: "Debug this file with opstep",
  program: "${file}",
};

/** The command behind the editor's run button. */
export async function debugThisFile(resource?: vscode.Uri): Promise<void> {
  const uri = resource ?? vscode.window.activeTextEditor?.document.uri;
  if (!uri) {
    await vscode.window.showErrorMessage("Open the Python file to debug, then start opstep again.");
    return;
  }
  const configuration = { ...CURRENT_FILE, program: uri.fsPath };
  await vscode.debug.startDebugging(vscode.workspace.getWorkspaceFolder(uri), configuration);
}

/** Attach without a launch.json: asks for the process. */
export async function attachToProcess(): Promise<void> {
  const pid = "${command:pickProcess}";
  const configuration = { type: "opstep", request: "attach", name: "Attach with opstep", pid };
  await vscode.debug.startDebugging(vscode.workspace.workspaceFolders?.[0], configuration);
}

/** The offers of "Select and Start Debugging" without a launch.json. */
export class DynamicConfigurationProvider implements vscode.DebugConfigurationProvider {
  provideDebugConfigurations(): vscode.DebugConfiguration[] {
    return [{ ...CURRENT_FILE }];
  }
}

/** Completes a configuration, even an empty one (F5 without launch.json). */
export class ConfigurationProvider implements vscode.DebugConfigurationProvider {
  constructor(
    private readonly safeDirectory: string,
    private readonly version: string,
  ) {}

  provideDebugConfigurations(): vscode.DebugConfiguration[] {
    return [{ ...CURRENT_FILE, name: "Debug with opstep" }];
  }

  async resolveDebugConfiguration(
    _folder: vscode.WorkspaceFolder | undefined,
    given: vscode.DebugConfiguration,
  ): Promise<vscode.DebugConfiguration | undefined> {
    const fromNothing = !given.type && !given.request && !given.name;
    const configuration = fromNothing ? { ...CURRENT_FILE } : given;
    if (configuration.request === "attach") {
      return configuration;
    }
    const nothingNamed = !configuration["program"] && !configuration["module"];
    if (configuration["program"] === "${file}" || nothingNamed) {
      const document = vscode.window.activeTextEditor?.document;
      if (document?.languageId !== "python" || document.uri.scheme !== "file") {
        return refuse("Open the Python file to debug and save it, or name one as \"program\" in launch.json.");
      }
      configuration["program"] = document.uri.fsPath;
    }
    return configuration;
  }

  async resolveDebugConfigurationWithSubstitutedVariables(
    folder: vscode.WorkspaceFolder | undefined,
    configuration: vscode.DebugConfiguration,
  ): Promise<vscode.DebugConfiguration | undefined> {
    if (configuration.request === "attach") {
      return this.attaching(folder ?? vscode.workspace.workspaceFolders?.[0], configuration);
    }
    if (configuration.request !== "launch") {
      return refuse(`opstep has no "${configuration.request}" request: write "launch" or "attach".`);
    }
    const program = configuration["program"] as string | undefined;
    const home =
      folder ??
      (program ? vscode.workspace.getWorkspaceFolder(vscode.Uri.file(program)) : undefined) ??
      vscode.workspace.workspaceFolders?.[0];
    const base = home?.uri.fsPath ?? path.dirname(program ?? "");
    const python = await chooseInterpreter(configuration["python"] as string | undefined, home);
    const problem = await checkInterpreter(python, this.safeDirectory, this.version);
    if (problem) {
      return refuse(problem.message, problem.installCommand);
    }
    return {
      args: [],
      env: {},
      stopOnEntry: false,
      justMyCode: true,
      ...configuration,
      ...(program ? { program: path.resolve(base, program) } : {}),
      cwd: path.resolve(base, (configuration["cwd"] as string | undefined) ?? base),
      python,
    };
  }

  private async attaching(
    folder: vscode.WorkspaceFolder | undefined,
    configuration: vscode.DebugConfiguration,
  ): Promise<vscode.DebugConfiguration | undefined> {
    const python = await chooseInterpreter(configuration["python"] as string | undefined, folder);
    const problem = await checkInterpreter(python, this.safeDirectory, this.version);
    if (problem) {
      return refuse(problem.message, problem.installCommand);
    }
    // An input box and the process picker give text.
    const pid = configuration["pid"] as number | string | undefined;
    if (pid !== undefined && !/^[1-9]\d*$/.test(String(pid))) {
      return refuse(`"${pid}" is not a process id: write one of those that "opstep ps" lists, or \${command:pickProcess}.`);
    }
    return { ...configuration, ...(pid === undefined ? {} : { pid: Number(pid) }), python };
  }
}

/** Shows why nothing is started; for VS Code, undefined means "not now". */
function refuse(message: string, command?: string): undefined {
  const copy = "Copy Install Command";
  void vscode.window.showErrorMessage(message, ...(command ? [copy] : [])).then((choice) => {
    if (choice === copy && command) {
      return vscode.env.clipboard.writeText(command);
    }
    return undefined;
  });
  return undefined;
}
