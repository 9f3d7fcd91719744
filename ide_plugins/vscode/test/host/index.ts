/** Tests inside VS Code's extension host, with the real API; tests/vscode/test_extension_host.py runs them. */

import assert from "node:assert/strict";
import * as path from "node:path";

import * as vscode from "vscode";

const folder = (): vscode.WorkspaceFolder => vscode.workspace.workspaceFolders![0]!;
const inFolder = (name: string): string => path.join(folder().uri.fsPath, name);

/** A promise for the next event, made before what causes it. */
function next<T>(event: vscode.Event<T>): Promise<T> {
  return new Promise((resolve) => {
    const subscription = event((value) => {
      subscription.dispose();
      resolve(value);
    });
  });
}

const tests: Record<string, () => Promise<void>> = {
  "the commands are there": async () => {
    await vscode.extensions.getExtension("opstep.opstep")!.activate();
    const commands = new Set(await vscode.commands.getCommands());
    for (const name of ["debugFile", "attach", "pickProcess", "stepOp", "stepOpInto", "stepOpOut", "nextIteration"]) {
      assert.ok(commands.has(`opstep.${name}`), name);
    }
  },

  "every command of package.json is registered": async () => {
    const { commands } = vscode.extensions.getExtension("opstep.opstep")!.packageJSON.contributes;
    const known = new Set(await vscode.commands.getCommands());
    const missing = (commands as { command: string }[]).filter(({ command }) => !known.has(command));
    assert.deepEqual(missing, []);
  },

  "a session stops on entry, answers, and ends": async () => {
    const started = next(vscode.debug.onDidStartDebugSession);
    let stopped: (body: { threadId: number }) => void = () => {};
    const stop = new Promise<{ threadId: number }>((resolve) => (stopped = resolve));
    const tracker = vscode.debug.registerDebugAdapterTrackerFactory("opstep", {
      createDebugAdapterTracker: () => ({
        onDidSendMessage: (message: { event?: string; body: { threadId: number } }) => {
          if (message.event === "stopped") {
            stopped(message.body);
          }
        },
      }),
    });
    const configuration = { type: "opstep", request: "launch", name: "x", program: "loop.py", stopOnEntry: true };
    assert.ok(await vscode.debug.startDebugging(folder(), configuration));
    const session = await started;
    assert.equal(session.configuration["program"], inFolder("loop.py"));
    const { threadId } = await stop;
    const { stackFrames } = await session.customRequest("stackTrace", { threadId });
    const answer = await session.customRequest("evaluate", {
      expression: "number[1]",
      frameId: stackFrames[0].id,
      context: "watch",
    });
    assert.equal(answer.result, "9");
    const ended = next(vscode.debug.onDidTerminateDebugSession);
    await vscode.debug.stopDebugging(session);
    assert.equal((await ended).id, session.id);
    tracker.dispose();
  },

  "what cannot be attached to is refused": async () => {
    const configuration = { type: "opstep", request: "attach", name: "x", pid: "nobody" };
    assert.equal(await vscode.debug.startDebugging(folder(), configuration), false);
  },

  "a listing has its language, folds and hovers": async () => {
    const document = await vscode.workspace.openTextDocument(vscode.Uri.file(inFolder("newton.opstep")));
    assert.equal(document.languageId, "opstep-listing");
    const folds = await vscode.commands.executeCommand<vscode.FoldingRange[]>(
      "vscode.executeFoldingRangeProvider",
      document.uri,
    );
    const loop = document.getText().split("\n").findIndex((line) => line.includes(" = while("));
    assert.deepEqual(folds.map((fold) => fold.start), [loop]);
    const at = new vscode.Position(1, document.lineAt(1).text.indexOf("number") + 1);
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>(
      "vscode.executeHoverProvider",
      document.uri,
      at,
    );
    const text = hovers.flatMap((hover) => hover.contents.map((part) => (part as vscode.MarkdownString).value));
    const plain = text.join("\n").replaceAll("&nbsp;", " ").replaceAll("\\", "");
    assert.match(plain, /written by #1 feed/);
  },
};

/** The entry point that VS Code calls. */
export async function run(): Promise<void> {
  const failed: string[] = [];
  for (const [name, test] of Object.entries(tests)) {
    try {
      await test();
      console.log(`passed: ${name}`);
    } catch (error) {
      failed.push(`${name}: ${error instanceof Error ? error.stack : String(error)}`);
    }
  }
  if (failed.length) {
    throw new Error(failed.join("\n"));
  }
}
