// The layout of a graph: places of ops, blocks and edges.

import type { Graph, Op } from "../protocol";
import { type Link, order, place } from "./layers";

/** An op in the picture. */
export interface Box {
  readonly op: Op;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** Has blocks, which are drawn inside of it unless it is folded. */
  readonly foldable: boolean;
  readonly folded: boolean;
}

/** A block inside of the op that runs it. */
export interface Frame {
  readonly block: number;
  readonly name: string;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** A value on its way from the op that makes it to one that reads it. */
export interface Edge {
  readonly from: number;
  readonly to: number;
  readonly variables: readonly string[];
  /** Over so many layers that it is shown only when one of its ends is looked at. */
  readonly long: boolean;
  readonly points: readonly Point[];
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Layout {
  readonly boxes: readonly Box[];
  readonly frames: readonly Frame[];
  readonly edges: readonly Edge[];
  readonly width: number;
  readonly height: number;
}

export const BOX_HEIGHT = 56;
const LAYER_GAP = 34;
const PADDING = 14;
const HEADER = 60;
const FRAME_TITLE = 22;
// Of the name, and of the smaller lines below it.
const [LARGE, SMALL] = [7.1, 6];
const [NARROWEST, WIDEST] = [120, 260];
// Ops that no other op of the block has to do with are in rows of this many.
const ROW = 6;

/** The program in layers, each op below those whose values it reads; `folded` are ids of ops. */
export function layOut(graph: Graph, folded: ReadonlySet<number>): Layout {
  const laid = new Blocks(graph, folded).lay(0);
  return { ...laid, boxes: laid.boxes.sort((a, b) => a.op.listingLine - b.op.listingLine) };
}

/** The ops that are in no picture because an op around them is folded, and which one that is. */
export function hiddenBy(graph: Graph, folded: ReadonlySet<number>): Map<number, number> {
  const runs = new Map(graph.blocks.map((block) => [block.id, block.op]));
  const blocks = new Map(graph.ops.map((op) => [op.id, op.block]));
  const found = new Map<number, number>();
  for (const op of graph.ops) {
    for (let at = runs.get(op.block); at !== undefined; at = runs.get(blocks.get(at) ?? 0)) {
      if (folded.has(at)) {
        found.set(op.id, at);
      }
    }
  }
  return found;
}

interface Laid {
  boxes: Box[];
  frames: Frame[];
  edges: Edge[];
  width: number;
  height: number;
}

/** A box before its place is known, with what is inside of it. */
interface Sized {
  readonly op: Op;
  readonly width: number;
  readonly height: number;
  readonly foldable: boolean;
  readonly inside?: Laid;
}

class Blocks {
  private readonly opsOf = new Map<number, Op[]>();
  private readonly blocksOf = new Map<number, { id: number; name: string }[]>();

  constructor(
    graph: Graph,
    private readonly folded: ReadonlySet<number>,
  ) {
    for (const op of graph.ops) {
      append(this.opsOf, op.block, op);
    }
    for (const block of graph.blocks) {
      append(this.blocksOf, block.op, block);
    }
  }

  /** One block with all that is inside of its ops, from (0, 0). */
  lay(block: number): Laid {
    const sized = (this.opsOf.get(block) ?? []).map((op) => this.size(op));
    const flow = flowOf(sized.map((each) => each.op));
    const layers = layersOf(sized.length, flow.links);
    const rows = order(layers, flow.links);
    const widths = (node: number): number => sized[node]?.width ?? 0;
    const centres = place(rows, widths);

    const tops: number[] = [];
    const heights = rows.map((row) => Math.max(0, ...row.nodes.map((n) => sized[n.node]?.height ?? 0)));
    let y = 0;
    for (const height of heights) {
      tops.push(y);
      y += height + LAYER_GAP;
    }
    const laid: Laid = { boxes: [], frames: [], edges: [], width: 0, height: Math.max(0, y - LAYER_GAP) };
    const at: { x: number; y: number }[] = [];
    sized.forEach((each, node) => {
      const layer = layers[node] ?? 0;
      const x = (centres.nodes[node] ?? 0) - each.width / 2;
      const top = tops[layer] ?? 0;
      at.push({ x, y: top });
      laid.width = Math.max(laid.width, x + each.width);
      const folded = each.foldable && !each.inside;
      const { op, width, height, foldable } = each;
      laid.boxes.push({ op, x, y: top, width, height, foldable, folded });
      if (each.inside) {
        move(each.inside, x, top);
        laid.boxes.push(...each.inside.boxes);
        laid.frames.push(...each.inside.frames);
        laid.edges.push(...each.inside.edges);
      }
    });
    flow.links.forEach((link, index) => {
      const from = sized[link.from];
      const to = sized[link.to];
      if (!from || !to) {
        return;
      }
      const bends = centres.bends.get(index) ?? [];
      const start = { x: centres.nodes[link.from] ?? 0, y: (at[link.from]?.y ?? 0) + from.height };
      const end = { x: centres.nodes[link.to] ?? 0, y: at[link.to]?.y ?? 0 };
      const middle = bends.map(({ x, layer }) => ({ x, y: (tops[layer] ?? 0) + (heights[layer] ?? 0) / 2 }));
      laid.edges.push({
        from: from.op.id,
        to: to.op.id,
        variables: flow.variables[index] ?? [],
        long: link.long,
        points: [start, ...middle, end],
      });
    });
    return laid;
  }

