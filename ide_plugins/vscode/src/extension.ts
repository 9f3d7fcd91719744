import * as vscode from "vscode";

import { AdapterFactory } from "./adapter";
import { attachToProcess, ConfigurationProvider, debugThisFile, DynamicConfigurationProvider } from "./configuration";
import { Endings } from "./ending";
import { Following } from "./following";
import { GraphPanel } from "./graph/panel";
import { InlineValues } from "./inlineValues";
import { type OpNode, OpsView, type ProgramNode } from "./opsView";
import { Listing } from "./listing";
import { pickProcess } from "./processes";
import { Programs } from "./programs";
import { StatusBar } from "./statusBar";
import { registerSteps } from "./stepping";
import { TensorViews } from "./tensor/commands";

export const DEBUG_TYPE = "opstep";

export function activate(context: vscode.ExtensionContext): void {
  const { Initial, Dynamic } = vscode.DebugConfigurationProviderTriggerKind;
  const register = vscode.debug.registerDebugConfigurationProvider;
  const version = String(context.extension.packageJSON.version);
  const following = new Following(DEBUG_TYPE);
  const programs = new Programs(following);
  const graph = new GraphPanel(context.extensionUri, following, programs);
  context.subscriptions.push(
    following,
    graph,
    new OpsView(following, programs),
    new StatusBar(following),
    ...registerSteps(following),
    ...Listing.register(),
    vscode.debug.registerDebugAdapterTrackerFactory(DEBUG_TYPE, new Endings()),
    vscode.languages.registerInlineValuesProvider("python", new InlineValues(DEBUG_TYPE)),
    vscode.commands.registerCommand("opstep.showGraph", (node?: ProgramNode | OpNode) => {
      const root = node?.kind === "op" ? node.root : node;
      return graph.show(root?.session, root?.program.id, node?.kind === "op" ? node.op.id : undefined);
    }),
    new TensorViews(context.extensionUri, following),
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
