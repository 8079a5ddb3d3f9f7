/**
 * The same call over every transport: only the address differs.
 *
 * Run it with `node -C handfast-source examples/transports.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { connect, createHost, listen, toolsPlugin } from 'handfast';
import { builtinTools } from 'handfast/tools';

const workspace = dirname(import.meta.dirname);
const folder = await mkdtemp(join(tmpdir(), 'handfast-'));

// #region listen
const host = createHost({ plugins: [toolsPlugin({ tools: builtinTools() })], workspace });
await host.start();
const http = await listen(host, 'http://127.0.0.1:0');
const tcp = await listen(host, 'tcp://127.0.0.1:0');
const unix = await listen(host, `unix://${join(folder, 'host.sock')}`);
// #endregion

const command = [process.execPath, ...process.execArgv, join(workspace, 'src/cli/main.ts'), 'stdio'];
const transports = {
  'in process': host,
  TCP: tcp.address,
  'Unix socket': unix.address,
  'HTTP and SSE': http.address,
  WebSocket: `${http.address.replace('http', 'ws')}/ws`,
  'child process': `stdio:${command.map((word) => JSON.stringify(word)).join(' ')}`,
};

const expected = await readFile(join(workspace, 'LICENSE'), 'utf8');
for (const [name, address] of Object.entries(transports)) {
  // `cwd` and `env` are for the child: its working folder, and the folder where it stores the data of its user.
  const options = { capabilities: ['tools'], cwd: workspace, env: { HANDFAST_HOME: folder } } as const;
  await using agent = await connect(address, options);
  const { data } = await agent.tools.call<{ content: string }>('read_file', { path: 'LICENSE' });
  const { roundTripMs } = await agent.ping();
  console.log(`${name}: ${data?.content.split('\n', 1)[0]} (ping ${roundTripMs.toFixed(2)} ms)`);
  assert.equal(data?.content, expected);
}

await host.close();
await Promise.all([http, tcp, unix].map((listener) => listener.close()));
await rm(folder, { recursive: true });