  private size(op: Op): Sized {
    const made = op.stack[0];
    const place = made ? `${made.path.split("/").pop()}:${made.line}`.length + 3 : 0;
    // Beside the type there is room for a mean.
    const small = Math.max(op.type.length + place, (op.outputs[0]?.type.length ?? 0) + 14);
    const text = Math.max(op.name.length * LARGE, small * SMALL);
    const width = Math.min(Math.max(text + 34, NARROWEST), WIDEST);
    const blocks = this.blocksOf.get(op.id) ?? [];
    if (blocks.length === 0 || this.folded.has(op.id)) {
      return { op, width, height: BOX_HEIGHT, foldable: blocks.length > 0 };
    }
    const inside: Laid = { boxes: [], frames: [], edges: [], width: PADDING, height: 0 };
    for (const block of blocks) {
      const laid = this.lay(block.id);
      const frame: Frame = {
        block: block.id,
        name: block.name,
        x: inside.width,
        y: HEADER,
        width: laid.width + 2 * PADDING,
        height: laid.height + FRAME_TITLE + 2 * PADDING,
      };
      move(laid, frame.x + PADDING, frame.y + FRAME_TITLE + PADDING);
      inside.boxes.push(...laid.boxes);
      inside.frames.push(frame, ...laid.frames);
      inside.edges.push(...laid.edges);
      inside.width += frame.width + PADDING;
      inside.height = Math.max(inside.height, frame.y + frame.height + PADDING);
    }
    return { op, width: Math.max(inside.width, width), height: inside.height, foldable: true, inside };
  }
}

/** Who reads what whom: from the newest op before it that made the variable. */
function flowOf(ops: readonly Op[]): { links: Link[]; variables: string[][] } {
  const maker = new Map<string, number>();
  const known = new Map<string, number>();
  const links: Link[] = [];
  const variables: string[][] = [];
  ops.forEach((op, to) => {
    for (const { variable } of op.inputs) {
      const from = maker.get(variable);
      if (from === undefined) {
        continue;
      }
      const index = known.get(`${from} ${to}`) ?? links.length;
      if (index === links.length) {
        known.set(`${from} ${to}`, index);
        links.push({ from, to, long: false });
        variables.push([]);
      }
      if (!variables[index]?.includes(variable)) {
        variables[index]?.push(variable);
      }
    }
    for (const { variable } of op.outputs) {
      maker.set(variable, to);
    }
  });
  return { links, variables };
}

/** The layer of each node; links are in the order of the nodes, which is one in which they can run. */
function layersOf(count: number, links: readonly Link[]): number[] {
  const layers = new Array<number>(count).fill(0);
  const linked = new Array<boolean>(count).fill(false);
  const readers: number[][] = Array.from({ length: count }, () => []);
  const reads = new Array<number>(count).fill(0);
  for (const { from, to } of links) {
    layers[to] = Math.max(layers[to] ?? 0, (layers[from] ?? 0) + 1);
    linked[from] = linked[to] = true;
    readers[from]?.push(to);
    reads[to] = (reads[to] ?? 0) + 1;
  }
  // What reads nothing is just above its first reader, where one looks for it.
  readers.forEach((them, node) => {
    if (reads[node] === 0 && them.length > 0) {
      layers[node] = Math.min(...them.map((reader) => layers[reader] ?? 0)) - 1;
    }
  });
  let next = 1 + Math.max(-1, ...layers.filter((_, node) => linked[node]));
  let inRow = 0;
  for (let node = 0; node < count; ++node) {
    if (!linked[node]) {
      layers[node] = next;
      inRow += 1;
      if (inRow === ROW) {
        next += 1;
        inRow = 0;
      }
    }
  }
  return layers;
}

function append<K, V>(map: Map<K, V[]>, key: K, value: V): void {
  const list = map.get(key);
  if (list) {
    list.push(value);
  } else {
    map.set(key, [value]);
  }
}

function move(laid: Laid, x: number, y: number): void {
  laid.boxes = laid.boxes.map((box) => ({ ...box, x: box.x + x, y: box.y + y }));
  laid.frames = laid.frames.map((frame) => ({ ...frame, x: frame.x + x, y: frame.y + y }));
  laid.edges = laid.edges.map((edge) => ({
    ...edge,
    points: edge.points.map((point) => ({ x: point.x + x, y: point.y + y })),
  }));
}
