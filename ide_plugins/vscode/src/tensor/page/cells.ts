// The canvas of coloured cells, with its cursor and the legend of its colours.

import { type Colour, extent, type Scale } from "./colours";
import { make, number } from "./dom";

export interface Place {
  readonly row: number;
  readonly column: number;
}

// Cells up to this size show no cross.
const CROSSED = 7;
const [LARGEST, FLATTEST] = [28, 18];
// A high picture, up to this height, is scrolled instead of drawn with smaller cells.
const [READABLE, HIGHEST] = [8, 2000];

/** A canvas of coloured cells, with a cursor that mouse and arrow keys move. */
export class Cells {
  readonly canvas = make("canvas", { tabindex: "0", role: "img" });
  private rows = 0;
  private columns = 0;
  private width = 1;
  private height = 1;
  private image: ImageData | undefined;
  private bad: readonly Place[] = [];
  private cursor: Place | undefined;

  /** @param moved called when the cursor is at another cell, or at none. @param chosen called for a click. */
  constructor(
    private readonly moved: (place: Place | undefined) => void,
    private readonly chosen: (place: Place) => void,
  ) {
    this.canvas.addEventListener("mousemove", (event) => this.move(this.under(event)));
    this.canvas.addEventListener("mouseleave", () => this.move(undefined));
    this.canvas.addEventListener("blur", () => this.move(undefined));
    this.canvas.addEventListener("click", (event) => {
      const place = this.under(event);
      if (place) {
        this.chosen(place);
      }
    });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /** Draws as large as the room allows; `colour` is called once for each cell. */
  draw(
    rows: number,
    columns: number,
    room: { readonly width: number; readonly height: number },
    colour: (cell: number) => Colour,
    isBad: (cell: number) => boolean,
  ): void {
    const widest = room.width / Math.max(columns, 1);
    const high = Math.max(room.height / Math.max(rows, 1), Math.min(READABLE, HIGHEST / Math.max(rows, 1)));
    this.width = Math.min(Math.max(Math.floor(Math.min(widest, high)), 1), LARGEST);
    // A vector is a band, not a line.
    this.height = rows * this.width < FLATTEST ? Math.ceil(FLATTEST / Math.max(rows, 1)) : this.width;
    this.rows = rows;
    this.columns = columns;
    this.cursor = undefined;
    this.canvas.width = columns * this.width;
    this.canvas.height = rows * this.height;
    this.canvas.dataset["rows"] = String(rows);
    this.canvas.dataset["columns"] = String(columns);
    const bad: Place[] = [];
    const image = rows && columns ? new ImageData(columns, rows) : undefined;
    for (let cell = 0; image && cell < rows * columns; ++cell) {
      image.data.set([...colour(cell), 255], 4 * cell);
      if (isBad(cell)) {
        bad.push({ row: Math.floor(cell / columns), column: cell % columns });
      }
    }
    this.image = image;
    this.bad = bad;
    this.paint();
  }

  private paint(): void {
    const context = this.canvas.getContext("2d");
    if (!context || !this.image) {
      return;
    }
    const small = new OffscreenCanvas(this.columns, this.rows);
    small.getContext("2d")?.putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, this.canvas.width, this.canvas.height);
    if (Math.min(this.width, this.height) >= CROSSED) {
      // Not by colour alone.
      context.strokeStyle = "#000";
      context.lineWidth = 1.5;
      for (const { row, column } of this.bad) {
        const [x, y, inset] = [column * this.width, row * this.height, 2];
        context.beginPath();
        context.moveTo(x + inset, y + inset);
        context.lineTo(x + this.width - inset, y + this.height - inset);
        context.moveTo(x + this.width - inset, y + inset);
        context.lineTo(x + inset, y + this.height - inset);
        context.stroke();
      }
    }
    if (this.cursor) {
      const { row, column } = this.cursor;
      const box = [column * this.width, row * this.height, this.width, this.height] as const;
      context.lineWidth = 3;
      context.strokeStyle = "#000";
      context.strokeRect(...box);
      context.lineWidth = 1;
      context.strokeStyle = "#fff";
      context.strokeRect(...box);
    }
  }

  private move(place: Place | undefined): void {
    if (place?.row !== this.cursor?.row || place?.column !== this.cursor?.column) {
      this.cursor = place;
      this.paint();
      this.moved(place);
    }
  }

  private under(event: MouseEvent): Place | undefined {
    const column = Math.floor(event.offsetX / this.width);
    const row = Math.floor(event.offsetY / this.height);
    const inside = row >= 0 && row < this.rows && column >= 0 && column < this.columns;
    return inside ? { row, column } : undefined;
  }

  private key(event: KeyboardEvent): void {
    const { row, column } = this.cursor ?? { row: 0, column: -1 };
    const steps: Record<string, readonly [number, number]> = {
      ArrowUp: [-1, 0],
      ArrowDown: [1, 0],
      ArrowLeft: [0, -1],
      ArrowRight: [0, 1],
    };
    const step = steps[event.key];
    if (step) {
      event.preventDefault();
      const clamp = (value: number, size: number) => Math.min(Math.max(value, 0), size - 1);
      this.move({ row: clamp(row + step[0], this.rows), column: clamp(column + step[1], this.columns) });
    } else if (event.key === "Enter" && this.cursor) {
      this.chosen(this.cursor);
    }
  }
}

/** The colours with their numbers, and the colours of NaN and Inf if there are any. */
export function legend(scale: Scale, values: Float32Array, marks: boolean): HTMLElement {
  const bar = make("canvas", { class: "bar", width: "160", height: "12", role: "presentation" });
  const context = bar.getContext("2d");
  for (let x = 0; context && x < bar.width; ++x) {
    const value = scale.low + ((scale.high - scale.low) * x) / (bar.width - 1);
    context.fillStyle = css(scale.colour(value));
    context.fillRect(x, 0, 1, bar.height);
  }
  const made = make("div", { class: "legend" }, number(scale.low), bar, number(scale.high));
  for (const [name, value] of marks ? ([["NaN", NaN], ["Inf", Infinity], ["-Inf", -Infinity]] as const) : []) {
    if (values.some((each) => Object.is(each, value) || (Number.isNaN(each) && Number.isNaN(value)))) {
      const mark = make("canvas", { class: "mark", width: "12", height: "12" });
      const pen = mark.getContext("2d");
      if (pen) {
        pen.fillStyle = css(scale.colour(value));
        pen.fillRect(0, 0, 12, 12);
      }
      made.append(make("span", { class: "bad" }, mark, ` ${name}`));
    }
  }
  return made;
}

export function scaleRange(values: Float32Array, min?: number, max?: number): readonly [number, number] {
  return min !== undefined && max !== undefined ? [min, max] : extent(values);
}

function css([red, green, blue]: Colour): string {
  return `rgb(${red}, ${green}, ${blue})`;
}
