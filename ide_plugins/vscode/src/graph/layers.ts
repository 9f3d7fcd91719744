// The layers of a block's nodes, and the parts into which many layers are divided.

/** An edge between two nodes; `from` comes before `to` in an order in which they can run. */
export interface Link {
  readonly from: number;
  readonly to: number;
  /** An edge over more layers is not routed around the nodes between its ends. */
  readonly reach: number;
}

/** Layers from `first` to `last`. */
export interface Part {
  readonly first: number;
  readonly last: number;
}

// Nodes without edges are in rows of this many.
const ROW = 6;
// A part has at least LEAST nodes, unless it is the last one, and ends where the fewest edges cross before
// it has MOST.
const [LEAST, MOST] = [40, 80];

/** The layer of each node: below the nodes that it reads from. */
export function layersOf(count: number, links: readonly Link[]): number[] {
  const layers = new Array<number>(count).fill(0);
  const linked = new Array<boolean>(count).fill(false);
  const reads = new Array<boolean>(count).fill(false);
  const nearest = new Array<number>(count).fill(Number.POSITIVE_INFINITY);
  const byReader = [...links].sort((a, b) => a.to - b.to);
  for (const { from, to } of byReader) {
    layers[to] = Math.max(layers[to] ?? 0, (layers[from] ?? 0) + 1);
    linked[from] = linked[to] = reads[to] = true;
  }
  for (const { from, to } of links) {
    nearest[from] = Math.min(nearest[from] ?? 0, layers[to] ?? 0);
  }
  // A node that reads nothing is just above its first reader, where a user looks for it.
  nearest.forEach((reader, node) => {
    if (!reads[node] && Number.isFinite(reader)) {
      layers[node] = reader - 1;
    }
  });
  const last = layers.reduce((most, layer, node) => (linked[node] ? Math.max(most, layer) : most), -1);
  let alone = 0;
  linked.forEach((has, node) => {
    if (!has) {
      layers[node] = last + 1 + Math.floor(alone / ROW);
      alone += 1;
    }
  });
  return layers;
}

/** Consecutive parts of all layers, divided where few of the links cross. */
export function partsOf(layers: readonly number[], links: readonly Link[]): Part[] {
  const count = 1 + layers.reduce((most, layer) => Math.max(most, layer), -1);
  const sizes = new Array<number>(count).fill(0);
  for (const layer of layers) {
    sizes[layer] = (sizes[layer] ?? 0) + 1;
  }
  // By layer, the links between it or one above it and one below it.
  const crossing = new Array<number>(count).fill(0);
  for (const { from, to } of links) {
    for (let layer = layers[from] ?? 0; layer < (layers[to] ?? 0); ++layer) {
      crossing[layer] = (crossing[layer] ?? 0) + 1;
    }
  }
  const parts: Part[] = [];
  for (let first = 0; first < count; first = (parts.at(-1)?.last ?? count) + 1) {
    let best: number | undefined;
    let nodes = sizes[first] ?? 0;
    let layer = first;
    for (; layer < count - 1 && (nodes < MOST || best === undefined); ++layer) {
      if (nodes >= LEAST && (best === undefined || (crossing[layer] ?? 0) < (crossing[best] ?? 0))) {
        best = layer;
      }
      nodes += sizes[layer + 1] ?? 0;
    }
    parts.push({ first, last: nodes < MOST ? layer : (best ?? layer) });
  }
  return parts;
}
