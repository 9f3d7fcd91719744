// Unit tests of patterns of breakpoints, inline values and the status bar.

import assert from "node:assert/strict";
import test from "node:test";

import { inView } from "../src/inlineValues";
import { matches } from "../src/opBreakpoints";
import type { Place } from "../src/protocol";
import { describe, speed } from "../src/statusBar";

test("a pattern means ops by type or name, and gradients by their forward op's too", () => {
  const forward = { name: "fc_0.matmul", type: "matmul" };
  const gradient = { name: "fc_0.matmul.grad", type: "matmul_grad" };
  assert.ok(matches("matmul", forward));
  assert.ok(matches("fc_?.mat*", forward));
  assert.ok(!matches("fc_0", forward));
  assert.ok(!matches("fc_0xmatmul", forward), "a dot is a dot");
  assert.ok(!matches("matmul", gradient, forward));
  assert.ok(matches("grad:fc_0.matmul", gradient, forward));
  assert.ok(!matches("grad:*", forward));
});

test("names are shown on the lines in view that assigned them", () => {
  const names = [
    { name: "x", variable: "x", line: 9 },
    { name: "h", variable: "fc_0.out", line: 10 },
    { name: "self.h", variable: "fc_1.out", line: 20 },
    { name: "loss", variable: "mean_0.out", line: 21 },
    { name: "w", variable: "fc_0.w" },
  ];
  assert.deepEqual(
    inView(names, 10, 20).map(({ name }) => name),
    ["h", "self.h"],
  );
});

test("the status bar says where a run stands and how fast runs are", () => {
  const place: Place = {
    threadId: 1,
    program: "1:1",
    programName: "digits",
    run: 10,
    ops: [1],
    iterations: [3],
    after: false,
  };
  const session = {};
  const at = (run: number, program = "1:1") => ({
    stop: { session, threadId: 1 },
    place: { ...place, run, program },
  });
  assert.equal(describe(place), "digits · run 10 · iteration 3");
  assert.equal(speed(at(10), at(130), 1000), " · 120 runs/s");
  assert.equal(speed(at(10), at(11), 4000), " · 0.25 runs/s");
  assert.equal(speed(at(10), at(10), 1000), "");
  assert.equal(speed(at(10), at(20, "1:2"), 1000), "");
  assert.equal(speed(undefined, at(20), 1000), "");
});
