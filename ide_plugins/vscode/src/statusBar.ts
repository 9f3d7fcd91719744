// The item in the status bar: program, run, iteration, runs per second.

import * as vscode from "vscode";

import type { Stop, Stops } from "./stops";
import type { Place } from "./protocol";

/** The place of the run: `digits · run 42 · iteration 3 · 118 runs/s`. */
export class StatusBar implements vscode.Disposable {
  private readonly item = vscode.window.createStatusBarItem(
    "opstep.place",
    vscode.StatusBarAlignment.Left,
    50,
  );
  private readonly subscriptions: vscode.Disposable[];
  private last: { stop: Stop; place: Place } | undefined;
  private rate = "";

  constructor(private readonly stops: Stops) {
    this.item.name = "opstep";
    this.item.command = "opstep.showGraph";
    this.subscriptions = [
      this.item,
      stops.onDidChange((stop) => (stop ? this.stopped(stop) : this.running())),
      stops.onDidChangePrograms(() => stops.sessions.length === 0 && this.item.hide()),
    ];
  }

  dispose(): void {
    for (const each of this.subscriptions) {
      each.dispose();
    }
  }

  private async stopped(stop: Stop): Promise<void> {
    const milliseconds = performance.now() - this.stops.wentOn;
    const place = await stop.where();
    if (!place || stop !== this.stops.current) {
      return;
    }
    this.rate = speed(this.last, { stop, place }, milliseconds);
    this.last = { stop, place };
    this.item.text = `$(debug-stackframe) ${describe(place)}${this.rate}`;
    this.item.tooltip = place.fault ?? "opstep: the place of the run. Click for the graph.";
    this.item.show();
  }

  private running(): void {
    if (this.stops.sessions.length === 0) {
      this.last = undefined;
      this.item.hide();
    } else {
      const name = this.last?.place.programName ?? "opstep";
      this.item.text = `$(debug-start) ${name} · running${this.rate}`;
      this.item.tooltip = "opstep: the script is running.";
      this.item.show();
    }
  }
}

export function describe(place: Place): string {
  const iterations = place.iterations.map((each) => ` · iteration ${each}`).join("");
  return `${place.programName} · run ${place.run}${iterations}`;
}

/** The speed of runs since the last stop; empty when there were none, as in stepping. */
export function speed(
  before: { stop: { session: object; threadId: number }; place: Place } | undefined,
  now: { stop: { session: object; threadId: number }; place: Place },
  milliseconds: number,
): string {
  const same =
    before?.stop.session === now.stop.session &&
    before.stop.threadId === now.stop.threadId &&
    before.place.program === now.place.program;
  const runs = before && same ? now.place.run - before.place.run : 0;
  if (runs <= 0 || milliseconds <= 0) {
    return "";
  }
  const rate = (1000 * runs) / milliseconds;
  return ` · ${rate >= 10 ? Math.round(rate) : rate.toPrecision(2)} runs/s`;
}
