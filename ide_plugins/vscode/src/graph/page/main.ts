// The graph view's page: its state, and the handlers of mouse, keys and messages.

import type { Graph, Op, Value } from "../../protocol";
import { type Box, hiddenBy, layOut, type Layout } from "../layout";
import type { FromPage, PageState, ToPage } from "../messages";
import { Colours } from "./colours";
import { describe } from "./details";
import { Scene, type View } from "./scene";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  getState(): PageState | undefined;
  setState(state: PageState): void;
};

const vscode = acquireVsCodeApi();
const svg = byId<SVGSVGElement>("graph");
const select = byId<HTMLSelectElement>("program");
const find = byId<HTMLInputElement>("find");
const details = byId("details");
const followButton = byId("follow");

// A program with more ops begins with its blocks folded.
const MANY_OPS = 400;
const [SMALLEST, LARGEST] = [0.003, 3];
const SETTLED_MS = 150;

const scene = new Scene(svg);
const colours = new Colours(byId("colour"), byId("legend"), (colour) => {
  vscode.setState({ ...vscode.getState(), colour });
  vscode.postMessage({ type: "colour", by: colour });
  render(false);
});
const view: View = { x: 0, y: 0, scale: 1 };
let graph: Graph | undefined;
let layout: Layout = layOut({ ops: [], blocks: [], edges: [] } as unknown as Graph, new Set());
let boxes = new Map<number, Box>();
let folded = new Set<number>();
let current: readonly number[] = [];
let selected: number | undefined;
let found: readonly Op[] = [];
let marks = new Map<number, string>();
let values = new Map<string, Value>();
let following = true;
let fault = "";

// ---- messages from the extension -----------------------------------------------------------------

window.addEventListener("message", (event: MessageEvent<ToPage>) => {
  const message = event.data;
  if (message.type === "graph") {
    showGraph(message.graph);
    select.replaceChildren(...message.programs.map(({ id, name }) => new Option(name, id)));
    select.value = message.graph.id;
    vscode.setState({ ...vscode.getState(), program: message.graph.name });
  } else if (message.type === "place") {
    current = message.ops;
    fault = message.fault ?? "";
    values = new Map();
    byId("standing").textContent = message.text;
    if (following) {
      showCurrent();
    }
    render();
  } else if (message.type === "marks") {
    marks = new Map(message.marks);
    render();
  } else if (message.type === "values") {
    values = new Map(message.values.map((value) => [value.variable, value]));
    render(false);
  } else if (message.type === "statistics") {
    colours.take(message.statistics, message.problem);
    render(false);
  } else {
    choose(message.op);
    reveal(message.op);
  }
});

function showGraph(next: Graph): void {
  const same = next.name === graph?.name && next.ops.length === graph.ops.length;
  graph = next;
  values = new Map();
  colours.clear();
  if (!same) {
    folded = new Set(next.ops.length > MANY_OPS ? next.blocks.map((block) => block.op) : []);
    selected = undefined;
    search();
  }
  byId("fold").hidden = next.blocks.length === 0;
  arrange();
  if (!same) {
    fit(1, true);
  }
}

function arrange(): void {
  if (graph) {
    layout = layOut(graph, folded);
    boxes = new Map(layout.boxes.map((box) => [box.op.id, box]));
    scene.show(layout);
    byId("fold").textContent = folded.size > 0 ? "Unfold blocks" : "Fold blocks";
    render();
  }
}

// ---- the picture ---------------------------------------------------------------------------------

let frame = 0;
let settling: ReturnType<typeof setTimeout> | undefined;

/** Draws at the next frame; when the picture no longer moves, asks for the values in view. */
function render(ask = true): void {
  if (ask) {
    clearTimeout(settling);
    settling = setTimeout(askForValues, SETTLED_MS);
  }
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    update();
  });
}

function update(): Box[] {
  const inView = scene.update(view, {
    current: new Set(current.slice(0, 1)),
    selected,
    found: new Set(found.map((op) => op.id)),
    marks,
    values,
    colours,
  });
  const op = graph?.ops.find((each) => each.id === (selected ?? current[0]));
  describe(details, op, {
    mark: op && marks.get(op.id),
    fault: op?.id === current[0] ? fault : "",
    values,
    statistics: op ? colours.words(op) : "",
    act: (type, id) => vscode.postMessage({ type, op: id }),
  });
  return inView;
}

