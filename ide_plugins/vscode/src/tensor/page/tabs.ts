// The tabs: heat map, image, values.

import { make } from "./dom";

export type Tab = "heat" | "picture" | "values";

const NAMES: Readonly<Record<Tab, string>> = { heat: "Heat Map", picture: "Image", values: "Values" };

/** The tabs of a slice; the left and right keys go from one to the next. */
export class Tabs {
  readonly element = make("div", { role: "tablist", "aria-label": "how the slice is shown" });
  private readonly buttons = new Map<Tab, HTMLButtonElement>();

  constructor(private readonly chosen: (tab: Tab) => void) {
    for (const [tab, name] of Object.entries(NAMES) as [Tab, string][]) {
      const button = make("button", { role: "tab", "data-tab": tab }, name);
      button.addEventListener("click", () => this.chosen(tab));
      button.addEventListener("keydown", (event) => this.key(event, tab));
      this.buttons.set(tab, button);
      this.element.append(button);
    }
  }

  show(current: Tab, possible: readonly Tab[]): void {
    for (const [tab, button] of this.buttons) {
      button.hidden = !possible.includes(tab);
      button.setAttribute("aria-selected", String(tab === current));
      button.tabIndex = tab === current ? 0 : -1;
    }
  }

  private key(event: KeyboardEvent, from: Tab): void {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    const there = [...this.buttons].filter(([, button]) => !button.hidden);
    const at = there.findIndex(([tab]) => tab === from);
    const next = there[(at + step + there.length) % there.length];
    if (step && next) {
      this.chosen(next[0]);
      next[1].focus();
    }
  }
}
