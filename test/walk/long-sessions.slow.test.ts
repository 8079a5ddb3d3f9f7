/**
 * No request about a session that is already long holds the event loop: states, pages, forks and exports of one with large images or many
 * items, replays of it, and its events for several clients at once.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isObject, membersOf } from '../../src/wire/json.ts';
import { entry, exported, restored } from './exported-session.ts';
import { PlainAgent } from './plain-agent.ts';
import { ADMIN, Walk, type WalkedHost, walkedHost } from './walk.ts';

const IMAGE_BYTES = 8 * 1024 * 1024 - 1024;
const FOLLOWERS = 8;
const REPLY_MS = 20_000;

const image = (): object => ({ data_url: `data:image/png;base64,${randomBytes(IMAGE_BYTES).toString('base64')}` });

async function client(host: WalkedHost, events = true): Promise<PlainAgent> {
  const agent = await PlainAgent.dial(host.tcp);
  const hello = await agent.call('rpc.handshake', { token: ADMIN, client_name: 'walker', all_events: events });
  assert.ok(isObject(hello.result), JSON.stringify(hello));
  return agent;
}

async function started(t: TestContext): Promise<{ host: WalkedHost; walk: Walk }> {
  const host = await walkedHost(t, { yaml: 'control: { backend: rehearsal }\n' });
  return { host, walk: new Walk(host) };
}

/** Requests about a session, each with the members that it needs. */
const requests: Readonly<Record<string, object>> = {
  'session.get': {},
  'session.load': {},
  'session.resume': {},
  'session.messages': { limit: 1000 },
  'session.turns': { limit: 500 },
  'session.fork': {},
  'session.export': {},
  'session.configure': { thinking_level: 'LOW' },
  'session.rename': { title: 'long' },
  'session.send': { text: 'again' },
  'history.list': {},
  'events.subscribe': { after_seq: 0 },
};

async function walkAll(walk: Walk, host: WalkedHost, session_id: string): Promise<void> {
  const agent = await client(host, false);
  for (const [method, params] of Object.entries(requests)) {
    await walk.step(`${method} of a long session`, async () => {
      const reply = await agent.call(method, { session_id, ...params }, REPLY_MS);
      assert.ok(
        reply.result !== undefined || membersOf(reply.error).code !== undefined,
        `${method}: ${JSON.stringify(reply).slice(0, 200)}`,
      );
      await sleep(100);
    });
  }
  agent.close();
}

test('a large image for several followers, and requests about its session', async (t) => {
  const { host, walk } = await started(t);
  const agent = await client(host, false);
  const { session_id } = membersOf((await agent.call('session.create', {})).result);
  const followers = await Promise.all(Array.from({ length: FOLLOWERS }, () => client(host)));
  await walk.step('session.send of an image', async () => {
    const sent = await agent.call(
      'session.send',
      { session_id, text: 'look', images: [image()], enqueue: true },
      REPLY_MS,
    );
    assert.ok(sent.result !== undefined, JSON.stringify(sent));
    await sleep(500);
  });
  for (const follower of followers) follower.close();
  await walkAll(walk, host, String(session_id));
  agent.close();
  walk.mustHaveHeldNobody();
});

test('requests about a session with many items', async (t) => {
  const { host, walk } = await started(t);
  const agent = await client(host, false);
  const conversation = (at: number) => {
    const texts = Array.from({ length: 4000 }, (_, each) => `${at} ${each} ${'word '.repeat(50)}`);
    const history = texts.map((text, each) => ({
      role: each % 2 === 0 ? 'user' : 'assistant',
      turn: `t${each >> 1}`,
      text,
    }));
    const messages = texts.map((text, each) => ({ id: each + 1, kind: each % 2 === 0 ? 'user' : 'assistant', text }));
    return { history, messages };
  };
  const lines = exported([restored(1, conversation(0))]);
  // Lists of an import are added to those before.
  for (let at = 1; at < 6; at++) {
    const { history, messages } = conversation(at);
    lines.push(entry(at + 1, 'history.append', { items: history }));
    for (const message of messages.slice(0, 1000)) lines.push(entry(at + 1, 'session.message.appended', { message }));
  }
  const imported = await agent.call('session.import', { lines }, REPLY_MS);
  const { session_id } = membersOf(imported.result);
  assert.ok(session_id !== undefined, JSON.stringify(imported).slice(0, 300));
  await walkAll(walk, host, String(session_id));
  agent.close();
  walk.mustHaveHeldNobody();
});
