// Unit tests of the layout of a graph.

import assert from "node:assert/strict";
import test from "node:test";

import { partsOf } from "../src/graph/layers";
import { type Box, hiddenBy, layOut, type Layout } from "../src/graph/layout";
import type { Block, Edge, Graph, Op } from "../src/protocol";

function op(id: number, reads: string[], makes: string[], block = 0): Op {
  return {
    id,
    name: `op_${id}`,
    type: "relu",
    block,
    forward: 0,
    gradient: false,
    listingLine: id,
    inputs: reads.map((variable) => ({ slot: "X", variable })),
    outputs: makes.map((variable) => ({ variable, type: "float32[2]" })),
    stack: [],
  };
}

/** A graph with an edge from the newest maker of each variable, as the adapter gives for ops of one block. */
function graph(ops: Op[], blocks: Block[] = []): Graph {
  const makers = new Map<string, Op>();
  const edges: Edge[] = [];
  for (const op of ops) {
    for (const { variable } of op.inputs) {
      const maker = makers.get(variable);
      if (maker?.block === op.block) {
        edges.push({ from: maker.id, to: op.id, variables: [variable] });
      }
    }
    op.outputs.forEach(({ variable }) => makers.set(variable, op));
  }
  return { id: "1:1", name: "main", version: 1, listing: { name: "", sourceReference: 1 }, blocks, ops, edges };
}

function box(layout: Layout, id: number): Box {
  const found = layout.boxes.find((each) => each.op.id === id);
  assert.ok(found, `op ${id} is in no box`);
  return found;
}

function inside(inner: Box, outer: Box): boolean {
  return (
    inner.x >= outer.x &&
    inner.y >= outer.y &&
    inner.x + inner.width <= outer.x + outer.width &&
    inner.y + inner.height <= outer.y + outer.height
  );
}

function overlap(a: Box, b: Box): boolean {
  return a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
}

/** Checks that each pair of boxes is apart, or one is inside of the other. */
function checkApart(layout: Layout): void {
  for (const [index, a] of layout.boxes.entries()) {
    for (const b of layout.boxes.slice(index + 1)) {
      const nested = (a.foldable && inside(b, a)) || (b.foldable && inside(a, b));
      assert.ok(!overlap(a, b) || nested, `${a.op.name} and ${b.op.name} overlap`);
    }
  }
}

test("each op is below those whose values it reads", () => {
  const layout = layOut(
    graph([op(1, [], ["a"]), op(2, ["a"], ["b"]), op(3, ["a"], ["c"]), op(4, ["b", "c"], ["d"])]),
    new Set(),
  );
  for (const edge of layout.edges) {
    const [from, to] = [box(layout, edge.from), box(layout, edge.to)];
    assert.ok(from.y + from.height < to.y);
    assert.deepEqual(edge.points[0], { x: from.x + from.width / 2, y: from.y + from.height });
    assert.deepEqual(edge.points.at(-1), { x: to.x + to.width / 2, y: to.y });
  }
  assert.deepEqual(
    layout.edges.map((edge) => [edge.from, edge.to, ...edge.variables]),
    [
      [1, 2, "a"],
      [1, 3, "a"],
      [2, 4, "b"],
      [3, 4, "c"],
    ],
  );
  assert.equal(box(layout, 2).y, box(layout, 3).y);
  // A diamond stands upright.
  assert.ok(Math.abs(box(layout, 1).x - box(layout, 4).x) < 1);
  checkApart(layout);
});

test("what reads nothing is just above its first reader", () => {
  const chain = [op(1, [], ["a"]), op(2, ["a"], ["b"]), op(3, ["b"], ["c"]), op(4, [], ["k"])];
  const layout = layOut(graph([...chain, op(5, ["c", "k"], ["d"])]), new Set());
  assert.equal(box(layout, 4).y, box(layout, 3).y);
});

test("a block is inside of the op that runs it, or folded away", () => {
  const program = graph(
    [op(1, [], ["a"]), op(2, ["a"], ["r"]), op(5, ["r"], ["z"]), op(3, ["a"], ["b"], 1), op(4, ["b"], ["r"], 1)],
    [{ id: 1, op: 2, name: "body" }],
  );
  const open = layOut(program, new Set());
  for (const id of [3, 4]) {
    assert.ok(inside(box(open, id), box(open, 2)));
  }
  assert.deepEqual(
    open.frames.map((frame) => frame.name),
    ["body"],
  );
  assert.ok(box(open, 2).y + box(open, 2).height < box(open, 5).y);
  checkApart(open);

  const closed = layOut(program, new Set([2]));
  assert.deepEqual(
    closed.boxes.map((each) => [each.op.id, each.folded]),
    [
      [1, false],
      [2, true],
      [5, false],
    ],
  );
  assert.deepEqual([...hiddenBy(program, new Set([2]))], [
    [3, 2],
    [4, 2],
  ]);
});

