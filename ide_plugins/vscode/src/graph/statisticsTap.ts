// The tap that brings statistics of the ops while a page shows them.

import type * as vscode from "vscode";

import type { Statistics } from "../protocol";

// Often enough to see a run move, rarely enough to cost nothing.
const POLL_MS = 300;

interface Answer {
  readonly number: number;
  readonly statistics: readonly Statistics[];
  readonly problem?: string;
}

/** Makes a session keep statistics while a page shows them, and fetches new ones. */
export class StatisticsTap implements vscode.Disposable {
  private session: vscode.DebugSession | undefined;
  private program = "";
  private since = 0;
  private timer: NodeJS.Timeout | undefined;

  constructor(private readonly tell: (statistics: readonly Statistics[], problem: string) => void) {}

  /** Watches this program; none when no page is visible. Earlier statistics are sent again. */
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
    // A session that has ended has removed its tap.
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
      // The program or the session is gone: the watcher handles that.
    }
    if (session !== this.session) {
      return;
    }
    if (answer && program === this.program && since === this.since) {
      this.since = answer.number;
      // The first answer means that statistics will come from now on.
      if (since === 0 || answer.statistics.length > 0 || answer.problem) {
        this.tell(answer.statistics, answer.problem ?? "");
      }
    }
    this.timer = setTimeout(() => void this.poll(session), POLL_MS);
  }
}
