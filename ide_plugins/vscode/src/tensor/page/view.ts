// The whole page of a tensor view.

import type { Figures, Slice, Subject, ToPage } from "../messages";
import { Cells, legend, type Place, scaleRange } from "./cells";
import { type Colour, extent, NAN, Scale } from "./colours";
import { query, remember, remembered } from "./connection";
import { controls } from "./controls";
import { bytes, every, make, number } from "./dom";
import { histogram, statistics } from "./figures";
import { Header } from "./header";
import { decode, difference, type DrawnSlice, keep } from "./drawnSlice";
import { brightness, type Layout, pictureLayout } from "./picture";
import { copiable, firstPlane, indexOf, type Plane, planeThrough } from "./plane";
import { Table } from "./table";
import { type Tab, Tabs } from "./tabs";

const BINS = 40;
// The histogram of a larger tensor comes after the rest.
const QUICK = 8 << 20;
const MOST_CELLS = 512;
// The most elements to copy.
const COPIED = 100_000;

/** The whole page. It ignores answers that come after the next stop, or after another slice. */
export class View {
  private readonly header = new Header((previous) => this.compareWithPrevious(previous));
  private readonly message = make("div", { class: "message", role: "alert" });
  private readonly figuresBox = make("section", { class: "figures", "aria-label": "statistics" });
  private readonly controlsBox = make("div");
  private readonly tabs = new Tabs((tab) => this.choose(tab));
  private readonly stage = make("section", { class: "stage" });
  private readonly readout = make("output", { class: "readout" });
  private readonly legendBox = make("div");
  private readonly cells = new Cells((place) => this.point(place), (place) => this.toTable(place));
  private readonly table = new Table((error) => this.fail(error));
  private subject: Subject = { expression: "", against: "" };
  private figures: Figures | undefined;
  private plane: Plane | undefined;
  private tab: Tab = "heat";
  private previous = false;
  private now: DrawnSlice | undefined;
  private before: DrawnSlice | undefined;
  private figuresBefore: Figures | undefined;
  private channels: readonly Float32Array[] = [];
  private round = 0;

  constructor(root: HTMLElement) {
    this.stage.append(this.legendBox, this.readout, this.cells.canvas, this.table.element);
    root.append(this.header.element, this.message, this.figuresBox, this.tabs.element, this.controlsBox, this.stage);
    window.addEventListener("resize", () => this.draw());
    const subject = remembered();
    if (subject) {
      this.header.subject(subject);
    }
  }

  hear(message: ToPage): void {
    if (message.kind === "stopped") {
      this.header.state(message.where);
      void this.stopped(message.subject);
    } else if (message.kind === "running") {
      this.round += 1;
      this.header.state("running…");
      document.body.classList.add("stale");
    } else if (message.kind === "ended") {
      this.round += 1;
      this.header.state("the session has ended");
      document.body.classList.add("stale");
    }
  }

  private async stopped(subject: Subject): Promise<void> {
    const same = subject.expression === this.subject.expression && subject.against === this.subject.against;
    this.subject = subject;
    remember(subject);
    this.header.subject(subject);
    // Steps that were faster than the drawing do not count.
    this.before = same ? (this.now ?? this.before) : undefined;
    this.figuresBefore = same ? this.figures : undefined;
    this.now = undefined;
    const round = ++this.round;
    try {
      const brief = await query<Figures>({ command: "opstepTensor", bins: 0 });
      if (round !== this.round) {
        return;
      }
      this.figures = brief;
      this.plane = this.fitting(brief.shape);
      document.body.classList.remove("stale");
      this.message.textContent = "";
      if (brief.bytes > QUICK) {
        this.showFigures();
        await this.load(round);
      }
      const full = await query<Figures>({ command: "opstepTensor", bins: BINS });
      if (round === this.round) {
        this.figures = full;
        this.showFigures();
        if (brief.bytes <= QUICK) {
          await this.load(round);
        }
      }
    } catch (error) {
      if (round === this.round) {
        this.fail(error);
      }
    }
  }

  /** The plane in view before, if it still exists. */
  private fitting(shape: readonly number[]): Plane {
    if (!this.plane || this.plane.at.length !== shape.length) {
      return firstPlane(shape);
    }
    const at = this.plane.at.map((index, axis) => Math.max(Math.min(index, (shape[axis] ?? 1) - 1), 0));
    return { ...this.plane, at };
  }

  private fail(error: unknown): void {
    document.body.classList.add("stale");
    this.message.textContent = error instanceof Error ? error.message : String(error);
  }

  // ---- the tensor --------------------------------------------------------------------------------