function askForValues(): void {
  const inView = update();
  if (current.length > 0) {
    const variables = inView.flatMap((box) => box.op.outputs.map((output) => output.variable));
    vscode.postMessage({ type: "visible", variables });
  }
}

function size(): { width: number; height: number } {
  return svg.getBoundingClientRect();
}

/** Shows the whole picture, no larger than `largest`; or its upper part at a readable size. */
function fit(largest: number, readable = false): void {
  const { width, height } = size();
  const whole = Math.min(width / (layout.width + 60), height / (layout.height + 60), largest);
  view.scale = clamp(readable ? Math.max(whole, 0.8) : whole);
  view.x = (width - layout.width * view.scale) / 2;
  view.y = Math.max((height - layout.height * view.scale) / 2, 30 * view.scale);
  render();
}

function zoom(factor: number, x = size().width / 2, y = size().height / 2): void {
  const scale = clamp(view.scale * factor);
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  render();
}

function clamp(scale: number): number {
  return Math.min(Math.max(scale, SMALLEST), LARGEST);
}

/** Moves as little as needed to show the op, with some room around it. */
function reveal(op: number): void {
  if (graph) {
    const around = hiddenBy(graph, folded);
    if (around.has(op)) {
      for (let at = around.get(op); at !== undefined; at = hiddenBy(graph, folded).get(op)) {
        folded.delete(at);
      }
      arrange();
    }
  }
  const box = boxes.get(op);
  if (box) {
    const { width, height } = size();
    if (view.scale < 0.5) {
      zoom(0.8 / view.scale);
    }
    const room = 50;
    const tall = Math.min(box.height, 60);
    view.x = within(view.x, -box.x * view.scale + room, width - (box.x + box.width) * view.scale - room);
    view.y = within(view.y, -box.y * view.scale + room, height - (box.y + tall) * view.scale - 2 * room);
    render();
  }
}

function within(now: number, least: number, most: number): number {
  return least > most ? (least + most) / 2 : Math.min(Math.max(now, least), most);
}

function showCurrent(): void {
  const op = current[0];
  if (op !== undefined) {
    reveal(op);
  }
}

// ---- choosing, finding, folding ------------------------------------------------------------------

function choose(op: number | undefined): void {
  selected = op;
  render(false);
}

function search(): void {
  const text = find.value.trim().toLowerCase();
  const matches = (op: Op): boolean => `${op.name} ${op.type}`.toLowerCase().includes(text);
  found = text && graph ? graph.ops.filter(matches) : [];
  byId("found").textContent = text ? `${found.length} found` : "";
  render(false);
}

function nextFound(back: boolean): void {
  const at = found.findIndex((op) => op.id === selected);
  const next = found.at(back ? (at < 0 ? -1 : at - 1) : (at + 1) % Math.max(found.length, 1));
  if (next) {
    choose(next.id);
    reveal(next.id);
  }
}

function toggleFold(op: number): void {
  if (boxes.get(op)?.foldable) {
    if (!folded.delete(op)) {
      folded.add(op);
    }
    arrange();
  }
}

function setFollowing(on: boolean): void {
  following = on;
  followButton.setAttribute("aria-pressed", String(on));
  vscode.postMessage({ type: "following", on });
  if (on) {
    showCurrent();
  }
}

/** Goes from the chosen op to the nearest one in that direction. */
function go(dx: number, dy: number): void {
  const start = boxes.get(selected ?? current[0] ?? layout.boxes[0]?.op.id ?? 0) ?? layout.boxes[0];
  if (!start || selected === undefined) {
    choose(start?.op.id);
  } else {
    const away = (box: Box): number => {
      const x = box.x + box.width / 2 - (start.x + start.width / 2);
      const y = box.y - start.y;
      const along = x * dx + y * dy;
      const across = Math.abs(x * dy) + Math.abs(y * dx);
      return along > 0.5 ? along + 2 * across : Number.POSITIVE_INFINITY;
    };
    const others = layout.boxes.filter((box) => Number.isFinite(away(box)));
    const next = others.reduce<Box | undefined>((a, b) => (a && away(a) <= away(b) ? a : b), undefined);
    choose((next ?? start).op.id);
  }
  if (selected !== undefined) {
    reveal(selected);
  }
}

