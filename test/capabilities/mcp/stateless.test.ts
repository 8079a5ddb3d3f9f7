/**
 * A server of the generation without sessions: progress, cancel, changes, and questions within results, each to the right
 * caller.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { agentOf, errorOf, folder, mcpHost, odd, pidsOf, until } from './support.ts';

const modern = {
  name: 'modern',
  command: process.execPath,
  args: [fileURLToPath(new URL('../../support/mcp-modern.mjs', import.meta.url))],
  mayAsk: ['sampling', 'elicitation'] as const,
};
const textOf = (data: unknown): string => JSON.stringify(data);

test('changes of resources and tools arrive over its stream', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [modern] } });
  const agent = await agentOf(t, host);
  const seen: string[] = [];
  agent.mcp.onNotification(({ method, params }) => void seen.push(`${method} ${params.uri ?? ''}`.trim()));
  await agent.mcp.subscribe('modern:notes');
  assert.equal((await agent.mcp.servers())[0]?.mcp_version, '2026-07-28');
  await agent.mcp.call('modern', 'touch');
  await until(() => seen.includes('notifications/resources/updated modern:notes'));
  await agent.mcp.call('modern', 'grow');
  await until(async () => (await agent.mcp.servers())[0]?.tools_changed?.includes('grown') === true);
  assert.equal(await agent.mcp.unsubscribe('modern:notes'), true);
});

test('progress are events, and a cancel reaches the server', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [modern] } });
  const agent = await agentOf(t, host);
  const stop = new AbortController();
  const calling = agent.mcp.call('modern', 'count', {}, { signal: stop.signal });
  const failed = errorOf(calling);
  let events = 0;
  const watched = (async () => {
    for await (const { kind } of calling) {
      if (kind === 'progress') events += 1;
      if (events === 3) stop.abort();
    }
  })();
  assert.equal((await errorOf(watched)).code, 'cancelled');
  assert.equal((await failed).code, 'cancelled');
  assert.ok(events >= 3);
  await until(async () => (await agent.mcp.servers())[0]?.stderr?.includes('modern server: cancelled') === true);
});

test('what its results ask for, the agent of the call answers, while others call too', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [modern] } });
  const names = ['ana', 'bo', 'cy'];
  const agents = await Promise.all(names.map((agentId) => agentOf(t, host, { agentId })));
  agents.forEach((agent, at) => {
    agent.mcp.onElicitation(() => ({ action: 'accept', content: { name: names[at] as string } }));
    agent.mcp.onSampling(() => ({ content: { type: 'text', text: `as ${names[at]} thinks` }, model: 'm' }));
  });
  const greeted = await Promise.all(agents.map((agent) => agent.mcp.call('modern', 'greet')));
  for (const [at, { data }] of greeted.entries()) assert.match(textOf(data), new RegExp(`Hello ${names[at]}`));
  const thought = await Promise.all(agents.map((agent) => agent.mcp.call('modern', 'think')));
  for (const [at, { data }] of thought.entries()) assert.match(textOf(data), new RegExp(`as ${names[at]} thinks`));
  const silent = await agentOf(t, host, { agentId: 'di' });
  assert.equal((await errorOf(silent.mcp.call('modern', 'greet'))).code, 'mcp_sampling_refused');
});

test('a server that is killed while it asks: the call fails at once, and the question is withdrawn', async (t) => {
  const cwd = folder(t);
  const host = await mcpHost(t, { mcp: { servers: [odd(cwd, modern)], askTimeoutS: 3_600 } });
  const agent = await agentOf(t, host);
  const asked = Promise.withResolvers<void>();
  const withdrawn = Promise.withResolvers<void>();
  agent.mcp.onSampling((_, { signal }) => {
    asked.resolve();
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        withdrawn.resolve();
        reject(signal.reason);
      });
    });
  });
  const failed = errorOf(agent.mcp.call('modern', 'think'));
  await asked.promise;
  process.kill(pidsOf(cwd).at(-1) as number, 'SIGKILL');
  assert.equal((await failed).code, 'mcp_transport_error');
  await withdrawn.promise;
});
