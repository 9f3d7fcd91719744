// Scenarios for Microsoft's test client: node scenarios.js SCENARIO PYTHON SCRIPT LINE
'use strict';

const assert = require('node:assert/strict');
const path = require('node:path');
const { DebugClient } = require('@vscode/debugadapter-testsupport');

const [, , scenario, python, script, lineText] = process.argv;
const line = Number(lineText);
const launchArguments = { program: script, args: ['--steps', '2'] };
// No op was made on the line when it is asked for: it binds a moment later.
const location = { path: script, line, verified: false };

const scenarios = {
  async initialize(client) {
    const response = await client.initializeRequest();
    assert.equal(response.success, true);
    assert.equal(response.body.supportsConfigurationDoneRequest, true);
    assert.equal(response.body.supportTerminateDebuggee, true);
  },

  async 'run to the end'(client) {
    await Promise.all([
      client.configurationSequence(),
      client.launch(launchArguments),
      client.assertOutput('stdout', 'loss '),
      client.waitForEvent('terminated'),
    ]);
  },

  async 'hit breakpoint'(client) {
    const changes = [];
    client.on('breakpoint', event => changes.push(event.body.breakpoint));
    await client.hitBreakpoint(launchArguments, location);
    assert.equal(changes.at(-1).verified, true);
  },

  async step(client) {
    const [, , stack] = await client.hitBreakpoint(launchArguments, location);
    assert.equal(stack.body.stackFrames[0].line, line);
    const { threads } = (await client.threadsRequest()).body;
    const threadId = threads[0].id;
    await Promise.all([
      client.nextRequest({ threadId }),
      client.assertStoppedLocation('step', { path: script, line: line + 1 }),
    ]);
    await Promise.all([
      client.stepInRequest({ threadId, granularity: 'instruction' }),
      client.assertStoppedLocation('step', { path: script, line: line + 1 }),
    ]);
    // Once more in the second run.
    await Promise.all([
      client.continueRequest({ threadId }),
      client.assertStoppedLocation('breakpoint', location),
    ]);
  },

  async variables(client) {
    const [, , stack] = await client.hitBreakpoint(launchArguments, location);
    const frameId = stack.body.stackFrames[0].id;
    const { scopes } = (await client.scopesRequest({ frameId })).body;
    assert.equal(scopes[0].name, 'Inputs');
    const inputs = await client.variablesRequest({
      variablesReference: scopes[0].variablesReference,
    });
    const x = inputs.body.variables.find(variable => variable.evaluateName === 'x');
    assert.match(x.value, /^float32\[16, 8\] mean /);
    const rows = await client.variablesRequest({
      variablesReference: x.variablesReference, filter: 'indexed', start: 3, count: 2,
    });
    assert.deepEqual(rows.body.variables.map(row => row.name), ['[3]', '[4]']);
    const shape = await client.evaluateRequest({ expression: 'x.shape', frameId, context: 'watch' });
    assert.equal(shape.body.result, '[16, 8]');
  },

  async 'failed launch'(client) {
    const missing = path.join(__dirname, 'missing.py');
    const launched = Promise.all([
      client.configurationSequence(),
      client.launch({ program: missing }),
    ]);
    await assert.rejects(launched, /the program .*missing\.py does not exist/);
  },

  async 'unknown command'(client) {
    await client.initializeRequest();
    await assert.rejects(client.customRequest('illegalRequest'), /no request 'illegalRequest'/);
    assert.deepEqual((await client.threadsRequest()).body, { threads: [] });
  },
};

async function main() {
  const client = new DebugClient(python, path.join(__dirname, 'adapter.py'), 'opstep', {}, true);
  client.defaultTimeout = 300000;
  await client.start();
  try {
    await scenarios[scenario](client);
  } finally {
    await client.stop();
  }
  console.log(`passed: ${scenario}`);
}

main().catch(error => {
  console.error(error);
  process.exitCode = 1;
});
