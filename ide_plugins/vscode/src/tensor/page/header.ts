// The top of the page: expression, state and buttons.

import type { Subject } from "../messages";
import { tell } from "./connection";
import { make } from "./dom";

/** The expression, its stop, and the actions on it. */
export class Header {
  readonly element = make("header");
  private readonly expression = make("input", { type: "text", "aria-label": "expression", spellcheck: "false" });
  private readonly type = make("span", { class: "type" });
  private readonly where = make("span", { class: "where", role: "status" });
  private readonly compare = make("select", { "aria-label": "compare with" });
  private readonly copy = make("button", {});
  private part = "";
  private against = "";
  private choice = "nothing";

  /** @param compared called when the comparison with the previous stop is turned on or off. */
  constructor(private readonly compared: (previous: boolean) => void) {
    const save = make("button", { title: "Write the whole tensor to a file that numpy.load reads" }, "Save as .npy…");
    save.addEventListener("click", () => tell({ kind: "save" }));
    this.copy.addEventListener("click", () => tell({ kind: "copy", part: this.part }));
    this.expression.addEventListener("change", () => {
      const expression = this.expression.value.trim();
      if (expression) {
        tell({ kind: "expression", expression });
      }
    });
    this.compare.addEventListener("change", () => this.choose());
    const label = make("label", {}, "compare with ", this.compare);
    const actions = make("div", { class: "actions" }, label, this.copy, save);
    this.element.append(make("div", { class: "what" }, this.expression, this.type, this.where), actions);
    this.fillCompare();
  }

  subject({ expression, against }: Subject): void {
    this.expression.value = expression;
    this.expression.style.width = `${Math.max(expression.length + 2, 12)}ch`;
    if (against !== this.against) {
      this.against = against;
      this.choice = against ? "against" : "nothing";
      this.compared(false);
    }
    this.fillCompare();
  }

  /** @param part the part to copy; empty for all. */
  describe(type: string, part: string): void {
    this.type.textContent = type;
    this.part = part;
    this.copy.textContent = this.part ? `Copy ${this.part} as NumPy` : "Copy as NumPy";
    this.copy.title = this.part ? "The whole tensor is too large to copy: copies this part" : "";
  }

  state(text: string): void {
    this.where.textContent = text;
  }

  private fillCompare(): void {
    const options = [
      ["nothing", "nothing"],
      ["previous", "the previous stop"],
      ...(this.against ? [["against", this.against]] : []),
      ["another", "another tensor…"],
    ];
    this.compare.replaceChildren(...options.map(([value, text]) => make("option", { value: value ?? "" }, text ?? "")));
    this.compare.value = this.choice;
  }

  private choose(): void {
    const chosen = this.compare.value;
    if (chosen === "another") {
      // Unchanged until the user has named the other tensor.
      this.compare.value = this.choice;
      tell({ kind: "compare" });
      return;
    }
    this.choice = chosen;
    this.compared(chosen === "previous");
    if (chosen !== "against" && this.against) {
      tell({ kind: "expression", expression: this.expression.value.trim() });
    }
  }
}
