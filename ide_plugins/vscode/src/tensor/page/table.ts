// The table of values, which fetches the part that is in view.

import type { Slice } from "../messages";
import { make } from "./dom";

// The size of a fetched page, and the number of pages that are kept.
const [PAGE_ROWS, PAGE_COLUMNS, PAGES] = [64, 16, 64];
const ROW_HEIGHT = 22;
// Browsers draw no element that is much higher; beyond it the scroll bar is scaled.
const HIGHEST = 4_000_000;

export interface Source {
  readonly rows: number;
  readonly columns: number;
  /** The usual length of texts; wider ones make columns wider. */
  readonly characters: number;
  page(rowStart: number, rowCount: number, columnStart: number, columnCount: number): Promise<Slice>;
  /** Whether to mark the cell, because its value differs from the previous stop's. */
  changed(row: number, column: number): boolean;
}

/** Exact values; only the cells in view exist, and only their pages are fetched. */
export class Table {
  readonly element = make("div", { class: "table", tabindex: "0", role: "grid", "aria-label": "values" });
  private readonly space = make("div", { class: "space" });
  private readonly cells = make("div", { class: "cells" });
  private pages = new Map<string, Slice | undefined>();
  private source: Source | undefined;
  private characters = 0;
  private width = 100;
  private margin = 60;
  private cursor = { row: 0, column: 0 };

