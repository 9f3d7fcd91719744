import * as vscode from "vscode";

import { AdapterFactory } from "./adapter";
import { ConfigurationProvider, debugThisFile, DynamicConfigurationProvider } from "./configuration";
import { Following } from "./following";
import { registerSteps } from "./stepping";

export const DEBUG_TYPE = "opstep";

export function activate(context: vscode.ExtensionContext): void {
  const { Initial, Dynamic } = vscode.DebugConfigurationProviderTriggerKind;
  const register = vscode.debug.registerDebugConfigurationProvider;
  const following = new Following(DEBUG_TYPE);
  context.subscriptions.push(
    following,
    ...registerSteps(following),
    register(DEBUG_TYPE, new ConfigurationProvider(context.extensionPath), Initial),
    register(DEBUG_TYPE, new DynamicConfigurationProvider(), Dynamic),
    vscode.debug.registerDebugAdapterDescriptorFactory(
      DEBUG_TYPE,
      new AdapterFactory(context.extensionPath),
    ),
    vscode.commands.registerCommand("opstep.debugFile", debugThisFile),
  );
}

export function deactivate(): void {}
