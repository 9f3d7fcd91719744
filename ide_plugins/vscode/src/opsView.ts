// The Ops view in Run and Debug: programs, blocks and ops as a tree.

import * as path from "node:path";

import * as vscode from "vscode";

import type { Stops } from "./stops";
import { type Mark, marks, toggle } from "./opBreakpoints";
import { type Programs, showLine, showListing } from "./programs";
import type { Graph, Op, Program } from "./protocol";

const VIEW = "opstep.ops";

export interface ProgramNode {
  readonly kind: "program";
  readonly session: vscode.DebugSession;
  readonly program: Program;
}

interface BlockNode {
  readonly kind: "block";
  readonly parent: OpNode;
  readonly block: number;
  readonly name: string;
}

export interface OpNode {
  readonly kind: "op";
  readonly parent: ProgramNode | BlockNode;
  readonly root: ProgramNode;
  readonly graph: Graph;
  readonly op: Op;
}

type Node = ProgramNode | BlockNode | OpNode;

/** Programs, their blocks and ops in the Run and Debug side bar. */
export class OpsView implements vscode.TreeDataProvider<Node>, vscode.Disposable {
  private readonly changed = new vscode.EventEmitter<Node | undefined>();
  private readonly subscriptions: vscode.Disposable[];
  private readonly view: vscode.TreeView<Node>;
  // VS Code knows nodes by identity.
  private readonly roots = new Map<string, ProgramNode>();
  private readonly opNodes = new Map<string, OpNode>();
  private readonly children = new WeakMap<object, Node[]>();
  private marked = new Map<string, Map<number, Mark>>();
  private current: OpNode | undefined;

  readonly onDidChangeTreeData = this.changed.event;

  constructor(
    private readonly stops: Stops,
    private readonly programs: Programs,
  ) {
    this.view = vscode.window.createTreeView<Node>(VIEW, { treeDataProvider: this, showCollapseAll: true });
    const command = (name: string, run: (node: OpNode) => unknown): vscode.Disposable =>
      vscode.commands.registerCommand(name, (node?: OpNode) => {
        const chosen = node ?? this.view.selection[0];
        return chosen?.kind === "op" ? run(chosen) : undefined;
      });
    this.subscriptions = [
      this.view,
      this.changed,
      command("opstep.toggleOpBreakpoint", (node) => toggle(node.op)),
      command("opstep.showOpLine", (node) => showLine(node.root.session, node.graph, node.op)),
      command("opstep.showOpInListing", (node) => showListing(node.root.session, node.graph, node.op)),
      stops.onDidChangePrograms(() => this.refresh()),
      stops.onDidChange(() => this.follow()),
      this.view.onDidChangeVisibility(() => this.follow()),
      vscode.debug.onDidChangeBreakpoints(() => {
        this.marked.clear();
        this.changed.fire(undefined);
      }),
    ];
  }

  dispose(): void {
    for (const each of this.subscriptions) {
      each.dispose();
    }
  }

  // ---- requests of VS Code -----------------------------------------------------------------------

  async getChildren(node?: Node): Promise<Node[]> {
    if (!node) {
      const lists = this.stops.sessions.map((session) => this.rootsOf(session));
      return (await Promise.all(lists)).flat();
    }
    const known = this.children.get(node);
    if (known) {
      return known;
    }
    const children = await this.childrenOf(node);
    if (children.length > 0) {
      this.children.set(node, children);
    }
    return children;
  }

  getParent(node: Node): Node | undefined {
    return node.kind === "program" ? undefined : node.parent;
  }

  getTreeItem(node: Node): vscode.TreeItem {
    const { None, Collapsed } = vscode.TreeItemCollapsibleState;
    if (node.kind === "program") {
      const item = new vscode.TreeItem(node.program.name, Collapsed);
      const several = this.stops.sessions.length > 1;
      item.description = `${node.program.ops} ops` + (several ? `, ${node.session.name}` : "");
      item.iconPath = new vscode.ThemeIcon("type-hierarchy-sub");
      item.contextValue = "program";
      return item;
    }
    if (node.kind === "block") {
      const item = new vscode.TreeItem(node.name, Collapsed);
      item.description = `block ${node.block}`;
      item.iconPath = new vscode.ThemeIcon("symbol-namespace");
      return item;
    }
    const { op } = node;
    const hasBlocks = node.graph.blocks.some((block) => block.op === op.id);
    const item = new vscode.TreeItem(op.name, hasBlocks ? Collapsed : None);
    const made = op.stack[0];
    const place = made ? `${path.basename(made.path)}:${made.line}` : `listing ${op.listingLine}`;
    item.description = `${op.type}  ${place}`;
    item.tooltip = describe(op, place);
    item.contextValue = "op";
    item.command = { command: "opstep.showOpLine", title: "Show Python Line", arguments: [node] };
    const mark = this.marksOf(node).get(op.id);
    item.iconPath = this.icon(node, mark);
    const words = [op.name, op.type, place, mark && BREAKPOINT[mark], node === this.current && "current op"];
    item.accessibilityInformation = { label: words.filter(Boolean).join(", ") };
    return item;
  }

