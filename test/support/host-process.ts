/**
 * A host in a separate process, on TCP and HTTP, for tests that measure memory or cut and kill: `startHostProcess` of
 * `host-child.ts` starts it. It sends its addresses over the IPC channel and reports about itself on request.
 */
import { toolsPlugin } from '../../src/capabilities/tools/plugin.ts';
import { tool } from '../../src/capabilities/tools/tool.ts';
import { createHost } from '../../src/host/host.ts';
import { memoryJournal } from '../../src/journal/memory.ts';
import { httpServer } from '../../src/server/http/http.ts';
import { httpSseEndpoint } from '../../src/transport/http/http-sse.ts';
import type { Link } from '../../src/transport/link.ts';
import { listenTcp } from '../../src/transport/socket.ts';
import { webSocketAcceptor } from '../../src/transport/websocket.ts';
import type { HostReport } from './host-child.ts';
import { echo } from './tools.ts';

/** Number of runs of each key: more than one means duplicate work. */
const runs = new Map<string, number>();
let repeated = 0;

const work = tool({
  name: 'work',
  description: 'Sends events, takes its time, and gives its key back',
  input: {
    type: 'object',
    properties: { key: { type: 'string' }, events: { type: 'integer' }, ms: { type: 'number' } },
    required: ['key'],
  },
  async run({ key, events = 0, ms = 0 }: { key: string; events?: number; ms?: number }, context) {
    const before = runs.get(key) ?? 0;
    if (before > 0) repeated++;
    runs.set(key, before + 1);
    // Keys are never used again once they are this old.
    if (runs.size > 50_000) runs.delete(runs.keys().next().value as string);
    for (let at = 0; at < events; at++) await context.emit('log', { key, at });
    if (ms > 0) await new Promise((resolve) => setTimeout(resolve, ms));
    return { key };
  },
});

/** A host of ordinary size has some dozens of tools. */
const others = Array.from({ length: 40 }, (_, at) =>
  tool({ name: `other_${at}`, description: 'One of many tools that are there to be listed', run: () => at }),
);

const host = createHost({
  plugins: [toolsPlugin({ tools: [echo, work, ...others] })],
  journal: memoryJournal(),
  forgetClosed: true,
  limits: JSON.parse(process.argv[2] ?? '{}'),
});
await host.start();
const accept = (link: Link): void => host.accept(link);
const tcp = await listenTcp({ port: 0 }, accept);
const http = await httpServer({
  endpoint: httpSseEndpoint({ accept }),
  webSocket: webSocketAcceptor(),
  accept,
  // A relay in front of it has another port.
  allowedHosts: ['127.0.0.1'],
});

process.on('message', async (question) => {
  if (question === 'stop') {
    await host.close(0);
    await Promise.all([tcp.close(), http.close()]);
    process.disconnect?.();
    return;
  }
  globalThis.gc?.();
  const { user, system } = process.threadCpuUsage();
  const report: HostReport = {
    health: host.health(),
    resources: process.getActiveResourcesInfo(),
    rssBytes: process.memoryUsage.rss(),
    heapBytes: process.memoryUsage().heapUsed,
    busyMs: (user + system) / 1000,
    repeated,
  };
  process.send?.(report);
});
process.send?.({ tcp: tcp.address, http: http.address, webSocket: `${http.address.replace('http', 'ws')}/ws` });
