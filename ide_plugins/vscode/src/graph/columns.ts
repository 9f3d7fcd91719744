// The columns of a few layers: dagre orders their nodes and finds their places along the layers.

import { Graph, layout } from "@dagrejs/dagre";

export interface Few {
  readonly nodes: readonly { readonly layer: number; readonly width: number }[];
  /** By their indexes. */
  readonly edges: readonly { readonly from: number; readonly to: number }[];
}

export interface Columns {
  /** The middle of each node. */
  readonly nodes: readonly number[];
  /** The middle of each edge, in each layer from that of `from` to that of `to`. */
  readonly edges: readonly (readonly number[])[];
}

const [NODE_GAP, EDGE_GAP] = [26, 12];

interface Placed {
  readonly x: number;
}

interface Routed {
  /** Its place at each rank. */
  readonly points: readonly Placed[];
}

export function columnsOf(few: Few): Columns {
  const graph = new Graph();
  graph.setGraph({ nodesep: NODE_GAP, edgesep: EDGE_GAP, ranker: "none" });
  few.nodes.forEach(({ layer, width }, node) => {
    // dagre has a rank between any two layers, with room for the labels of edges.
    graph.setNode(String(node), { width, height: 1, rank: 2 * layer });
  });
  for (const { from, to } of few.edges) {
    graph.setEdge(String(from), String(to), {});
  }
  layout(graph);
  const nodes = few.nodes.map((_, index) => {
    const node: Placed = graph.node(String(index));
    return node.x;
  });
  const edges = few.edges.map(({ from, to }) => {
    const edge: Routed = graph.edge(String(from), String(to));
    const between = edge.points.filter((_, rank) => rank % 2 === 0).slice(1, -1);
    return [nodes[from] ?? 0, ...between.map(({ x }) => x), nodes[to] ?? 0];
  });
  return { nodes, edges };
}
