// The Python interpreter of a session: its choice, and whether it has a matching opstep.

import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as path from "node:path";

import * as vscode from "vscode";

/** The part of the Python extension's public API that is used here. */
interface PythonExtensionApi {
  readonly environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly id: string; readonly path: string };
    resolveEnvironment(environment: {
      readonly id: string;
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
  };
}

/**
 * The interpreter for a session: the configuration's, the setting's, the workspace's `.venv`, the
 * Python extension's, `python3`; the first one that is set wins.
 */
export async function chooseInterpreter(
  configured: string | undefined,
  folder: vscode.WorkspaceFolder | undefined,
): Promise<string> {
  const setting = vscode.workspace.getConfiguration("opstep", folder?.uri).get<string>("python");
  const explicit = configured?.trim() || setting?.trim();
  if (explicit) {
    return absolute(explicit, folder);
  }
  const venv = folder && path.join(folder.uri.fsPath, ".venv", "bin", "python");
  if (venv && fs.existsSync(venv)) {
    return venv;
  }
  return (await pythonExtensionInterpreter(folder?.uri)) ?? "python3";
}

/** A path is relative to the workspace folder; a bare command is found on PATH. */
function absolute(python: string, folder: vscode.WorkspaceFolder | undefined): string {
  const home = process.env["HOME"] ?? "~";
  const root = folder?.uri.fsPath ?? process.cwd();
  const expanded = python.replace(/^~(?=\/)/, home).replace("${workspaceFolder}", root);
  return expanded.includes("/") ? path.resolve(root, expanded) : expanded;
}

async function pythonExtensionInterpreter(resource?: vscode.Uri): Promise<string | undefined> {
  const extension = vscode.extensions.getExtension<PythonExtensionApi>("ms-python.python");
  if (!extension) {
    return undefined;
  }
  try {
    const { environments } = await extension.activate();
    const active = environments.getActiveEnvironmentPath(resource);
    return (await environments.resolveEnvironment(active))?.executable.uri?.fsPath;
  } catch {
    return undefined; // Another extension's failure must not keep this one from debugging.
  }
}

/** The problem of an interpreter, and the command that would fix it, if there is one. */
export interface InterpreterProblem {
  readonly message: string;
  readonly installCommand?: string;
}

/** Why `python` cannot run the debug adapter; undefined when it can. */
export function checkInterpreter(
  python: string,
  safeDirectory: string,
  extensionVersion: string,
): Promise<InterpreterProblem | undefined> {
  return new Promise((resolve) => {
    const options = { cwd: safeDirectory, timeout: 30_000 };
    const code = [
      "import sys; print('cp%d%d' % sys.version_info[:2], flush=True)",
      "import opstep_server; print(opstep_server.version())",
    ].join("\n");
    execFile(python, ["-c", code], options, (error, stdout, stderr) => {
      const lines = stdout.trim().split("\n");
      const tag = lines.find((line) => /^cp\d+$/.test(line)) ?? "";
      const version = lines.pop() ?? "";
      const command = installCommand(python, tag);
      resolve(
        error
          ? describe(python, error, stderr, command)
          : mismatch(python, version, extensionVersion, command),
      );
    });
  });
}

/** Before 1.0, versions with different second numbers do not work together. */
function mismatch(
  python: string,
  opstep: string,
  extension: string,
  installCommand: string,
): InterpreterProblem | undefined {
  const order = compareReleases(opstep, extension);
  if (order === 0) {
    return undefined;
  }
  const wanted = extension.split(".").slice(0, 2).join(".");
  const found = `${python} has opstep ${opstep}, and this extension is for opstep ${wanted}`;
  return order < 0
    ? { message: `${found}: ${installing(installCommand)}.`, installCommand }
    : { message: `${found}: install the extension of that opstep ("make vsix" in its folder).` };
}

/** Below, at or above zero, by the first two numbers; a version without numbers (not installed) fits. */
export function compareReleases(one: string, other: string): number {
  const [a, b] = [one, other].map((version) => /^(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number));
  if (!a || !b) {
    return 0;
  }
  return a[0]! - b[0]! || a[1]! - b[1]!;
}

function describe(
  python: string,
  error: Error & { code?: unknown },
  stderr: string,
  installCommand: string,
): InterpreterProblem {
  const whatToDo = 'set "python" in launch.json or the setting opstep.python';
  if (typeof error.code === "string") {
    return { message: `The Python interpreter ${python} cannot be started (${error.code}): ${whatToDo}.` };
  }
  const reason = stderr.trim().split("\n").pop() ?? "";
  if (/No module named '?opstep_server'?$/.test(reason)) {
    return {
      message: `opstep is not installed for ${python}: ${installing(installCommand)}, or ${whatToDo}.`,
      installCommand,
    };
  }
  return { message: `${python} cannot import opstep_server (${reason || error.message}): ${whatToDo}.` };
}

function installing(installCommand: string): string {
  return `in opstep's folder run "make wheel" and "${installCommand}"`;
}

/** The wheels are built from the sources: no package index has them. `tag` is the Python's, "cp312". */
function installCommand(python: string, tag: string): string {
  return `${quote(python)} -m pip install dist/opstep_server-*.whl dist/opstep-*-${tag}-*.whl`;
}

function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
