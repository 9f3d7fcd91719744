// Unit tests of configurations, processes and interpreters.

import assert from "node:assert/strict";
import * as fs from "node:fs";
import * as os from "node:os";
import * as path from "node:path";
import { beforeEach, test } from "node:test";

import { ConfigurationProvider } from "../src/configuration";
import { chooseInterpreter, compareReleases } from "../src/interpreter";
import { item } from "../src/processes";
import { state } from "./stub/vscode";

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "opstep-unit-"));
const provider = new ConfigurationProvider(folder, "0.1.0");

/** An interpreter that has this opstep. */
function python(version: string): string {
  const file = path.join(folder, `python-${version}`);
  fs.writeFileSync(file, `#!/bin/sh\necho ${version}\n`, { mode: 0o755 });
  return file;
}

beforeEach(() => {
  state.settings = {};
  state.errors = [];
  state.activeFile = undefined;
});

test("F5 with nothing debugs the file in the editor", async () => {
  state.activeFile = { languageId: "python", path: "/home/me/project/train.py" };
  const resolved = await provider.resolveDebugConfiguration(undefined, {} as never);
  assert.equal(resolved?.type, "opstep");
  assert.equal(resolved?.["program"], "/home/me/project/train.py");
});

test("without a Python file nothing starts, and it is said", async () => {
  state.activeFile = { languageId: "markdown", path: "/home/me/project/README.md" };
  assert.equal(await provider.resolveDebugConfiguration(undefined, {} as never), undefined);
  assert.match(state.errors.join(), /Open the Python file/);
});

test("a launch is completed: paths from the folder, an interpreter, defaults", async () => {
  const given = { type: "opstep", request: "launch", name: "x", program: "sub/train.py" };
  const whole = await provider.resolveDebugConfigurationWithSubstitutedVariables(undefined, {
    ...given,
    python: python("0.1.7"),
  });
  assert.equal(whole?.["program"], "/home/me/project/sub/train.py");
  assert.equal(whole?.["cwd"], "/home/me/project");
  assert.equal(whole?.["python"], path.join(folder, "python-0.1.7"));
  assert.equal(whole?.["justMyCode"], true);
});

test("a module needs no program", async () => {
  const given = { type: "opstep", request: "launch", name: "x", module: "package.train" };
  assert.equal((await provider.resolveDebugConfiguration(undefined, given))?.["module"], "package.train");
  const whole = await provider.resolveDebugConfigurationWithSubstitutedVariables(undefined, {
    ...given,
    python: python("0.1.0"),
  });
  assert.equal(whole?.["module"], "package.train");
  assert.ok(whole && !("program" in whole));
});

test("another release of opstep is refused with what to do", async () => {
  const given = { type: "opstep", request: "launch", name: "x", program: "train.py" };
  for (const [version, todo] of [["0.0.3", /make wheel/], ["1.0.0", /make vsix/]] as const) {
    state.errors = [];
    const configuration = { ...given, python: python(version) };
    assert.equal(
      await provider.resolveDebugConfigurationWithSubstitutedVariables(undefined, configuration),
      undefined,
    );
    assert.equal(state.errors.length, 1);
    assert.match(state.errors[0]!, todo);
  }
});

test("a process id is a number, also as text", async () => {
  const attach = (pid: unknown) =>
    provider.resolveDebugConfigurationWithSubstitutedVariables(undefined, {
      type: "opstep",
      request: "attach",
      name: "x",
      pid,
      python: python("0.1.0"),
    });
  assert.equal((await attach("4711"))?.["pid"], 4711);
  assert.equal((await attach(12))?.["pid"], 12);
  assert.equal(await attach("me"), undefined);
  assert.match(state.errors.join(), /"me" is not a process id/);
});

test("the interpreter: configuration, setting, python3", async () => {
  assert.equal(await chooseInterpreter(undefined, undefined), "python3");
  state.settings["opstep.python"] = "~/bin/python";
  assert.equal(await chooseInterpreter(undefined, undefined), `${process.env["HOME"]}/bin/python`);
  assert.equal(await chooseInterpreter("pypy", undefined), "pypy");
});

test("releases are told apart by their first two numbers", () => {
  assert.equal(compareReleases("0.1.0", "0.1.9"), 0);
  assert.ok(compareReleases("0.1.0", "0.2.0") < 0);
  assert.ok(compareReleases("0.10.0", "0.9.0") > 0);
  assert.ok(compareReleases("1.0.0", "0.9.0") > 0);
  assert.equal(compareReleases("0+uninstalled", "0.1.0"), 0);
});

test("a process is offered with what it was called with", () => {
  const offered = item({ pid: 7, argv: ["train.py", "-x"], policy: "observe", attached: false, server: "unix:/a" });
  assert.equal(offered.label, "7");
  assert.equal(offered.description, "train.py -x");
  assert.equal(offered.detail, "observe, connected to a server");
});
