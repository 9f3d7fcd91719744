// The SVG of a graph: elements for the part that is in view.

import type { Value } from "../../protocol";
import type { Box, Layout, Line } from "../layout";
import type { Colours } from "./colours";

const SVG = "http://www.w3.org/2000/svg";
// Below this scale names cannot be read.
const READABLE = 0.42;
const MARGIN = 120;

export interface View {
  x: number;
  y: number;
  scale: number;
}

/** The state of ops beside their places. */
export interface Looks {
  readonly current: ReadonlySet<number>;
  readonly selected: number | undefined;
  readonly found: ReadonlySet<number>;
  readonly marks: ReadonlyMap<number, string>;
  readonly values: ReadonlyMap<string, Value>;
  readonly colours: Pick<Colours, "tint" | "words">;
}

/** Draws the part of a layout that is in view: boxes and edges outside of it have no elements. */
export class Scene {
  private readonly content = element("g", {});
  private readonly frames = element("g", { class: "frames" });
  private readonly edges = element("g", { class: "edges" });
  private readonly boxes = element("g", { class: "boxes" });
  private readonly drawnBoxes = new Map<number, SVGGElement>();
  private readonly drawnEdges = new Map<Line, SVGPathElement>();
  private layout: Layout = { boxes: [], frames: [], edges: [], width: 0, height: 0 };

  constructor(private readonly svg: SVGSVGElement) {
    const marker = element("marker", {
      id: "arrow",
      viewBox: "0 0 8 8",
      refX: "7",
      refY: "4",
      markerWidth: "7",
      markerHeight: "7",
      orient: "auto-start-reverse",
    });
    marker.append(element("path", { d: "M0 0.5 L8 4 L0 7.5 z" }));
    const definitions = element("defs", {});
    definitions.append(marker);
    this.content.append(this.boxes, this.frames, this.edges);
    svg.append(definitions, this.content);
  }

  show(layout: Layout): void {
    this.layout = layout;
    this.boxes.replaceChildren();
    this.edges.replaceChildren();
    this.drawnBoxes.clear();
    this.drawnEdges.clear();
    this.frames.replaceChildren(
      ...layout.frames.map((frame) => {
        const { x, y, width, height } = frame;
        const group = element("g", { class: "frame" });
        const title = element("text", { x: String(x + 8), y: String(y + 15) });
        title.textContent = frame.name;
        group.append(rectangle(x, y, width, height), title);
        return group;
      }),
    );
  }

  /** Updates the picture; returns the boxes in view. */
  update(view: View, looks: Looks): Box[] {
    const { width, height } = this.svg.getBoundingClientRect();
    const left = -view.x / view.scale - MARGIN;
    const top = -view.y / view.scale - MARGIN;
    const right = left + width / view.scale + 2 * MARGIN;
    const bottom = top + height / view.scale + 2 * MARGIN;
    this.content.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
    this.svg.classList.toggle("far", view.scale < READABLE);

    const inView = this.layout.boxes.filter(
      (box) => box.x < right && box.x + box.width > left && box.y < bottom && box.y + box.height > top,
    );
    const wanted = new Set(inView.map((box) => box.op.id));
    for (const [id, drawn] of this.drawnBoxes) {
      if (!wanted.has(id)) {
        drawn.remove();
        this.drawnBoxes.delete(id);
      }
    }
    let added = false;
    for (const box of inView) {
      let drawn = this.drawnBoxes.get(box.op.id);
      if (!drawn) {
        drawn = draw(box);
        this.drawnBoxes.set(box.op.id, drawn);
        this.boxes.append(drawn);
        added = true;
      }
      dress(drawn, box, looks);
    }
    if (added && this.layout.frames.length > 0) {
      // An op comes before those in its blocks, which are drawn over it.
      this.boxes.append(...inView.flatMap((box) => this.drawnBoxes.get(box.op.id) ?? []));
    }
    this.updateEdges(top, bottom, left, right, looks);
    return inView;
  }

  private updateEdges(top: number, bottom: number, left: number, right: number, looks: Looks): void {
    const chosen = (edge: Line): boolean => edge.from === looks.selected || edge.to === looks.selected;
    const wanted = new Set<Line>();
    for (const edge of this.layout.edges) {
      const [first, last] = [edge.points[0], edge.points.at(-1)];
      if (!first || !last || first.y > bottom || last.y < top || (edge.long && !chosen(edge))) {
        continue;
      }
      if (edge.points.every((point) => point.x < left) || edge.points.every((point) => point.x > right)) {
        continue;
      }
      wanted.add(edge);
    }
    for (const [edge, drawn] of this.drawnEdges) {
      if (!wanted.has(edge)) {
        drawn.remove();
        this.drawnEdges.delete(edge);
      }
    }
    for (const edge of wanted) {
      let drawn = this.drawnEdges.get(edge);
      if (!drawn) {
        drawn = element("path", { d: curve(edge), "marker-end": "url(#arrow)" });
        this.drawnEdges.set(edge, drawn);
        this.edges.append(drawn);
      }
      drawn.setAttribute("class", `edge${edge.long ? " long" : ""}${chosen(edge) ? " chosen" : ""}`);
    }
  }
}

