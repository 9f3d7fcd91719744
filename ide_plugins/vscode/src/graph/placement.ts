// The places of a block's nodes and the routes of its edges, in parts of a few layers each; decision 11 says why.

import { type Columns, columnsOf, type Few } from "./columns";
import { layersOf, type Link, type Part, partsOf } from "./layers";

export interface Size {
  readonly width: number;
  readonly height: number;
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export interface Route {
  /** Whether it is not routed around the nodes between its ends. */
  readonly long: boolean;
  /** From the lower side of one node to the upper side of the other. */
  readonly points: readonly Point[];
}

export interface Placement {
  /** The upper left corner of each node. */
  readonly corners: readonly Point[];
  /** One for each link. */
  readonly routes: readonly Route[];
  readonly width: number;
  readonly height: number;
}

const LAYER_GAP = 34;
// How strongly a part is pulled to the middle of the picture instead of to the sources of its edges:
// otherwise the drift of many parts to the same side would add up.
const PULL = 0.5;

export function place(sizes: readonly Size[], links: readonly Link[]): Placement {
  const layers = layersOf(sizes.length, links);
  const isLong = ({ from, to, reach }: Link): boolean => (layers[to] ?? 0) - (layers[from] ?? 0) > reach;
  const bands = bandsOf(sizes, layers);
  const parts = new Parts(sizes, layers, links.filter((link) => !isLong(link)));
  const { left, right } = parts.sides();
  const corners = sizes.map(({ width }, node) => ({
    x: parts.ofNode(node) - width / 2 - left,
    y: bands[layers[node] ?? 0]?.top ?? 0,
  }));
  const routes = links.map((link) => {
    const middle = (node: number): number => parts.ofNode(node) - left;
    const start = { x: middle(link.from), y: (corners[link.from]?.y ?? 0) + (sizes[link.from]?.height ?? 0) };
    const end = { x: middle(link.to), y: corners[link.to]?.y ?? 0 };
    const between = parts.ofLink(link).flatMap(([layer, x]) => {
      const { top, bottom } = bands[layer] ?? { top: 0, bottom: 0 };
      return [
        { x: x - left, y: top },
        { x: x - left, y: bottom },
      ];
    });
    return { long: isLong(link), points: [start, ...between, end] };
  });
  return { corners, routes, width: right - left, height: bands.at(-1)?.bottom ?? 0 };
}

/** The upper and the lower side of each layer. */
function bandsOf(sizes: readonly Size[], layers: readonly number[]): { top: number; bottom: number }[] {
  const heights: number[] = [];
  layers.forEach((layer, node) => {
    heights[layer] = Math.max(heights[layer] ?? 0, sizes[node]?.height ?? 0);
  });
  let bottom = -LAYER_GAP;
  return Array.from(heights, (height = 0) => {
    const top = bottom + LAYER_GAP;
    bottom = top + height;
    return { top, bottom };
  });
}

type Passage = readonly [layer: number, x: number];

/** The parts below each other: the middle of each node, and of each link in the layers that it passes. */
class Parts {
  private readonly nodes: number[] = [];
  private readonly passages = new Map<Link, readonly Passage[]>();
  /** Where links leave the last layer of the part above. */
  private readonly exits = new Map<Link, number>();
  /** Networks repeat their layers: equal parts are laid out once. */
  private readonly known = new Map<string, Columns>();

  constructor(
    private readonly sizes: readonly Size[],
    private readonly layers: readonly number[],
    links: readonly Link[],
  ) {
    const parts = partsOf(layers, links);
    const partOf = parts.flatMap(({ first, last }, part) => new Array<number>(last - first + 1).fill(part));
    const nodesOf: number[][] = parts.map(() => []);
    const linksOf: Link[][] = parts.map(() => []);
    layers.forEach((layer, node) => nodesOf[partOf[layer] ?? 0]?.push(node));
    for (const link of links) {
      for (let part = partOf[this.layer(link.from)] ?? 0; part <= (partOf[this.layer(link.to)] ?? 0); ++part) {
        linksOf[part]?.push(link);
      }
    }
    parts.forEach((part, index) => this.add(part, nodesOf[index] ?? [], linksOf[index] ?? []));
  }

  ofNode(node: number): number {
    return this.nodes[node] ?? 0;
  }

  /** From the upper layers to the lower ones. */
  ofLink(link: Link): readonly Passage[] {
    return this.passages.get(link) ?? [];
  }

  sides(): { left: number; right: number } {
    let [left, right] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    const take = (x: number, width: number): void => {
      left = Math.min(left, x - width / 2);
      right = Math.max(right, x + width / 2);
    };
    this.nodes.forEach((x, node) => take(x, this.sizes[node]?.width ?? 0));
    for (const passed of this.passages.values()) {
      passed.forEach(([, x]) => take(x, 0));
    }
    return left > right ? { left: 0, right: 0 } : { left, right };
  }

  private add({ first, last }: Part, members: readonly number[], links: readonly Link[]): void {
    const nodes = members.map((node) => ({ layer: this.layer(node) - first, width: this.sizes[node]?.width ?? 0 }));
    const edges: { from: number; to: number }[] = [];
    const indexes = new Map(members.map((node, index) => [node, index]));
    // A link that enters or leaves the part has a place in the first or last layer, like a node.
    const end = (link: Link, layer: number): number => {
      const node = [link.from, link.to].find((each) => this.layer(each) === layer);
      return (node === undefined ? undefined : indexes.get(node)) ?? nodes.push({ layer: layer - first, width: 0 }) - 1;
    };
    const lines = links.map((link) => {
      const top = Math.max(this.layer(link.from), first);
      const bottom = Math.min(this.layer(link.to), last);
      const from = end(link, top);
      const edge = top < bottom ? edges.push({ from, to: end(link, bottom) }) - 1 : undefined;
      return { link, top, from, edge };
    });
    const columns = this.columnsOf({ nodes, edges });

    const middles = lines.map(({ link, top, from, edge }) => {
      const xs = (edge === undefined ? undefined : columns.edges[edge]) ?? [columns.nodes[from] ?? 0];
      return { link, top, xs };
    });
    const leans = middles.flatMap(({ link, xs }) => {
      const exit = this.exits.get(link);
      return exit === undefined ? [] : [exit - (xs[0] ?? 0)];
    });
    const toMiddle = -mean(columns.nodes.slice(0, members.length));
    const shift = leans.length > 0 ? PULL * toMiddle + (1 - PULL) * mean(leans) : toMiddle;
    members.forEach((node, index) => {
      this.nodes[node] = (columns.nodes[index] ?? 0) + shift;
    });
    this.exits.clear();
    for (const { link, top, xs } of middles) {
      const passed = xs.map((x, index): Passage => [top + index, x + shift]);
      const between = passed.filter(([layer]) => layer > this.layer(link.from) && layer < this.layer(link.to));
      this.passages.set(link, [...this.ofLink(link), ...between]);
      if (this.layer(link.to) > last) {
        this.exits.set(link, (xs.at(-1) ?? 0) + shift);
      }
    }
  }

  private columnsOf(few: Few): Columns {
    const key = JSON.stringify(few);
    const columns = this.known.get(key) ?? columnsOf(few);
    this.known.set(key, columns);
    return columns;
  }

  private layer(node: number): number {
    return this.layers[node] ?? 0;
  }
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0) / Math.max(numbers.length, 1);
}
