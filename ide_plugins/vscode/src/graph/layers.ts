// The two middle steps of a layered drawing: the order within each layer, then places along it.

export interface Link {
  readonly from: number;
  readonly to: number;
  /** Set by `order`: too long to be led around the boxes between its ends. */
  long: boolean;
}

/** A node of a layer, or (node -1) the place where link `link` passes through the layer. */
export interface Slot {
  readonly node: number;
  readonly link: number;
  /** Its neighbours in the layers above and below. */
  readonly above: Slot[];
  readonly below: Slot[];
  position: number;
  x: number;
}

export interface Row {
  readonly nodes: Slot[];
}

const LONGEST = 6;
const SWEEPS = 6;
const GAP = 26;
const PASSING = 12;
const CENTRE = 0.05;

/** Slots in an order with few crossings: each near the middle of its neighbours. */
export function order(layers: readonly number[], links: readonly Link[]): Row[] {
  const rows: Row[] = Array.from({ length: 1 + Math.max(-1, ...layers) }, () => ({ nodes: [] }));
  const slot = (layer: number, node: number, link: number): Slot => {
    const row = rows[layer]?.nodes ?? [];
    const made = { node, link, above: [], below: [], position: row.length, x: 0 };
    row.push(made);
    return made;
  };
  const slots = layers.map((layer, node) => slot(layer, node, -1));
  links.forEach((link, index) => {
    const [first, last] = [layers[link.from] ?? 0, layers[link.to] ?? 0];
    link.long = last - first > LONGEST;
    if (link.long) {
      return;
    }
    let above = slots[link.from];
    for (let layer = first + 1; layer <= last && above; ++layer) {
      const here = layer === last ? slots[link.to] : slot(layer, -1, index);
      if (!here) {
        return;
      }
      above.below.push(here);
      here.above.push(above);
      above = here;
    }
  });
  for (let sweep = 0; sweep < SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      sort(row, down);
    }
  }
  return rows;
}

function sort(row: Row, down: boolean): void {
  const middles = new Map(
    row.nodes.map((slot) => {
      const near = down ? slot.above : slot.below;
      return [slot, near.length > 0 ? mean(near, (each) => each.position) : slot.position];
    }),
  );
  row.nodes.sort((a, b) => (middles.get(a) ?? 0) - (middles.get(b) ?? 0) || a.position - b.position);
  row.nodes.forEach((slot, position) => {
    slot.position = position;
  });
}

/** The middle of each node along its layer, and those of the bends of each link. */
export function place(
  rows: readonly Row[],
  width: (node: number) => number,
): { nodes: number[]; bends: Map<number, { x: number; layer: number }[]> } {
  const widthOf = (slot: Slot): number => (slot.node < 0 ? PASSING : width(slot.node));
  const gaps = rows.map((row) =>
    row.nodes.map((slot, index) => {
      const before = row.nodes[index - 1];
      return before ? (widthOf(before) + widthOf(slot)) / 2 + GAP : 0;
    }),
  );
  for (const [index, row] of rows.entries()) {
    let x = 0;
    row.nodes.forEach((slot, at) => {
      x += gaps[index]?.[at] ?? 0;
      slot.x = x;
    });
    for (const slot of row.nodes) {
      slot.x -= x / 2;
    }
  }
  for (let sweep = 0; sweep < 2 * SWEEPS; ++sweep) {
    const down = sweep % 2 === 0;
    const indexes = [...rows.keys()];
    for (const index of down ? indexes : indexes.reverse()) {
      const slots = rows[index]?.nodes ?? [];
      const wanted = slots.map((slot) => {
        const near = down ? slot.above : slot.below;
        return near.length > 0 ? middle(near) : slot.x;
      });
      spread(wanted, gaps[index] ?? []).forEach((x, at) => {
        const slot = slots[at];
        if (slot) {
          slot.x = x;
        }
      });
    }
  }
  const all = rows.flatMap((row) => row.nodes);
  const left = Math.min(...all.map((slot) => slot.x - widthOf(slot) / 2));
  const nodes: number[] = [];
  const bends = new Map<number, { x: number; layer: number }[]>();
  rows.forEach((row, layer) => {
    for (const slot of row.nodes) {
      if (slot.node >= 0) {
        nodes[slot.node] = slot.x - left;
      } else {
        bends.set(slot.link, [...(bends.get(slot.link) ?? []), { x: slot.x - left, layer }]);
      }
    }
  });
  return { nodes, bends };
}

/**
 * The places nearest to the wanted ones (least squares) that keep the order and the gaps. Neighbours
 * that would overlap become a group, which moves as one.
 */
export function spread(wanted: readonly number[], gaps: readonly number[]): number[] {
  const offsets: number[] = [];
  let offset = 0;
  const groups: { sum: number; count: number }[] = [];
  wanted.forEach((x, index) => {
    offset += gaps[index] ?? 0;
    offsets.push(offset);
    let group = { sum: x - offset, count: 1 };
    for (let last = groups.at(-1); last && last.sum / last.count > group.sum / group.count; ) {
      group = { sum: last.sum + group.sum, count: last.count + group.count };
      groups.pop();
      last = groups.at(-1);
    }
    groups.push(group);
  });
  const starts = groups.flatMap(({ sum, count }) => new Array<number>(count).fill(sum / count));
  return offsets.map((each, index) => each + (starts[index] ?? 0));
}

/**
 * Ops next to each other pull; what only passes by bends around them. A little of the pull is towards
 * the middle of the picture, or a long chain with branches to one side would lean.
 */
function middle(near: readonly Slot[]): number {
  const weight = (slot: Slot): number => (slot.node < 0 ? 0.1 : 1);
  const total = near.reduce((sum, slot) => sum + weight(slot), CENTRE);
  return near.reduce((sum, slot) => sum + weight(slot) * slot.x, 0) / total;
}

function mean<T>(items: readonly T[], number: (item: T) => number): number {
  return items.reduce((sum, item) => sum + number(item), 0) / items.length;
}