  // ---- inside ------------------------------------------------------------------------------------

  private async rootsOf(session: vscode.DebugSession): Promise<ProgramNode[]> {
    const programs = await this.programs.list(session);
    return programs.map((program) => {
      const key = `${session.id} ${program.id} ${program.version}`;
      const root = this.roots.get(key) ?? { kind: "program", session, program };
      this.roots.set(key, root);
      return root;
    });
  }

  private async childrenOf(node: Node): Promise<Node[]> {
    if (node.kind === "program") {
      const graph = await this.programs.graph(node.session, node.program.id);
      return graph ? this.opsOf(graph, 0, node, node) : [];
    }
    if (node.kind === "block") {
      return this.opsOf(node.parent.graph, node.block, node, node.parent.root);
    }
    return node.graph.blocks
      .filter((block) => block.op === node.op.id)
      .map((block) => ({ kind: "block", parent: node, block: block.id, name: block.name }));
  }

  private opsOf(graph: Graph, block: number, parent: ProgramNode | BlockNode, root: ProgramNode): OpNode[] {
    const ops = graph.ops.filter((op) => op.block === block);
    return ops.map((op) => {
      const node: OpNode = { kind: "op", parent, root, graph, op };
      this.opNodes.set(key(root, op.id), node);
      return node;
    });
  }

  private marksOf(node: OpNode): Map<number, Mark> {
    const name = key(node.root, 0);
    const found = this.marked.get(name) ?? marks(node.graph.ops);
    this.marked.set(name, found);
    return found;
  }

  private icon(node: OpNode, mark: Mark | undefined): vscode.ThemeIcon {
    if (node === this.current) {
      return new vscode.ThemeIcon(
        "debug-stackframe",
        new vscode.ThemeColor("debugIcon.breakpointCurrentStackframeForeground"),
      );
    }
    if (mark === "off") {
      return new vscode.ThemeIcon(
        "circle-filled",
        new vscode.ThemeColor("debugIcon.breakpointDisabledForeground"),
      );
    }
    if (mark) {
      const name = mark === "own" ? "circle-filled" : "circle-outline";
      return new vscode.ThemeIcon(name, new vscode.ThemeColor("debugIcon.breakpointForeground"));
    }
    return new vscode.ThemeIcon("blank");
  }

  private refresh(): void {
    const running = new Set(this.stops.sessions);
    for (const [name, root] of this.roots) {
      if (!running.has(root.session)) {
        this.roots.delete(name);
      }
    }
    for (const [name, node] of this.opNodes) {
      if (!running.has(node.root.session)) {
        this.opNodes.delete(name);
      }
    }
    this.marked.clear();
    this.changed.fire(undefined);
  }

  /** Marks the thread's current op, and brings it into view. */
  private async follow(): Promise<void> {
    const stop = this.stops.current;
    const place = this.view.visible ? await stop?.where() : undefined;
    const node = stop && place && (await this.find(stop.session, place.program, place.ops));
    if (stop !== this.stops.current) {
      return; // It went on meanwhile.
    }
    const before = this.current;
    this.current = node;
    for (const each of new Set([before, node])) {
      if (each) {
        this.changed.fire(each);
      }
    }
    if (node && this.view.visible) {
      await this.view.reveal(node, { select: true, focus: false });
    }
  }

  private async find(
    session: vscode.DebugSession,
    program: string,
    ops: readonly number[],
  ): Promise<OpNode | undefined> {
    const root = (await this.rootsOf(session)).find((each) => each.program.id === program);
    if (!root) {
      return undefined;
    }
    // From the program inwards: parts that were never unfolded have no nodes yet.
    let level: Node[] = await this.getChildren(root);
    for (const id of [...ops].reverse()) {
      const node = level.find((each) => each.kind === "op" && each.op.id === id);
      if (!node || id === ops[0]) {
        break;
      }
      const blocks = await this.getChildren(node);
      level = (await Promise.all(blocks.map((block) => this.getChildren(block)))).flat();
    }
    return this.opNodes.get(key(root, ops[0] ?? 0));
  }
}

const BREAKPOINT: Record<Mark, string> = {
  own: "breakpoint",
  shared: "stops by a line or pattern",
  off: "disabled breakpoint",
};

function key(root: ProgramNode, op: number): string {
  return `${root.session.id} ${root.program.id} ${root.program.version} ${op}`;
}

function describe(op: Op, place: string): vscode.MarkdownString {
  const text = new vscode.MarkdownString();
  text.appendMarkdown("**").appendText(op.name).appendMarkdown("** ").appendText(`${op.type}, ${place}`);
  const reads = op.inputs.map((each) => `${each.slot} = ${each.variable}`);
  const makes = op.outputs.map((each) => `${each.variable}: ${each.type}`);
  text.appendCodeblock([...reads, "→", ...makes].join("\n"), "text");
  return text;
}