  constructor(private readonly failed: (error: unknown) => void) {
    this.element.append(this.space, this.cells);
    this.element.addEventListener("scroll", () => this.draw());
    this.element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.element);
  }

  show(source: Source): void {
    this.source = source;
    this.pages = new Map();
    this.margin = String(source.rows).length * 8 + 24;
    this.widen(source, source.characters);
    this.space.style.height = `${Math.min((source.rows + 1) * ROW_HEIGHT, HIGHEST)}px`;
    this.element.setAttribute("aria-rowcount", String(source.rows));
    this.element.setAttribute("aria-colcount", String(source.columns));
    this.draw();
  }

  private widen(source: Source, characters: number): void {
    const before = this.width;
    this.characters = characters;
    this.width = Math.max(characters * 8 + 18, 48);
    this.space.style.width = `${this.margin + source.columns * this.width}px`;
    // The same columns stay in view.
    this.element.scrollLeft *= this.width / before;
  }

  /** Brings that cell into view and puts the cursor there. */
  goTo(row: number, column: number): void {
    if (!this.source) {
      return;
    }
    const clamp = (value: number, size: number) => Math.max(Math.min(value, size - 1), 0);
    this.cursor = { row: clamp(row, this.source.rows), column: clamp(column, this.source.columns) };
    // The header is as high as a row.
    const first = this.element.scrollTop / this.pixelsPerRow();
    const last = first + this.element.clientHeight / ROW_HEIGHT - 2;
    if (this.cursor.row < first || this.cursor.row > last) {
      const wanted = this.cursor.row < first ? this.cursor.row : this.cursor.row - last + first;
      this.element.scrollTop = wanted * this.pixelsPerRow();
    }
    const left = this.cursor.column * this.width;
    const room = this.element.clientWidth - this.margin;
    if (left < this.element.scrollLeft || left + this.width > this.element.scrollLeft + room) {
      this.element.scrollLeft = left - Math.max(room - this.width, 0) / 2;
    }
    this.draw();
  }

  /** How far one row scrolls, in pixels. */
  private pixelsPerRow(): number {
    const { rows } = this.source ?? { rows: 0 };
    const full = (rows + 1) * ROW_HEIGHT;
    if (full <= HIGHEST) {
      return ROW_HEIGHT;
    }
    const beyond = rows + 1 - this.element.clientHeight / ROW_HEIGHT;
    return (HIGHEST - this.element.clientHeight) / beyond;
  }

  private rowsInView(): readonly [number, number] {
    const first = Math.floor(this.element.scrollTop / this.pixelsPerRow());
    return [first, Math.ceil(this.element.clientHeight / ROW_HEIGHT) + 1];
  }

  private draw(): void {
    const { source } = this;
    if (!source || !this.element.clientHeight) {
      return;
    }
    const [firstRow, rowCount] = this.rowsInView();
    const firstColumn = Math.floor(this.element.scrollLeft / this.width);
    const columnCount = Math.ceil(this.element.clientWidth / this.width) + 1;
    const lastRow = Math.min(firstRow + rowCount, source.rows);
    const lastColumn = Math.min(firstColumn + columnCount, source.columns);
    const made: HTMLElement[] = [];
    const put = (element: HTMLElement, x: number, y: number, width: number) => {
      element.style.left = `${x}px`;
      element.style.top = `${y}px`;
      element.style.width = `${width}px`;
      made.push(element);
    };
    const [left, top] = [this.element.scrollLeft, this.element.scrollTop];
    // Rows that are half in view are half under the header.
    const exact = top / this.pixelsPerRow();
    for (let row = firstRow; row < lastRow; ++row) {
      const y = top + (row - exact + 1) * ROW_HEIGHT;
      for (let column = firstColumn; column < lastColumn; ++column) {
        put(this.cell(source, row, column), this.margin + column * this.width, y, this.width);
      }
    }
    for (let row = firstRow; row < lastRow; ++row) {
      const y = top + (row - exact + 1) * ROW_HEIGHT;
      put(make("div", { class: "head", role: "rowheader" }, String(row)), left, y, this.margin);
    }
    for (let column = firstColumn; column < lastColumn; ++column) {
      const head = make("div", { class: "head", role: "columnheader" }, String(column));
      put(head, this.margin + column * this.width, top, this.width);
    }
    put(make("div", { class: "head corner" }), left, top, this.margin);
    this.cells.replaceChildren(...made);
  }

  private cell(source: Source, row: number, column: number): HTMLElement {
    const text = this.text(source, row, column);
    const made = make("div", { class: "cell", role: "gridcell" }, text ?? "…");
    made.dataset["at"] = `${row},${column}`;
    made.classList.toggle("bad", text !== undefined && /nan|inf/.test(text));
    made.classList.toggle("changed", source.changed(row, column));
    made.classList.toggle("cursor", row === this.cursor.row && column === this.cursor.column);
    made.addEventListener("mousedown", () => {
      this.cursor = { row, column };
      this.draw();
    });
    return made;
  }

  private text(source: Source, row: number, column: number): string | undefined {
    const rowStart = Math.floor(row / PAGE_ROWS) * PAGE_ROWS;
    const columnStart = Math.floor(column / PAGE_COLUMNS) * PAGE_COLUMNS;
    const key = `${rowStart},${columnStart}`;
    const page = this.pages.get(key);
    if (page || this.pages.has(key)) {
      return page?.texts?.[(row - rowStart) * page.columns + column - columnStart];
    }
    const { pages } = this;
    pages.set(key, undefined);
    source.page(rowStart, PAGE_ROWS, columnStart, PAGE_COLUMNS).then((found) => {
      pages.set(key, found);
      for (const old of pages.keys()) {
        if (pages.size <= PAGES) {
          break;
        }
        pages.delete(old);
      }
      if (pages === this.pages) {
        // No digit is ever cut off.
        const longest = Math.max(0, ...(found.texts ?? []).map((text) => text.length));
        if (longest > this.characters) {
          this.widen(source, longest);
        }
        this.draw();
      }
    }, this.failed);
    return undefined;
  }

  private key(event: KeyboardEvent): void {
    const { row, column } = this.cursor;
    const [, inView] = this.rowsInView();
    const { rows, columns } = this.source ?? { rows: 1, columns: 1 };
    const places: Record<string, readonly [number, number]> = {
      ArrowUp: [row - 1, column],
      ArrowDown: [row + 1, column],
      ArrowLeft: [row, column - 1],
      ArrowRight: [row, column + 1],
      PageUp: [row - inView + 3, column],
      PageDown: [row + inView - 3, column],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [rows - 1, columns - 1] : [row, columns - 1],
    };
    const place = places[event.key];
    if (place) {
      event.preventDefault();
      this.goTo(...place);
    }
  }
}
