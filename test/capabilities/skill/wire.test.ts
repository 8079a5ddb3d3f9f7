/** The skill messages on the wire: every line of other implementations is valid and gets a reply of the right form, over every transport. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import * as requests from '../../../src/capabilities/skill/skill.generated.ts';
import * as replies from '../../../src/capabilities/skill/skill.replies.generated.ts';
import type { Check } from '../../../src/wire/check.ts';
import { root } from '../../rules/scan.ts';
import type { Peer } from '../../support/peer.ts';
import type { Message } from '../../support/raw-agent.ts';
import { allTransports, doorOf, type TransportName } from '../../support/sites.ts';
import { skillHost, writeSkill } from './support.ts';

const lines = readFileSync(join(root, 'test/vectors/a2e/skills.ndjson'), 'utf8').trim().split('\n');
const vectors = lines.map((line) => JSON.parse(line) as Message);
const checks: Readonly<Record<string, Check>> = {
  'skill/discover/req': requests.SkillDiscoverReq,
  'skill/discover/resp': replies.SkillDiscoverResp,
  'skill/call/req': requests.SkillCallReq,
  'skill/event': replies.SkillEvent,
  'skill/call/resp': replies.SkillCallResp,
};

test('every line of the set is valid, with unknown fields too', () => {
  assert.equal(vectors.length, 11);
  for (const message of vectors) {
    const check = checks[message.type] ?? assert.fail(message.type);
    assert.ok(check(message), `${message.type}: ${JSON.stringify(check.errors)}`);
    assert.ok(check({ ...message, later: [1] }));
  }
});

async function peerOf(t: TestContext, transport: Exclude<TransportName, 'stdio'>): Promise<Peer> {
  const { host, root: folder } = await skillHost(t);
  writeSkill(folder, 'greet', {
    code: `export default async ({ name }, skill) => { await skill.log('hm'); return name; };`,
  });
  const door = await doorOf(transport, host);
  const peer = await door.dial();
  t.after(async () => {
    peer.cut();
    await door.close();
  });
  peer.send({ type: 'handshake/req', id: 'h', agent_id: 'plain', agent_caps: ['skills'] });
  const terms = (await peer.next()) as Message;
  assert.deepEqual([terms.ok, terms.accepted_caps[0].capability], [true, 'skill']);
  return peer;
}

/** Sends a request; resolves with its events and its reply. */
async function ask(peer: Peer, message: Message): Promise<{ events: Message[]; reply: Message }> {
  peer.send({ version: '1.0', ts: 1, ...message });
  const events: Message[] = [];
  for (;;) {
    const next = (await peer.next()) as Message;
    if (next.req_id !== message.id) continue;
    assert.ok(next.type === 'error' || checks[next.type]?.(next), JSON.stringify(next));
    if (next.type !== 'skill/event') return { events, reply: next };
    events.push(next);
  }
}

for (const transport of allTransports) {
  if (transport === 'stdio') continue;
  test(`a plain client over ${transport} lists and calls`, { timeout: 60_000 }, async (t) => {
    const peer = await peerOf(t, transport);
    const { reply: list } = await ask(peer, {
      type: 'skill/discover/req',
      id: 'd',
      filter_tags: [],
      filter_categories: [],
    });
    assert.deepEqual(
      list.skills.map(({ name }: Message) => name),
      ['greet'],
    );
    // Without `streaming` a client of A2E 1.0 gets events.
    const { events, reply } = await ask(peer, {
      type: 'skill/call/req',
      id: 'c',
      name: 'greet',
      arguments: { name: 'Ana' },
    });
    assert.deepEqual(
      events.map(({ kind, seq }) => [seq, kind]),
      [
        [0, 'skill.started'],
        [1, 'log'],
        [2, 'skill.completed'],
      ],
    );
    assert.deepEqual(
      [reply.type, reply.name, reply.error, reply.data.success, reply.data.data],
      ['skill/call/resp', 'greet', null, true, 'Ana'],
    );
    const quiet = await ask(peer, { type: 'skill/call/req', id: 'q', name: 'greet', arguments: {}, streaming: false });
    assert.deepEqual([quiet.events.length, quiet.reply.data.data], [0, null]);
    const { reply: unknown } = await ask(peer, { type: 'skill/call/req', id: 'u', name: 'nothing' });
    assert.deepEqual([unknown.type, unknown.code, unknown.retryable], ['error', 'unknown_skill', false]);
  });
}

test('every request of the set gets one reply', { timeout: 60_000 }, async (t) => {
  const peer = await peerOf(t, 'memory');
  for (const message of vectors.filter(({ type }) => type.endsWith('/req'))) {
    const { reply } = await ask(peer, message);
    if (message.type === 'skill/discover/req') assert.equal(reply.type, 'skill/discover/resp');
    else assert.deepEqual([reply.type, reply.code], ['error', 'unknown_skill']);
  }
});
