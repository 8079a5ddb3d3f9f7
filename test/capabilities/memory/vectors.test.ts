/** The published messages of the capability: every request gets a reply in the form that its peers decode. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import * as requests from '../../../src/capabilities/memory/memory.generated.ts';
import * as replies from '../../../src/capabilities/memory/memory.replies.generated.ts';
import type { Check } from '../../../src/wire/check.ts';
import { rawAgent } from '../../support/raw-agent.ts';
import { memoryHost, type Opened } from './support.ts';

/** Opens a session of plain messages: `ask` resolves with the reply. */
async function rawSession({ host }: Opened) {
  const agent = rawAgent(host);
  await agent.shake({ agent_caps: ['memory'], auth_token: 'ada' });
  let last = 0;
  return {
    ask: (message: object): Promise<Record<string, unknown>> => {
      const id = (message as { id?: string }).id ?? `m${++last}`;
      agent.send({ ...message, id });
      return agent.answer(id);
    },
  };
}

const lines = readFileSync(join(import.meta.dirname, '../../vectors/a2e/memory.ndjson'), 'utf8')
  .trim()
  .split('\n');
const messages = lines.map((line) => JSON.parse(line) as Record<string, unknown> & { type: string });
const checks: Readonly<Record<string, Check>> = {
  'memory/init/req': requests.MemoryInitReq,
  'memory/store/req': requests.MemoryStoreReq,
  'memory/retrieve/req': requests.MemoryRetrieveReq,
  'memory/forget/req': requests.MemoryForgetReq,
  'memory/init/resp': replies.MemoryInitResp,
  'memory/store/resp': replies.MemoryStoreResp,
  'memory/retrieve/resp': replies.MemoryRetrieveResp,
  'memory/forget/resp': replies.MemoryForgetResp,
};

test('every published message is valid', () => {
  assert.equal(messages.length, 16);
  for (const message of messages) {
    const check = checks[message.type];
    assert.ok(check !== undefined, message.type);
    assert.ok(check(message), `${JSON.stringify(message)}: ${JSON.stringify(check.errors)}`);
  }
});

test('every published request is answered in its form, with the fields of the protocol', async (t) => {
  const session = await rawSession(await memoryHost(t));
  const opened = await session.ask({ type: 'memory/init/req', namespace: 'default' });
  const fields = {
    init: ['memory_id', 'namespace', 'success'],
    store: ['errors', 'stored'],
    retrieve: ['entries', 'total'],
    forget: ['deleted'],
  };
  for (const message of messages.filter(({ type }) => type.endsWith('/req'))) {
    const verb = message.type.split('/')[1] as keyof typeof fields;
    const reply = await session.ask({ ...message, ...(verb !== 'init' && { memory_id: opened.memory_id }) });
    assert.equal(reply.type, `memory/${verb}/resp`);
    assert.equal(reply.req_id, message.id);
    assert.ok(checks[reply.type as string]?.(reply), JSON.stringify(reply));
    for (const field of fields[verb]) assert.ok(Object.hasOwn(reply, field), `${reply.type} has ${field}`);
  }
});

test('a text stands for a key object, also over the raw wire', async (t) => {
  const session = await rawSession(await memoryHost(t));
  const { memory_id } = await session.ask({ type: 'memory/init/req' });
  const stored = await session.ask({
    type: 'memory/store/req',
    memory_id,
    entries: [{ key: 'k', content: 1, tier: 'episodic' }],
  });
  assert.deepEqual(stored.stored, [{ key: 'k' }]);
  const found = await session.ask({ type: 'memory/retrieve/req', memory_id, keys: ['k'] });
  assert.deepEqual((found.entries as { content: unknown }[])[0]?.content, 1);
  const missing = await session.ask({ type: 'memory/retrieve/req', memory_id: 'mem-3f2a' });
  assert.deepEqual([missing.type, missing.code, missing.capability_name], ['error', 'memory_not_found', 'memory']);
  const negative = await session.ask({ type: 'memory/retrieve/req', memory_id, limit: -1 });
  assert.deepEqual([negative.type, negative.code], ['error', 'schema_violation']);
});
