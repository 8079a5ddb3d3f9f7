/**
 * approval.list and approval.answer: the principals who may see and answer each request.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApprovalBroker } from '../../../src/control/approvals/broker.ts';
import { approvalHandlers } from '../../../src/control/approvals/handlers.ts';
import type { RpcCall } from '../../../src/control/contract/handlers.ts';
import { readParams } from '../../../src/protocol/rpc-reader.ts';
import type { Approval } from '../../../src/protocol/session-types.ts';
import { ROLES } from '../../../src/session/roles.ts';
import { fail } from '../../../src/wire/errors.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';

const never = new AbortController().signal;
const caller = (name: string, clientName: string | null = null, admin = false): RpcCall => ({
  caller: {
    connectionId: 'c',
    principal: { name, ...ROLES.client, admin },
    clientName,
    clientVersion: null,
    transport: 'memory',
  },
  signal: never,
  yieldSlot: () => () => {},
  afterAnswer: (work) => work(),
  replay: async () => 0,
});

function setUp() {
  const broker = new ApprovalBroker();
  const logs = new Map<string, FakeSessionLog>();
  const handlers = approvalHandlers({
    broker,
    sessions: {
      openFor({ name, admin }, id) {
        const log = logs.get(id);
        if (log !== undefined && (admin || log.record.owner === name)) return log;
        throw fail('session_not_found', `unknown session: ${id}`, { session_id: id });
      },
      opened: () => logs.values(),
    },
    checkContent: (_schema, content) => {
      if (typeof (content as { name?: unknown }).name !== 'string') throw fail('schema_violation', 'name is missing');
      return content;
    },
    rulesStored: async () => {},
  });
  const call = async <T>(name: string, params: object, by: RpcCall): Promise<T> => {
    const handled = handlers.find(({ method }) => method.name === name);
    assert.ok(handled);
    return (await handled.handle(readParams(handled.method, params), by)) as T;
  };
  const session = (id: string, owner: string) => {
    const log = new FakeSessionLog({ id, owner });
    logs.set(id, log);
    return log;
  };
  const list = async (params: object, by: RpcCall) =>
    (await call<{ approvals: Approval[] }>('approval.list', params, by)).approvals.map(({ title }) => title);
  const answer = (params: object, by: RpcCall) =>
    call<{ approval: Approval; accepted: boolean }>('approval.answer', params, by);
  return { broker, session, list, answer, logs };
}

const tool = (title: string) => ({
  kind: 'tool' as const,
  title,
  tool: { name: 'shell', input: { command: title }, call_id: title },
  risks: ['exec'],
});

test('a list holds what waits in the sessions of the caller, oldest first; an administrator sees all', async () => {
  const { broker, session, list, answer } = setUp();
  const mine = session('mine', 'ann');
  void broker.ask(mine, 'turn-1', tool('first'), never);
  void broker.ask(session('theirs', 'bob'), 'turn-1', tool('second'), never);
  void broker.ask(mine, 'turn-1', tool('third'), never);
  const ann = caller('ann');
  assert.deepEqual(await list({}, ann), ['first', 'third']);
  assert.deepEqual((await list({}, caller('root', null, true))).sort(), ['first', 'second', 'third']);
  assert.deepEqual(await list({ session_id: 'mine' }, ann), ['first', 'third']);
  await answer({ approval_id: mine.record.approvals[0]!.id, decision: 'deny' }, ann);
  assert.deepEqual(await list({ session_id: 'mine' }, ann), ['third']);
  assert.deepEqual((await list({ session_id: 'mine', all: true }, ann)).sort(), ['first', 'third']);
});

test('the session of another principal is as unknown as one that does not exist', async () => {
  const { session, list } = setUp();
  session('theirs', 'bob');
  for (const id of ['theirs', 'nobody']) {
    await assert.rejects(list({ session_id: id }, caller('ann')), {
      code: 'session_not_found',
      message: `unknown session: ${id}`,
    });
  }
});

test('an answer names who gave it and with what, and is on disk before it is acknowledged', async () => {
  const { broker, session, answer } = setUp();
  const log = session('mine', 'ann');
  const asked = broker.ask(log, 'turn-1', tool('x'), never);
  const { id } = log.record.approvals[0]!;
  const first = await answer({ approval_id: id, decision: 'allow' }, caller('ann', 'an editor'));
  assert.deepEqual([first.accepted, first.approval.answered_by], [true, 'ann (an editor)']);
  assert.deepEqual(first.approval.answer, { decision: 'allow', remember: 'once' });
  assert.equal(log.flushes, 1);
  assert.equal((await asked).state, 'allowed');
  const second = await answer({ approval_id: id, decision: 'deny' }, caller('ann'));
  assert.deepEqual([second.accepted, second.approval.state], [false, 'allowed']);
  log.record.approvals = [];
  const third = await answer({ approval_id: id, decision: 'deny' }, caller('ann'));
  assert.deepEqual([third.accepted, third.approval.state], [false, 'allowed']);
});

test('only the owner and an administrator can answer, before or after', async () => {
  const { broker, session, answer } = setUp();
  const log = session('mine', 'ann');
  void broker.ask(log, 'turn-1', tool('x'), never);
  const { id } = log.record.approvals[0]!;
  await assert.rejects(answer({ approval_id: id, decision: 'allow' }, caller('bob')), { code: 'not_found' });
  await assert.rejects(answer({ approval_id: 'nothing', decision: 'allow' }, caller('ann')), { code: 'not_found' });
  assert.equal((await answer({ approval_id: id, decision: 'allow' }, caller('root', null, true))).accepted, true);
  await assert.rejects(answer({ approval_id: id, decision: 'allow' }, caller('bob')), { code: 'not_found' });
});

test('an answer without a decision is refused by name', async () => {
  const { answer } = setUp();
  await assert.rejects(answer({ approval_id: 'x' }, caller('ann')), {
    code: 'schema_violation',
    message: 'invalid params for approval.answer: `decision` must be one of: allow, deny',
    detail: { field: 'decision' },
  });
});

test('weakness 24: a question is answered with content that fits its schema; what does not fit leaves it open', async () => {
  const { broker, session, answer } = setUp();
  const log = session('mine', 'ann');
  const ask = () =>
    broker.ask(log, 'turn-1', { kind: 'question', title: 'who?', risks: [], schema: { type: 'object' } }, never);
  const asked = ask();
  const { id } = log.record.approvals[0]!;
  const ann = caller('ann');
  await assert.rejects(answer({ approval_id: id, decision: 'allow', content: { name: 7 } }, ann), {
    code: 'schema_violation',
  });
  await assert.rejects(answer({ approval_id: id, decision: 'allow' }, ann), { code: 'schema_violation' });
  assert.equal(log.record.approvals[0]?.state, 'pending');
  await answer({ approval_id: id, decision: 'allow', content: { name: 'x' } }, ann);
  assert.deepEqual((await asked).answer?.content, { name: 'x' });
  const declined = ask();
  const second = log.record.approvals.at(-1)!;
  await answer({ approval_id: second.id, decision: 'deny' }, ann);
  assert.equal((await declined).state, 'denied', 'declining needs no content');
});

test('`all` also lists what was decided when its turn is over, to those who may see it', async () => {
  const { broker, session, list, answer } = setUp();
  const log = session('mine', 'ann');
  void broker.ask(log, 'turn-1', tool('first'), never);
  const [asked] = [...broker.waiting()];
  await answer({ approval_id: asked?.approval.id, decision: 'deny' }, caller('ann'));
  assert.deepEqual(await list({}, caller('ann')), []);
  assert.deepEqual(await list({ all: true }, caller('ann')), ['first']);
  assert.deepEqual(await list({ all: true }, caller('bob')), []);
});
