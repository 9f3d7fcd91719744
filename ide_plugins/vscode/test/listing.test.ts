// Unit tests of listings: their ops, folds and hovers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { blocksOf, explain, parseListing } from "../src/listingText";

const LOOP = `program newton
#1   number float32[4] = feed(dtype=float32, name="number", shape=[4])  # number.feed, loop.py:10
#2   root float32[?, 4] = assign(X=number)  # assign_0, loop.py:11
#7   root float32[?, 4], going bool[] = while(condition=going, X=[number, root], block=block 1)  # while_0, loop.py:16
#3     half float32[4] = div(X=number, Y=root)  # div_0, loop.py:17
#6     cond_0.out float32[4] = cond(X=half, block=block 2)  # cond_0, loop.py:18
#4       inner float32[4] = relu(X=half)  # relu_0, loop.py:19
#5     going bool[] = less(X=half, Y=w.limit)  # less_0, loop.py:20
#8   print(X=root)  # print_0, loop.py:21
`;

test("a line is taken apart", () => {
  const loop = parseListing(LOOP).find((op) => op.id === 7)!;
  assert.equal(loop.line, 3);
  assert.equal(loop.type, "while");
  assert.deepEqual([...loop.outputs], [["root", "float32[?, 4]"], ["going", "bool[]"]]);
  assert.deepEqual([...loop.inputs], ["going", "number", "root"]);
  assert.equal(loop.remark, "while_0, loop.py:16");
  assert.equal(parseListing(LOOP).length, 8);
});

test("blocks fold with the op that runs them", () => {
  assert.deepEqual(blocksOf(parseListing(LOOP)), [[3, 7], [5, 6]]);
  assert.deepEqual(blocksOf([]), []);
});

test("a variable is told by who writes and who reads it", () => {
  const ops = parseListing(LOOP);
  assert.deepEqual(explain(ops, 4, "root"), [
    "root float32[?, 4]",
    "written by #2 assign, #7 while",
    "read by #7 while, #3 div, #8 print",
  ]);
  assert.deepEqual(explain(ops, 7, "w.limit"), [
    "w.limit",
    "not written here: a parameter, or from outside",
    "read by #5 less",
  ]);
  assert.deepEqual(explain(ops, 4, "div"), ["op #3 div: div_0, loop.py:17"]);
  assert.deepEqual(explain(ops, 1, "float32"), []);
  assert.deepEqual(explain(ops, 0, "program"), []);
});
