// Unit tests of the colour scale.

import assert from "node:assert/strict";
import test from "node:test";

import { ColourScale, inWords, type Kind, LEVELS } from "../src/graph/colourScale";
import type { Op, Statistics } from "../src/protocol";

const OP = { id: 1, name: "fc", type: "matmul", outputs: [{ variable: "y", type: "" }, { variable: "z", type: "" }] };

function told(more: Partial<Statistics>): Statistics {
  const none = { op: 1, variable: "y", run: 3, iteration: 0, count: 10, nan: 0, inf: 0, zeros: 0 };
  return { ...none, min: 0, max: 0, mean: 0, std: 0, l2: 0, ...more };
}

function tint(kind: Kind, of: Partial<Statistics>, others: Partial<Statistics>[] = []) {
  const all = [of, ...others].map(told);
  return ColourScale.of(kind, all).tint(OP as unknown as Op, [told(of)]);
}

test("figures that are close have equal steps, those that are not have equal ratios", () => {
  const near = ColourScale.of("std", [told({ std: 1 }), told({ std: 4 })]);
  assert.ok(!near.logarithmic);
  assert.deepEqual([near.part(0), near.part(1), near.part(4)], [0, 0.25, 1]);
  const far = ColourScale.of("l2", [told({ l2: 0.001 }), told({ l2: 1000 }), told({ l2: 0 })]);
  assert.ok(far.logarithmic);
  const parts = [0.001, 1, 1000].map((value) => far.part(value)?.toFixed(6));
  assert.deepEqual(parts, ["0.000000", "0.500000", "1.000000"]);
  assert.equal(far.part(0), 0, "nothing is the lowest");
  assert.deepEqual(far.ends, ["0.001", "1000"]);
});

test("a mean has two sides", () => {
  const others = [{ mean: 2 }];
  assert.deepEqual([tint("mean", { mean: -2 }, others).level, tint("mean", { mean: -2 }, others).below], [LEVELS, true]);
  assert.equal(tint("mean", { mean: 0.5 }, others).level, 2);
  assert.equal(tint("mean", { mean: 0.5 }, others).below, false);
  assert.deepEqual(ColourScale.of("mean", [told({ mean: -2 })]).ends, ["-2", "2"]);
});

test("what is not finite stands out whatever the colours are of, and has no level without a figure", () => {
  const nothing = told({ nan: 4, inf: 6 });
  const { mean, std, l2, min, max, ...bad } = nothing;
  void [mean, std, l2, min, max];
  const made = ColourScale.of("std", [bad]).tint(OP as unknown as Op, [bad]);
  assert.deepEqual([made.level, made.bad, made.text], [0, "4 NaN", "4 NaN"]);
  assert.equal(tint("l2", { inf: 2, l2: 5 }).bad, "2 Inf");
  assert.equal(tint("bad", {}).text, "finite");
  assert.equal(tint("bad", { nan: 1 }).level, 0);
});

test("the share of zeros has a scale that does not depend on the others", () => {
  assert.deepEqual([tint("zeros", { zeros: 5 }).level, tint("zeros", { zeros: 5 }).text], [LEVELS / 2, "zeros 50 %"]);
  assert.deepEqual(ColourScale.of("zeros", []).ends, ["0 %", "100 %"]);
});

test("the first output stands for an op; words are of all", () => {
  const [y, z] = [told({ variable: "y", l2: 1 }), told({ variable: "z", l2: 9, nan: 1 })];
  const made = ColourScale.of("l2", [y, z]).tint(OP as unknown as Op, [z, y]);
  assert.equal(made.text, "l2 1");
  assert.equal(made.bad, "1 NaN");
  const words = inWords([y, z]).split("\n");
  assert.equal(words[0], "y, run 3: mean 0, std 0, l2 1, min 0, max 0, 0 NaN, 0 Inf, 0 % zeros");
  assert.equal(words.length, 2);
});

test("nothing is known before the first record", () => {
  assert.equal(ColourScale.of("mean", []).part(undefined), undefined);
  assert.equal(ColourScale.of("mean", []).part(0), 0);
});
