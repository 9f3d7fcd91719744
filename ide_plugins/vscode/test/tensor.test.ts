// Unit tests of the tensor view's page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { ABOVE, BELOW, extent, NAN, Scale } from "../src/tensor/page/colours";
import { decode, difference, keep } from "../src/tensor/page/drawnSlice";
import { brightness, pictureLayout } from "../src/tensor/page/picture";
import { copiable, firstPlane, indexOf, planeThrough } from "../src/tensor/page/plane";

const encode = (...values: number[]) => Buffer.from(new Float32Array(values).buffer).toString("base64");

test("values of both signs are white at zero, others go from dark to light", () => {
  const signed = Scale.of(-1, 4);
  assert.deepEqual([signed.low, signed.high], [-4, 4]);
  assert.deepEqual(signed.colour(0), [247, 247, 247]);
  const rising = Scale.of(2, 6);
  assert.deepEqual(rising.colour(2), [68, 1, 84]);
  assert.deepEqual(rising.colour(4), [33, 145, 140]);
  assert.deepEqual(rising.colour(6), [253, 231, 37]);
  assert.deepEqual([NaN, Infinity, -Infinity].map((value) => rising.colour(value)), [NAN, ABOVE, BELOW]);
  // One value only, and none that is finite.
  assert.equal(Scale.of(3, 3).part(3), 0.5);
  assert.deepEqual(extent([NaN, Infinity]), [0, 0]);
  assert.deepEqual(extent([NaN, -2, Infinity, 5]), [-2, 5]);
});

test("pictures are known by their shape", () => {
  assert.deepEqual(pictureLayout([7, 3, 32, 40]), { rows: 2, columns: 3, channels: 1 });
  assert.deepEqual(pictureLayout([32, 40, 3]), { rows: 0, columns: 1, channels: 2 });
  assert.deepEqual(pictureLayout([5, 28, 28, 1]), { rows: 1, columns: 2, channels: undefined });
  assert.deepEqual(pictureLayout([32, 1, 8, 8]), { rows: 2, columns: 3, channels: undefined });
  for (const shape of [[], [9], [32, 7], [3, 3, 3], [64, 10, 2]]) {
    assert.equal(pictureLayout(shape), undefined, JSON.stringify(shape));
  }
  assert.deepEqual(brightness("uint8", 3, 9), [0, 255]);
  assert.deepEqual(brightness("float32", 0.2, 0.9), [0, 1]);
  assert.deepEqual(brightness("float32", -2, 2), [-2, 2]);
});

test("what is too large to copy is copied in part", () => {
  const plane = firstPlane([4, 5, 6]);
  assert.equal(copiable([4, 5, 6], plane, 120), "");
  assert.equal(copiable([4, 5, 6], plane, 119), "[0, :, :]");
  assert.equal(copiable([4, 5, 6], { ...planeThrough(plane, [3, 2, 1]), rows: 0 }, 29), "[:, 2, :]");
  assert.equal(copiable([4, 5, 6], plane, 20), "[0, :3, :]");
  assert.equal(copiable([300], firstPlane([300]), 100), "[:100]");
  assert.deepEqual(indexOf(planeThrough(plane, [3, 2, 1]), 4, 0), [3, 4, 0]);
  assert.deepEqual(firstPlane([]), { rows: undefined, columns: undefined, at: [] });
});

test("what was infinite or NaN before and is so now does not differ", () => {
  const summary = { count: 4, zeros: 0, nan: 1, inf: 1 };
  const figures = { type: "float32[1, 4]", dtype: "float32", shape: [1, 4], bytes: 16, summary };
  const whole = { rows: 1, columns: 4, rowStart: 0, columnStart: 0, rowStep: 1, columnStep: 1 };
  const of = (...values: number[]) => keep("x", figures, firstPlane([1, 4]), { ...whole, data: encode(...values) });
  const [before, now] = [of(NaN, Infinity, 1, 2), of(NaN, Infinity, 3, NaN)];
  assert.equal(before.key, now.key);
  assert.deepEqual([...difference(now, before)], [0, 0, 2, NaN]);
  assert.deepEqual([...decode(encode(0.5, -0))], [0.5, -0]);
});