// ---- mouse and keys ------------------------------------------------------------------------------

let drag: { x: number; y: number; moved: boolean } | undefined;

svg.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, y: event.clientY, moved: false };
});
svg.addEventListener("pointermove", (event) => {
  if (!drag || event.buttons === 0) {
    return;
  }
  const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
  if (drag.moved || Math.hypot(dx, dy) > 4) {
    view.x += dx;
    view.y += dy;
    drag = { x: event.clientX, y: event.clientY, moved: true };
    svg.setPointerCapture(event.pointerId);
    render();
  }
});
svg.addEventListener("click", (event) => {
  if (drag?.moved) {
    return;
  }
  const target = event.target as Element;
  const op = Number(target.closest("[data-op]")?.getAttribute("data-op") ?? Number.NaN);
  if (Number.isNaN(op)) {
    choose(undefined);
  } else if (target.matches(".gutter, .breakpoint")) {
    vscode.postMessage({ type: "toggle", op });
  } else if (target.matches(".fold")) {
    toggleFold(op);
  } else {
    choose(op);
  }
});
svg.addEventListener("dblclick", (event) => {
  const op = (event.target as Element).closest("[data-op]")?.getAttribute("data-op");
  if (op && !(event.target as Element).matches(".gutter, .breakpoint, .fold")) {
    vscode.postMessage({ type: "line", op: Number(op) });
  }
});
svg.addEventListener(
  "wheel",
  (event) => {
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) {
      const { left, top } = svg.getBoundingClientRect();
      zoom(Math.exp(-event.deltaY / 300), event.clientX - left, event.clientY - top);
    } else {
      view.x -= event.shiftKey ? event.deltaY : event.deltaX;
      view.y -= event.shiftKey ? 0 : event.deltaY;
      render();
    }
  },
  { passive: false },
);

const KEYS: Record<string, () => void> = {
  ArrowUp: () => go(0, -1),
  ArrowDown: () => go(0, 1),
  ArrowLeft: () => go(-1, 0),
  ArrowRight: () => go(1, 0),
  Enter: () => act("line"),
  l: () => act("listing"),
  b: () => act("toggle"),
  " ": () => selected !== undefined && toggleFold(selected),
  "+": () => zoom(1.25),
  "=": () => zoom(1.25),
  "-": () => zoom(0.8),
  "0": () => fit(1),
  f: () => setFollowing(!following),
  c: () => byId("colour").focus(),
  "/": () => find.focus(),
  Escape: () => choose(undefined),
};

function act(type: "line" | "listing" | "toggle"): void {
  const op = selected ?? current[0];
  if (op !== undefined) {
    vscode.postMessage({ type, op });
  }
}

function keyOf(event: KeyboardEvent): string {
  return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

svg.addEventListener("keydown", (event) => {
  const action = event.ctrlKey || event.altKey || event.metaKey ? undefined : KEYS[keyOf(event)];
  if (action) {
    event.preventDefault();
    action();
  }
});
find.addEventListener("input", () => {
  search();
  if (found[0]) {
    choose(found[0].id);
    reveal(found[0].id);
  }
});
find.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    nextFound(event.shiftKey);
  } else if (event.key === "Escape") {
    find.value = "";
    search();
    svg.focus();
  }
});
select.addEventListener("change", () => {
  setFollowing(false);
  vscode.postMessage({ type: "program", id: select.value });
});
byId("fit").addEventListener("click", () => fit(1));
byId("fold").addEventListener("click", () => {
  folded = folded.size > 0 || !graph ? new Set() : new Set(graph.blocks.map((block) => block.op));
  arrange();
});
followButton.addEventListener("click", () => setFollowing(!following));
new ResizeObserver(() => render()).observe(svg);
vscode.postMessage({ type: "ready" });
colours.choose(vscode.getState()?.colour ?? "");

function byId<T extends Element = HTMLElement>(id: string): T {
  return document.getElementById(id) as unknown as T;
}
