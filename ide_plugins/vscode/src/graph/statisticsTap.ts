// The tap that brings statistics of the ops while a page shows them.

import type * as vscode from "vscode";

import type { Statistics } from "../protocol";

// Often enough to see a run move, seldom enough to cost nothing.
const POLL_MS = 300;

interface Answer {
  readonly number: number;
  readonly statistics: readonly Statistics[];
  readonly problem?: string;
}

/** Has a session keep statistics while a page shows them, and brings what is new. */
export class StatisticsTap implements vscode.Disposable {
  private session: vscode.DebugSession | undefined;
  private program = "";
  private since = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly tell: (statistics: readonly Statistics[], problem: string) => void) {}

  /** Of this program; of none when nobody looks. What was told before is told again. */
  watch(session: vscode.DebugSession | undefined, program: string): void {
    this.program = program;
    this.since = 0;
    if (session === this.session) {
      return;
    }
    this.stop();
    this.session = session;
    if (session) {
      void this.start(session);
    }
  }

  dispose(): void {
    this.stop();
  }

  private stop(): void {
    clearTimeout(this.timer);
    const { session } = this;
    this.session = undefined;
    // One that has ended took its tap with it.
    void session?.customRequest("opstepTap", { on: false }).then(undefined, () => {});
  }

  private async start(session: vscode.DebugSession): Promise<void> {
    try {
      await session.customRequest("opstepTap", { on: true });
    } catch (error) {
      this.tell([], error instanceof Error ? error.message : String(error));
      return;
    }
    await this.poll(session);
  }

  private async poll(session: vscode.DebugSession): Promise<void> {
    const { program, since } = this;
    let answer: Answer | undefined;
    try {
      answer = await session.customRequest("opstepTapStatistics", { program, since });
    } catch {
      // The program is gone, or the session: whoever watches will say so.
    }
    if (session !== this.session) {
      return;
    }
    if (answer && program === this.program && since === this.since) {
      this.since = answer.number;
      // The first answer says that from now on something will come.
      if (since === 0 || answer.statistics.length > 0 || answer.problem) {
        this.tell(answer.statistics, answer.problem ?? "");
      }
    }
    this.timer = setTimeout(() => void this.poll(session), POLL_MS);
  }
}
