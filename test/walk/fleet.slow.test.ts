/**
 * No message of a fleet's worker holds the event loop of its orchestrator, however large a legal one is: every type,
 * with each of its members at its largest. New types and members are included by their schemas.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { fleetSchemas } from '../../src/protocol/fleet.schema.ts';
import { isObject, type JsonObject, membersOf } from '../../src/wire/json.ts';
import { type Known, largest } from './largest.ts';
import { PlainAgent } from './plain-agent.ts';
import { ADMIN, Walk, walkedHost } from './walk.ts';

const BYTES = 1024 * 1024 - 16 * 1024;
/** The first message is read under the limit of a handshake. */
const ANNOUNCE_BYTES = 60 * 1024;
/** The protocol replies to few messages; each is read within this time, in milliseconds. */
const READ_MS = 40;
const JOIN_MS = 200;

const announce = {
  type: 'SESSION_ANNOUNCE',
  protocol_version: '2.0',
  worker: { agent_id: 'walked-worker', model: 'm', model_tier: 'sonnet', context_window: 200_000 },
  capabilities: { tools: ['file'], mcp_servers: [] },
  mcp_health: {},
  session: { context_id: 'c', active_tasks: 0, repo_state: { branch: 'main', clean: true }, session_fresh: true },
};

async function joined(tcp: string): Promise<PlainAgent> {
  const worker = await PlainAgent.dial(tcp);
  worker.write(`${JSON.stringify({ ...announce, envelope: { token: ADMIN } })}\n`);
  // A refused worker gets SESSION_BYE, and its link ends.
  await sleep(JOIN_MS);
  const refusal = worker.others.find(({ type }) => type === 'SESSION_BYE');
  assert.ok(refusal === undefined && !worker.closed, `the worker was not accepted: ${JSON.stringify(refusal)}`);
  return worker;
}

test('messages of workers hold the loop no longer than 50 ms', async (t) => {
  const host = await walkedHost(t, { yaml: 'control: { backend: rehearsal }\n', fleet: 'name: walked\nworkers: []\n' });
  const walk = new Walk(host);
  let worker = await joined(host.tcp);
  t.after(() => worker.close());
  const known: Known = { agent_id: 'walked-worker', task_id: 'none', envelope: { token: ADMIN }, ...announce };
  const types: string[] = [];
  for (const schema of fleetSchemas as unknown as readonly JsonObject[]) {
    const type = String(membersOf(membersOf(schema.properties).type).const);
    assert.ok(isObject(schema.properties) && type !== 'undefined', 'a message of the fleet names its type');
    types.push(type);
    const isFirst = type === 'SESSION_ANNOUNCE';
    for (const { title, value } of largest(schema, known, isFirst ? ANNOUNCE_BYTES : BYTES, type)) {
      await walk.step(`${type} ${title}`, async () => {
        if (isFirst || worker.closed) {
          worker.close();
          worker = isFirst ? await PlainAgent.dial(host.tcp) : await joined(host.tcp);
        }
        worker.write(`${JSON.stringify({ ...value, type, protocol_version: '2.0' })}\n`);
        await sleep(READ_MS);
      });
    }
  }
  assert.ok(types.length >= 14);
  walk.mustHaveHeldNobody();
});
