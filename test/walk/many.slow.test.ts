/**
 * Many requests at once hold the event loop no longer than a few of them: those that one agent sends without waiting, and those of many
 * agents that arrive together.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { learningSchemas } from '../../src/capabilities/learning/learning.schema.ts';
import type { JsonObject } from '../../src/wire/json.ts';
import { liveValues, walkedCapabilities } from './a2e-live.ts';
import { largest } from './largest.ts';
import { PlainAgent } from './plain-agent.ts';
import { ADMIN, Walk, walkedHost } from './walk.ts';

const CAPABILITIES = ['learning', 'env', 'tools', 'chains', 'memory', 'planning', 'proc'];
const AGENTS = 24;
const PIPELINED = 64;
const MEDIUM = 15_000;
const LARGE = 400_000;
const REPLY_MS = 20_000;
/** Bound: one of these takes some 20 ms, all of them more than a second. */
const SOME_MS = 250;

test('many requests at once hold the loop no longer than a few of them', async (t) => {
  const host = await walkedHost(t, walkedCapabilities);
  const walk = new Walk(host, SOME_MS);
  const open = () => PlainAgent.open(host.tcp, ADMIN, CAPABILITIES);
  const agents = await Promise.all(Array.from({ length: AGENTS }, open));
  t.after(() => {
    for (const agent of agents) agent.close();
  });
  const [first] = agents as [PlainAgent];
  const others = ['skill', 'mcp', 'multi_agent', 'toolkits'];
  const all = await PlainAgent.open(host.tcp, ADMIN, [...CAPABILITIES, ...others]);
  const known = await liveValues(all);
  all.close();
  const feedback = Object.values(learningSchemas).find((schema) =>
    JSON.stringify((schema as unknown as JsonObject).properties).includes('"learn/feedback/req"'),
  );
  const many = (bytes: number): JsonObject => {
    const found = [...largest(feedback, known, bytes, 'learn/feedback/req')];
    const message = found.find(({ title }) => title === 'feedbacks: many items')?.value;
    assert.ok(message !== undefined, found.map(({ title }) => title).join());
    return { ...message, type: 'learn/feedback/req' };
  };
  const { obs } = await first.ask({ type: 'env/reset/req', env_name: 'CartPole-v1', seed: 1 });
  const messages: Record<string, JsonObject> = {
    'learn/feedback/req': many(MEDIUM),
    'env/render/req': { type: 'env/render/req', episode_id: (obs as JsonObject).episode_id },
    'tool/list/req': { type: 'tool/list/req' },
    'chain/check/req': {
      type: 'chain/check/req',
      nodes: Array.from({ length: 200 }, (_, at) => ({ node_id: `n${at}`, kind: 'gather' })),
    },
  };
  for (const [name, message] of Object.entries(messages)) {
    await walk.step(`${PIPELINED} times ${name}`, () =>
      Promise.all(Array.from({ length: PIPELINED }, () => first.ask(message, REPLY_MS))),
    );
    await walk.step(`${name} of ${AGENTS} agents`, () =>
      Promise.all(agents.map((agent) => agent.ask(message, REPLY_MS))),
    );
  }
  const large = many(LARGE);
  await walk.step(`a large one of ${AGENTS} agents`, () =>
    Promise.all(agents.map((agent) => agent.ask(large, REPLY_MS))),
  );
  walk.mustHaveHeldNobody();
});