test("ops that have nothing to do with each other are in rows", () => {
  const layout = layOut(graph(Array.from({ length: 20 }, (_, index) => op(index + 1, [], [`v${index}`]))), new Set());
  assert.equal(new Set(layout.boxes.map((each) => each.y)).size, 4);
  checkApart(layout);
});

test("an empty program is an empty picture", () => {
  assert.deepEqual(layOut(graph([]), new Set()), { boxes: [], frames: [], edges: [], width: 0, height: 0 });
});

test("2,000 ops with gradients are apart, in their layers", () => {
  // A chain whose second half reads what the first made, last first, as gradients do.
  const ops: Op[] = [op(1, [], ["v1"])];
  for (let id = 2; id <= 1000; ++id) {
    const more = id % 7 === 0 ? [`v${id - 5}`] : [];
    ops.push(op(id, [`v${id - 1}`, ...more], [`v${id}`]));
  }
  for (let id = 1001; id <= 2000; ++id) {
    ops.push(op(id, [`v${id - 1}`, `v${2001 - id}`], [`v${id}`]));
  }
  const layout = layOut(graph(ops), new Set());
  assert.equal(layout.boxes.length, 2000);
  assert.ok(layout.edges.filter((edge) => edge.long).length > 900);
  for (const edge of layout.edges) {
    assert.ok(box(layout, edge.from).y < box(layout, edge.to).y);
  }
  checkApart(layout);
});

test("edges over many layers are long, sooner when they go from a forward op to a gradient", () => {
  const chain = (gradients: boolean): Op[] =>
    Array.from({ length: 8 }, (_, n) => ({
      ...op(n + 1, n === 0 ? [] : [`v${n}`, ...(n > 3 ? [`v${n - 3}`] : []), ...(n > 6 ? [`v${n - 6}`] : [])], [`v${n + 1}`]),
      forward: gradients && n > 3 ? 1 : 0,
      gradient: gradients && n > 3,
    }));
  const long = (ops: Op[]): number[] => layOut(graph(ops), new Set()).edges.flatMap((edge) => (edge.long ? [edge.from] : []));
  assert.deepEqual(long(chain(false)), [1]);
  assert.deepEqual(long(chain(true)), [1, 2, 3, 4, 1]);
});

/** Checks that each visible edge avoids the boxes between its ends. */
function checkClear(layout: Layout): void {
  for (const edge of layout.edges.filter(({ long }) => !long)) {
    for (const { x, y } of edge.points.slice(1, -1)) {
      const under = layout.boxes.find(
        (each) => x > each.x && x < each.x + each.width && y >= each.y && y <= each.y + each.height,
      );
      assert.equal(under, undefined, `the edge from ${edge.from} to ${edge.to} is on ${under?.op.name}`);
    }
  }
}

test("edges are led around what is between their ends, also from one part of the layers to the next", () => {
  // A chain with a branch to each side, and edges over up to six layers.
  const ops: Op[] = [];
  for (let id = 1; id <= 300; ++id) {
    const main = id % 3 === 0 ? id - 3 : id - (id % 3);
    const far = id % 3 === 0 && id % 7 === 0 ? [`v${id - 15}`] : [];
    ops.push(op(id, [`v${main}`, ...far], [`v${id}`]));
  }
  const layout = layOut(graph(ops), new Set());
  assert.ok(layout.edges.some((edge) => edge.points.length > 8));
  assert.ok(layout.edges.every((edge) => !edge.long));
  checkApart(layout);
  checkClear(layout);
});

test("layers are divided where few edges cross", () => {
  // Of ten layers with ten nodes each, the sixth and the seventh are tied by one link only.
  const layers = Array.from({ length: 100 }, (_, node) => Math.floor(node / 10));
  const links = layers.flatMap((layer, node) => {
    const to = node + 10;
    return layer === 9 || (layer === 5 && node > 50) ? [] : [{ from: node, to, reach: 6 }];
  });
  assert.deepEqual(partsOf(layers, links), [
    { first: 0, last: 5 },
    { first: 6, last: 9 },
  ]);
  assert.deepEqual(partsOf([], []), []);
  assert.deepEqual(partsOf([0, 0, 1], []), [{ first: 0, last: 1 }]);
});
