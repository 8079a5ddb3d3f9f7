/**
 * Restate's server and a service of its SDK, whose steps do nothing: `restate.mjs PACKAGES FOLDER`. The server is configured as it
 * is installed, but for its addresses, its folder and its telemetry; its log is synced to disk before a step is acknowledged.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer as createHttp2 } from 'node:http2';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { serveLines, timed } from './lines.ts';

const START_MS = 60_000;
const HOST = '127.0.0.1';

const [, , folder, data] = process.argv;
const packages = createRequire(join(folder, 'package.json'));
const { service, createEndpointHandler } = await import(
  pathToFileURL(packages.resolve('@restatedev/restate-sdk')).href
);

const one = () => 1;
const chain = service({
  name: 'chain',
  handlers: {
    row: async (context, nodes) => {
      for (let at = 0; at < nodes; at++) await context.run(`n${at}`, one);
      return nodes;
    },
    fan: async (context, nodes) => {
      // What is started is on its way; each is awaited.
      const steps = Array.from({ length: nodes }, (_, at) => context.run(`n${at}`, one));
      for (const step of steps) await step;
      return nodes;
    },
  },
});
const endpoint = createHttp2(createEndpointHandler({ services: [chain], logger: () => {} }));
endpoint.listen(0, HOST);
await once(endpoint, 'listening');

/** A port that is free now. */
async function freePort() {
  const server = createServer().listen(0, HOST);
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

const [node, ingress, admin] = [await freePort(), await freePort(), await freePort()];
const program = packages.resolve(`@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`);
const server = spawn(program, ['--no-logo', '--base-dir', data, '--listen-mode', 'tcp', '--bind-ip', HOST], {
  env: {
    ...process.env,
    RESTATE_BIND_PORT: String(node),
    RESTATE_INGRESS__BIND_PORT: String(ingress),
    RESTATE_ADMIN__BIND_PORT: String(admin),
    RESTATE_DISABLE_TELEMETRY: 'true',
    RUST_LOG: 'error,octocrab=off',
  },
  stdio: ['ignore', 'ignore', 'inherit'],
});

async function post(port, path, body) {
  const reply = await fetch(`http://${HOST}:${port}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  return reply.json();
}

for (const late = Date.now() + START_MS; ; ) {
  try {
    await post(admin, '/deployments', { uri: `http://${HOST}:${endpoint.address().port}` });
    break;
  } catch (error) {
    if (Date.now() > late || server.exitCode !== null) throw error;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

await serveLines(
  async ({ shape, nodes }) => ({ seconds: await timed(() => post(ingress, `/chain/${shape}`, nodes)) }),
  async () => {
    server.kill();
    if (server.exitCode === null) await once(server, 'exit');
  },
);
