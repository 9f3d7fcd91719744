// The layout of a graph: places of ops, blocks and edges.

import type { Edge, Graph, Op } from "../protocol";
import type { Link } from "./layers";
import { place, type Point } from "./placement";

/** An op in the picture. */
export interface Box {
  readonly op: Op;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** Whether it has blocks, which are drawn inside of it unless it is folded. */
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

/** An edge of the program in the picture. */
export interface Line extends Edge {
  /** Whether it spans so many layers that it is shown only when one of its ends is selected. */
  readonly long: boolean;
  readonly points: readonly Point[];
}

export interface Layout {
  readonly boxes: readonly Box[];
  readonly frames: readonly Frame[];
  readonly edges: readonly Line[];
  readonly width: number;
  readonly height: number;
}

export const BOX_HEIGHT = 56;
const PADDING = 14;
const HEADER = 60;
const FRAME_TITLE = 22;
// The widths of a character in the name, and in the smaller lines below it.
const [LARGE, SMALL] = [7.1, 6];
const [NARROWEST, WIDEST] = [120, 260];
// Edges over more layers are long: edges from forward ops to gradients would bend the forward chain.
const REACH = { usual: 6, gradient: 2 };

/** The program in layers, each op below those whose values it reads; `folded` are ids of ops. */
export function layOut(graph: Graph, folded: ReadonlySet<number>): Layout {
  const laid = new Blocks(graph, folded).lay(0);
  return { ...laid, boxes: laid.boxes.sort((a, b) => a.op.listingLine - b.op.listingLine) };
}

/** The ops that are hidden in a folded op, each with that op. */
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
  edges: Line[];
  width: number;
  height: number;
}

/** A box with its contents, before its place is known. */
interface Sized {
  readonly op: Op;
  readonly width: number;
  readonly height: number;
  readonly foldable: boolean;
  readonly inside?: Laid;
}

class Blocks {
  private readonly opsOf = new Map<number, Op[]>();
  private readonly edgesOf = new Map<number, Edge[]>();
  private readonly blocksOf = new Map<number, { id: number; name: string }[]>();

  constructor(
    graph: Graph,
    private readonly folded: ReadonlySet<number>,
  ) {
    for (const op of graph.ops) {
      append(this.opsOf, op.block, op);
    }
    const blocks = new Map(graph.ops.map((op) => [op.id, op.block]));
    for (const edge of graph.edges) {
      append(this.edgesOf, blocks.get(edge.from) ?? 0, edge);
    }
    for (const block of graph.blocks) {
      append(this.blocksOf, block.op, block);
    }
  }

  /** One block with the contents of its ops, from (0, 0). */
  lay(block: number): Laid {
    const sized = (this.opsOf.get(block) ?? []).map((op) => this.size(op));
    const nodes = new Map(sized.map(({ op }, node) => [op.id, node]));
    const edges = this.edgesOf.get(block) ?? [];
    const links = edges.map(({ from, to }): Link => {
      const [maker, reader] = [nodes.get(from) ?? 0, nodes.get(to) ?? 0];
      const aside = sized[maker]?.op.gradient === false && sized[reader]?.op.gradient !== false;
      return { from: maker, to: reader, reach: aside ? REACH.gradient : REACH.usual };
    });
    const placed = place(sized, links);
    const laid: Laid = { boxes: [], frames: [], edges: [], width: placed.width, height: placed.height };
    sized.forEach(({ op, width, height, foldable, inside }, node) => {
      const { x, y } = placed.corners[node] ?? { x: 0, y: 0 };
      laid.boxes.push({ op, x, y, width, height, foldable, folded: foldable && !inside });
      if (inside) {
        move(inside, x, y);
        laid.boxes.push(...inside.boxes);
        laid.frames.push(...inside.frames);
        laid.edges.push(...inside.edges);
      }
    });
    edges.forEach((edge, index) => {
      const { long, points } = placed.routes[index] ?? { long: true, points: [] };
      laid.edges.push({ ...edge, long, points });
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