  private move(plane: Plane): void {
    this.plane = plane;
    const round = ++this.round;
    this.load(round).catch((error: unknown) => round === this.round && this.fail(error));
  }

  private choose(tab: Tab): void {
    this.tab = tab;
    const layout = this.layout;
    if (tab === "picture" && layout && this.plane) {
      this.move({ ...this.plane, rows: layout.rows, columns: layout.columns });
    } else {
      this.showControls();
      this.draw();
    }
  }

  private compareWithPrevious(previous: boolean): void {
    this.previous = previous;
    this.showFigures();
    this.draw();
  }

  private goTo(index: readonly number[]): void {
    if (this.plane) {
      this.tab = "values";
      const { rows, columns } = this.plane;
      this.move(planeThrough(this.plane, index));
      this.table.goTo(rows === undefined ? 0 : (index[rows] ?? 0), columns === undefined ? 0 : (index[columns] ?? 0));
    }
  }

  private toTable({ row, column }: Place): void {
    if (this.now) {
      const { slice } = this.now;
      this.choose("values");
      this.table.goTo(slice.rowStart + row * slice.rowStep, slice.columnStart + column * slice.columnStep);
      this.table.element.focus();
    }
  }

  private get layout(): Layout | undefined {
    return this.figures && pictureLayout(this.figures.shape);
  }

  // ---- slices ------------------------------------------------------------------------------------

  private async load(round: number): Promise<void> {
    const { figures, plane } = this;
    if (!figures || !plane) {
      return;
    }
    this.showControls();
    const slice = await this.cut(plane);
    const channels = this.tab === "picture" ? this.layout?.channels : undefined;
    const colours: Float32Array[] = [];
    for (let each = 0; channels !== undefined && each < 3; ++each) {
      const at = plane.at.map((index, axis) => (axis === channels ? each : index));
      colours.push(decode((await this.cut({ ...plane, at })).data ?? ""));
    }
    if (round === this.round) {
      this.now = keep(this.subject.expression + this.subject.against, figures, plane, slice);
      this.channels = colours;
      this.draw();
      this.fillTable();
    }
  }

  private cut(plane: Plane): Promise<Slice> {
    const most = Math.min(MOST_CELLS, Math.max(this.room().width, 64));
    return query<Slice>({ command: "opstepSlice", ...axes(plane), maxRows: MOST_CELLS, maxColumns: most });
  }

  private fillTable(): void {
    const { figures, plane, now } = this;
    if (!figures || !plane || !now) {
      return;
    }
    const size = (axis: number | undefined) => (axis === undefined ? 1 : (figures.shape[axis] ?? 1));
    const columns = size(plane.columns);
    const changes = this.previous && this.comparable ? difference(now, this.comparable) : undefined;
    this.table.show({
      rows: size(plane.rows),
      columns,
      characters: { bool: 5, float64: 22, int64: 12, uint8: 4, int8: 4 }[figures.dtype] ?? 14,
      page: (rowStart, rowCount, columnStart, columnCount) =>
        query<Slice>({ command: "opstepSlice", ...axes(plane), rowStart, rowCount, columnStart, columnCount, text: true }),
      changed: (row, column) => {
        const whole = now.slice.rowStep === 1 && now.slice.columnStep === 1;
        return whole && (changes?.[row * columns + column] ?? 0) !== 0;
      },
    });
  }

  /** The same part at the previous stop. */
  private get comparable(): DrawnSlice | undefined {
    return this.before?.key === this.now?.key ? this.before : undefined;
  }

  // ---- drawing -----------------------------------------------------------------------------------

  private showFigures(): void {
    const { figures } = this;
    if (!figures) {
      return;
    }
    const before = this.previous ? this.figuresBefore?.summary : undefined;
    this.figuresBox.replaceChildren(
      statistics(figures, before, (index) => this.goTo(index)),
      ...(figures.histogram ? [histogram(figures.histogram)] : []),
    );
  }

  private showControls(): void {
    const { figures, plane } = this;
    if (!figures || !plane) {
      return;
    }
    const { layout } = this;
    if (this.tab === "picture" && !layout) {
      this.tab = "heat";
    }
    const hidden = this.tab === "picture" ? layout?.channels : undefined;
    // Kept while a slider is being dragged.
    const key = JSON.stringify([figures.shape, plane.rows, plane.columns, hidden]);
    const moved = this.controlsBox.dataset["key"] === key && this.controlsBox.contains(document.activeElement);
    if (!moved) {
      const current = () => this.plane ?? plane;
      this.controlsBox.replaceChildren(controls(figures.shape, current, hidden, (next) => this.move(next)));
      this.controlsBox.dataset["key"] = key;
    }
    this.header.describe(this.describe(figures), copiable(figures.shape, plane, COPIED));
    this.tabs.show(this.tab, layout ? ["heat", "picture", "values"] : ["heat", "values"]);
    this.stage.dataset["tab"] = this.tab;
  }

