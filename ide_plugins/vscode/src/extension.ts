// The extension: its registrations when VS Code activates it.

import * as vscode from "vscode";

import { AdapterFactory } from "./adapter";
import { attachToProcess, ConfigurationProvider, debugThisFile, DynamicConfigurationProvider } from "./configuration";
import { ExitNotices } from "./exitNotices";
import { GraphPanel } from "./graph/panel";
import { InlineValues } from "./inlineValues";
import { Listing } from "./listing";
import { type OpNode, OpsView, type ProgramNode } from "./opsView";
import { pickProcess } from "./processes";
import { Programs } from "./programs";
import { StatusBar } from "./statusBar";
import { registerSteps } from "./stepCommands";
import { Stops } from "./stops";
import { TensorViews } from "./tensor/commands";

export const DEBUG_TYPE = "opstep";

export function activate(context: vscode.ExtensionContext): void {
  const { Initial, Dynamic } = vscode.DebugConfigurationProviderTriggerKind;
  const register = vscode.debug.registerDebugConfigurationProvider;
  const version = String(context.extension.packageJSON.version);
  const stops = new Stops(DEBUG_TYPE);
  const programs = new Programs(stops);
  const graph = new GraphPanel(context.extensionUri, stops, programs);
  context.subscriptions.push(
    stops,
    graph,
    new OpsView(stops, programs),
    new StatusBar(stops),
    ...registerSteps(stops),
    ...Listing.register(),
    vscode.debug.registerDebugAdapterTrackerFactory(DEBUG_TYPE, new ExitNotices()),
    vscode.languages.registerInlineValuesProvider("python", new InlineValues(DEBUG_TYPE)),
    vscode.commands.registerCommand("opstep.showGraph", (node?: ProgramNode | OpNode) => {
      const root = node?.kind === "op" ? node.root : node;
      return graph.show(root?.session, root?.program.id, node?.kind === "op" ? node.op.id : undefined);
    }),
    new TensorViews(context.extensionUri, stops),
    register(DEBUG_TYPE, new ConfigurationProvider(context.extensionPath, version), Initial),
    register(DEBUG_TYPE, new DynamicConfigurationProvider(), Dynamic),
    vscode.debug.registerDebugAdapterDescriptorFactory(
      DEBUG_TYPE,
      new AdapterFactory(context.extensionPath),
    ),
    vscode.commands.registerCommand("opstep.debugFile", debugThisFile),
    vscode.commands.registerCommand("opstep.pickProcess", (configuration?: vscode.DebugConfiguration) =>
      pickProcess(context.extensionPath, configuration),
    ),
    vscode.commands.registerCommand("opstep.attach", attachToProcess),
  );
}

export function deactivate(): void {}
