import assert from "node:assert/strict";
import test from "node:test";

import { madeBy, ranBefore } from "../src/inlineValues";
import { matches } from "../src/opBreakpoints";
import type { Graph, Op, Place } from "../src/protocol";
import { describe, speed } from "../src/statusBar";

function op(id: number, lines: number[], more: Partial<Op> = {}): Op {
  return {
    id,
    name: `fc_${id}.matmul`,
    type: "matmul",
    block: 0,
    forward: 0,
    listingLine: id,
    inputs: [{ slot: "X", variable: "x" }],
    outputs: [{ variable: `v${id}`, type: "float32[2]" }],
    stack: lines.map((line) => ({ path: "/net.py", line })),
    ...more,
  };
}

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

test("a line has made what it called others to make, but no gradients and nothing in place", () => {
  const ops = [
    op(1, [10, 30]),
    op(2, [11, 30]),
    op(3, [10], { forward: 1 }),
    op(4, [31], { inputs: [{ slot: "Param", variable: "w" }], outputs: [{ variable: "w", type: "float32[2]" }] }),
    op(5, [99]),
  ];
  assert.deepEqual(
    [...madeBy(ops, "/net.py", 1, 50)],
    [
      [10, ["v1"]],
      [30, ["v1", "v2"]],
      [11, ["v2"]],
    ],
  );
  assert.equal(madeBy(ops, "/other.py", 1, 50).size, 0);
});

test("of a line that makes many ops only the newest are asked for", () => {
  const ops = [1, 2, 3, 4, 5].map((id) => op(id, [10]));
  assert.deepEqual([...madeBy(ops, "/net.py", 1, 50)], [[10, ["v3", "v4", "v5"]]]);
});

test("only what comes before the current op in the listing has run", () => {
  const graph = { ops: [op(1, []), op(2, []), op(3, [])] } as unknown as Graph;
  const ran = (after: boolean): number[] =>
    ranBefore(graph, { ops: [2], after } as unknown as Place).map((each) => each.id);
  assert.deepEqual(ran(false), [1]);
  assert.deepEqual(ran(true), [1, 2]);
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