  private describe(figures: Figures): string {
    return `${this.subject.against ? "difference " : ""}${figures.type}, ${bytes(figures.bytes)}`;
  }

  private draw(): void {
    const { now, figures } = this;
    if (!now || !figures) {
      return;
    }
    if (this.tab === "values") {
      this.fillTable();
      this.readout.textContent = "";
      this.legendBox.replaceChildren();
      return;
    }
    const { rows, columns } = now.slice;
    const room = this.room();
    if (this.tab === "picture") {
      this.drawPicture(now, figures, room);
    } else {
      const values = this.previous && this.comparable ? difference(now, this.comparable) : now.values;
      const scale = this.scale(values, figures);
      this.cells.draw(rows, columns, room, (cell) => scale.colour(values[cell] ?? NaN), bad(values));
      this.legendBox.replaceChildren(legend(scale, values, true));
    }
    const about = this.note(now);
    this.cells.canvas.setAttribute("aria-label", `${this.subject.expression}, ${rows} rows and ${columns} columns`);
    this.readout.textContent = about;
  }

  private drawPicture(now: DrawnSlice, figures: Figures, room: { width: number; height: number }): void {
    const [low, high] = brightness(figures.dtype, figures.summary.min, figures.summary.max);
    const scale = Scale.grey(low, high);
    const [red, green, blue] = this.channels;
    const { rows, columns } = now.slice;
    if (!red || !green || !blue) {
      this.cells.draw(rows, columns, room, (cell) => scale.colour(now.values[cell] ?? NaN), bad(now.values));
    } else {
      const isBad = (cell: number) => [red, green, blue].some((each) => !Number.isFinite(each[cell]));
      const level = (values: Float32Array, cell: number) => Math.round(255 * scale.part(values[cell] ?? 0));
      const colour = (cell: number): Colour =>
        isBad(cell) ? NAN : [level(red, cell), level(green, cell), level(blue, cell)];
      this.cells.draw(rows, columns, room, colour, isBad);
    }
    this.legendBox.replaceChildren(legend(scale, now.values, true));
  }

  private scale(values: Float32Array, figures: Figures): Scale {
    if (this.subject.against || (this.previous && this.comparable)) {
      const [low, high] = extent(values);
      return Scale.around(Math.max(-low, high, 0));
    }
    return Scale.of(...scaleRange(values, figures.summary.min, figures.summary.max));
  }

  /** Notes on the picture. */
  private note(now: DrawnSlice): string {
    const { rowStep, columnStep, rows, columns } = now.slice;
    if (!rows || !columns) {
      return "no elements";
    }
    const notes: string[] = [];
    if (this.previous && this.tab === "heat") {
      notes.push(this.comparable ? "now − before" : "no earlier stop has this part: step to compare it");
    }
    if (rowStep > 1 || columnStep > 1) {
      notes.push(`${every(rowStep, "row")} and ${every(columnStep, "column")}`);
    }
    return notes.join("; ") || "point at a cell for its value, click for all digits";
  }

  private point(place: Place | undefined): void {
    const { now, plane } = this;
    if (!now || !plane) {
      return;
    }
    if (!place) {
      this.readout.textContent = this.note(now);
      return;
    }
    const { slice, values } = now;
    const cell = place.row * slice.columns + place.column;
    const row = slice.rowStart + place.row * slice.rowStep;
    const column = slice.columnStart + place.column * slice.columnStep;
    const index = indexOf(plane, row, column);
    const [red, green, blue] = this.tab === "picture" ? this.channels : [];
    const texts = red && green && blue ? [red, green, blue].map((each) => number(each[cell])).join(", ") : number(values[cell]);
    const old = this.previous ? this.comparable?.values[cell] : undefined;
    this.readout.textContent = `[${index.join(", ")}]  ${texts}${old === undefined ? "" : `, was ${number(old)}`}`;
  }

  private room(): { width: number; height: number } {
    const width = Math.max(document.documentElement.clientWidth - 40, 64);
    const top = this.stage.getBoundingClientRect().top + window.scrollY;
    return { width, height: Math.max(window.innerHeight - top - 84, 240) };
  }
}

function axes(plane: Plane): { at: readonly number[]; rows?: number; columns?: number } {
  const { rows, columns, at } = plane;
  return { at, ...(rows === undefined ? {} : { rows }), ...(columns === undefined ? {} : { columns }) };
}

function bad(values: Float32Array): (cell: number) => boolean {
  return (cell) => !Number.isFinite(values[cell]);
}
