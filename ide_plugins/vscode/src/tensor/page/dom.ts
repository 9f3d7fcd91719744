// HTML elements, and numbers and sizes as text.

type Child = Node | string;

/** An element with its attributes and children. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** A number with six digits. */
export function number(value: number | undefined): string {
  if (value === undefined) {
    return "–";
  }
  if (!Number.isFinite(value)) {
    return Number.isNaN(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? String(value) : String(Number(value.toPrecision(6)));
}

export function bytes(count: number): string {
  const units = ["B", "KB", "MB", "GB"];
  const unit = Math.min(Math.floor(Math.log2(Math.max(count, 1)) / 10), units.length - 1);
  return `${Number((count / 1024 ** unit).toPrecision(3))} ${units[unit]}`;
}

/** "every row", "every 3rd row". */
export function every(step: number, what: string): string {
  const ends = ["th", "st", "nd", "rd"];
  const end = (step % 100 > 10 && step % 100 < 14) || step % 10 > 3 ? "th" : ends[step % 10];
  return step === 1 ? `every ${what}` : `every ${step}${end} ${what}`;
}