function draw(box: Box): SVGGElement {
  const { op, x, y, width, height } = box;
  const group = element("g", { transform: `translate(${x} ${y})`, "data-op": String(op.id), role: "img" });
  const line = (at: number, kind: string): SVGTextElement =>
    element("text", { x: "24", y: String(at), class: kind });
  const gutter = rectangle(0, 0, 20, Math.min(height, 56));
  gutter.setAttribute("class", "gutter");
  group.append(
    rectangle(0, 0, width, height),
    gutter,
    element("circle", { class: "breakpoint", cx: "11", cy: "15", r: "5" }),
    line(19, "name"),
    line(34, "type"),
    line(49, "value"),
    element("title", {}),
  );
  if (box.foldable) {
    const fold = element("text", { x: String(width - 20), y: "20", class: "fold", role: "button" });
    fold.textContent = box.folded ? "⊞" : "⊟";
    group.append(fold);
  }
  return group;
}

function dress(group: SVGGElement, box: Box, looks: Looks): void {
  const { op } = box;
  const values = op.outputs.flatMap(({ variable }) => looks.values.get(variable) ?? []);
  const nan = values.reduce((sum, value) => sum + value.nan, 0);
  const inf = values.reduce((sum, value) => sum + value.inf, 0);
  const tint = looks.colours.tint(op);
  const bad = nan > 0 ? `${nan} NaN` : inf > 0 ? `${inf} Inf` : (tint?.bad ?? "");
  const mark = looks.marks.get(op.id);
  const classes = [
    "op",
    op.gradient && "gradient",
    values.length > 0 && !inPlace(box) && "made",
    bad && "bad",
    tint && tint.level > 0 && `tinted ${tint.below ? "down" : "up"}-${tint.level}`,
    looks.current.has(op.id) && "current",
    looks.selected === op.id && "selected",
    looks.found.has(op.id) && "found",
    mark && `marked ${mark}`,
  ];
  setAttribute(group, "class", classes.filter(Boolean).join(" "));
  const made = op.stack[0];
  const place = made ? ` · ${made.path.split("/").pop()}:${made.line}` : "";
  const output = op.outputs[0];
  const letters = Math.floor((box.width - 30) / 5.9);
  const known = output && looks.values.get(output.variable)?.brief;
  const value = (bad && `${bad} in ${output?.type}`) || (tint?.text || known || output?.type || "");
  setText(group, "name", clip(op.name, Math.floor((box.width - (box.foldable ? 50 : 30)) / 7)));
  setText(group, "type", clip(op.type + place, letters));
  setText(group, "value", clip(value, letters));
  setText(group, "title", looks.colours.words(op));
  const words = [op.name, op.type, bad, tint?.text, mark && "breakpoint", looks.current.has(op.id) && "current"];
  setAttribute(group, "aria-label", words.filter(Boolean).join(", "));
}

/** Whether its output existed before it ran, so that a value does not show that it has run. */
function inPlace(box: Box): boolean {
  const { inputs, outputs } = box.op;
  return outputs.some((output) => inputs.some((input) => input.variable === output.variable));
}

function curve(edge: Line): string {
  const [first, ...rest] = edge.points;
  if (!first) {
    return "";
  }
  let path = `M${first.x} ${first.y}`;
  let before = first;
  for (const point of rest) {
    const middle = (before.y + point.y) / 2;
    path += ` C${before.x} ${middle} ${point.x} ${middle} ${point.x} ${point.y}`;
    before = point;
  }
  return path;
}

function element<K extends keyof SVGElementTagNameMap>(
  name: K,
  attributes: Record<string, string>,
): SVGElementTagNameMap[K] {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) {
    made.setAttribute(key, value);
  }
  return made;
}

function rectangle(x: number, y: number, width: number, height: number): SVGRectElement {
  const sizes = { x, y, width, height, rx: 4 };
  return element("rect", Object.fromEntries(Object.entries(sizes).map(([key, size]) => [key, String(size)])));
}

/** Writes only changes, because each write makes the browser lay out again. */
function setAttribute(on: Element, name: string, value: string): void {
  if (on.getAttribute(name) !== value) {
    on.setAttribute(name, value);
  }
}

/** Sets the text of the child with that class or tag. */
function setText(group: Element, kind: string, text: string): void {
  const line = group.querySelector(`:scope > .${kind}, :scope > ${kind}`);
  if (line && line.textContent !== text) {
    line.textContent = text;
  }
}

function clip(text: string, letters: number): string {
  return text.length > letters ? `${text.slice(0, Math.max(letters - 1, 1))}…` : text;
}
