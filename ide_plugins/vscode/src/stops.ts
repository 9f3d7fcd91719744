// The stops of all opstep sessions, and the one that the user looks at.

import * as vscode from "vscode";

import type { Place, Value } from "./protocol";

/** A stopped thread. */
export class Stop {
  private place: Promise<Place | undefined> | undefined;

  constructor(
    readonly session: vscode.DebugSession,
    readonly threadId: number,
  ) {}

  /** Undefined when the thread went on before it was answered. */
  where(): Promise<Place | undefined> {
    this.place ??= this.ask<Place>("opstepPlace", {});
    return this.place;
  }

  /** The values of those variables that have one. */
  async values(variables: readonly string[]): Promise<readonly Value[]> {
    const answer = await this.ask<{ values: Value[] }>("opstepValues", { variables });
    return answer?.values ?? [];
  }

  private async ask<T>(command: string, more: object): Promise<T | undefined> {
    try {
      return await this.session.customRequest(command, { threadId: this.threadId, ...more });
    } catch {
      return undefined; // The thread went on, or the session ended: nobody waits for it any more.
    }
  }
}

// Most steps are shorter: views need not show that the thread runs.
const STEP_MS = 150;

const GOING_ON = new Set(["continue", "next", "stepIn", "stepOut"]);

/** The stops of all opstep sessions; `current` is the one that the user looks at. */
export class Stops implements vscode.DebugAdapterTrackerFactory, vscode.Disposable {
  private readonly bySession = new Map<vscode.DebugSession, Map<number, Stop>>();
  private readonly subscriptions: vscode.Disposable[];
  private readonly changed = new vscode.EventEmitter<Stop | undefined>();
  private readonly compiled = new vscode.EventEmitter<vscode.DebugSession>();
  private stop: Stop | undefined;
  private pending: NodeJS.Timeout | undefined;
  private since = 0;

  /** A thread stopped or went on, or the user chose another one. */
  readonly onDidChange = this.changed.event;
  /** There are new programs, or fewer; also when a session begins or ends. */
  readonly onDidChangePrograms = this.compiled.event;

  constructor(type: string) {
    this.subscriptions = [
      vscode.debug.registerDebugAdapterTrackerFactory(type, this),
      vscode.debug.onDidChangeActiveStackItem((item) => {
        const chosen = item && this.bySession.get(item.session)?.get(item.threadId);
        if (chosen) {
          this.look(chosen);
        }
      }),
      vscode.debug.onDidTerminateDebugSession((session) => this.end(session)),
      this.changed,
      this.compiled,
    ];
  }

  get current(): Stop | undefined {
    return this.stop;
  }

  /** When the thread in view last went on, on the clock of `performance`. */
  get wentOn(): number {
    return this.since;
  }

  /** Active sessions, the oldest first. */
  get sessions(): vscode.DebugSession[] {
    return [...this.bySession.keys()];
  }

  createDebugAdapterTracker(session: vscode.DebugSession): vscode.DebugAdapterTracker {
    this.bySession.set(session, new Map());
    // By number, requests under way that resume a thread, with that thread.
    const asked = new Map<number, number>();
    return {
      onWillReceiveMessage: (request: Message) => {
        const threadId = request.arguments?.threadId;
        if (GOING_ON.has(request.command ?? "") && threadId !== undefined) {
          asked.set(request.seq, threadId);
        }
      },
      onDidSendMessage: (message: Message) => {
        const threadId = asked.get(message.request_seq ?? 0);
        if (message.type === "event") {
          this.hear(session, message);
        } else if (threadId !== undefined) {
          asked.delete(message.request_seq ?? 0);
          if (message.success) {
            this.goOn(session, threadId);
          }
        }
      },
      onExit: () => this.end(session),
    };
  }

  dispose(): void {
    clearTimeout(this.pending);
    for (const each of this.subscriptions) {
      each.dispose();
    }
  }

  private hear(session: vscode.DebugSession, message: Message): void {
    const stops = this.bySession.get(session);
    const threadId = message.body?.threadId;
    if (!stops) {
      return;
    }
    if (message.event === "stopped" && threadId !== undefined) {
      const stop = new Stop(session, threadId);
      stops.set(threadId, stop);
      this.look(stop);
    } else if (message.event === "continued") {
      this.goOn(session, threadId);
    } else if (message.event === "module") {
      this.compiled.fire(session);
    }
  }

  private goOn(session: vscode.DebugSession, threadId: number | undefined): void {
    const stops = this.bySession.get(session);
    if (threadId !== undefined && stops?.delete(threadId)) {
      if (this.stop?.session === session && this.stop.threadId === threadId) {
        this.look([...stops.values()].pop());
      }
    }
  }

  private end(session: vscode.DebugSession): void {
    if (this.bySession.delete(session)) {
      if (this.stop?.session === session) {
        this.look(undefined);
      }
      this.compiled.fire(session);
    }
  }

  private look(stop: Stop | undefined): void {
    if (stop === this.stop) {
      return;
    }
    this.stop = stop;
    clearTimeout(this.pending);
    if (stop) {
      this.changed.fire(stop);
    } else {
      this.since = performance.now();
      this.pending = setTimeout(() => this.changed.fire(undefined), STEP_MS);
    }
  }
}

interface Message {
  readonly seq: number;
  readonly type: string;
  readonly event?: string;
  readonly command?: string;
  readonly success?: boolean;
  readonly request_seq?: number;
  readonly arguments?: { readonly threadId?: number };
  readonly body?: { readonly threadId?: number };
}
