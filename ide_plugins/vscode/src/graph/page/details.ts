// The details of one op, below the graph.

import type { Op, Value } from "../../protocol";

interface Known {
  readonly mark: string | undefined;
  readonly fault: string;
  readonly values: ReadonlyMap<string, Value>;
  /** Its statistics from a tap, as text. */
  readonly statistics: string;
  readonly act: (type: "toggle" | "line" | "listing", op: number) => void;
}

/** Text about an op, with its actions; rewritten only after a change. */
export function describe(details: HTMLElement, op: Op | undefined, known: Known): void {
  const values = op?.outputs.map(({ variable }) => known.values.get(variable));
  const state = JSON.stringify([op?.id, known.mark, known.fault, known.statistics, values]);
  if (details.dataset["state"] === state) {
    return;
  }
  details.dataset["state"] = state;
  details.replaceChildren();
  if (!op) {
    return;
  }
  details.append(head(op, known));
  if (known.fault) {
    details.append(node("div", known.fault, "fault"));
  }
  const reads = op.inputs.map(({ slot, variable }) => `${slot} = ${variable}`).join(", ");
  details.append(node("div", reads && `reads ${reads}`, "reads"));
  for (const { variable, type } of op.outputs) {
    details.append(node("div", `→ ${variable}  ${known.values.get(variable)?.value ?? type}`, "makes"));
  }
  for (const line of known.statistics.split("\n").filter(Boolean)) {
    details.append(node("div", `tap: ${line}`, "reads"));
  }
}

function head(op: Op, known: Known): HTMLElement {
  const made = op.stack[0];
  const place = made ? `, ${made.path.split("/").pop()}:${made.line}` : "";
  const actions = node("span", "", "actions");
  for (const [type, text] of [
    ["toggle", known.mark === "own" ? "Remove breakpoint" : "Set breakpoint"],
    ["line", "Python line"],
    ["listing", "Listing"],
  ] as const) {
    const button = node("button", text);
    button.addEventListener("click", () => known.act(type, op.id));
    actions.append(button);
  }
  const line = node("div", "", "head");
  line.append(node("b", op.name), node("span", ` ${op.type}${place}`), actions);
  return line;
}

function node<K extends keyof HTMLElementTagNameMap>(
  name: K,
  text: string,
  kind = "",
): HTMLElementTagNameMap[K] {
  const made = document.createElement(name);
  made.textContent = text;
  made.className = kind;
  return made;
}
