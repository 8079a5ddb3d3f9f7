/**
 * Turns that continue after the server was killed: the requests that are repeated, the calls that are reported as lost, and
 * those that are never run twice.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApprovalBroker } from '../../../src/control/approvals/broker.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import { withQuestions } from '../../../src/control/rounds/questions.ts';
import { runRounds } from '../../../src/control/rounds/rounds.ts';
import { withApprovals } from '../../../src/control/rounds/with-approvals.ts';
import type { Approval } from '../../../src/protocol/session-types.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';
import { FakeTurn, inShort } from '../support/fake-turn.ts';
import { say, scriptedModel, toolboxOf } from '../support/scripted-model.ts';

const turnId = 'turn-1';
const prompt: HistoryItem = { role: 'user', turn: turnId, text: 'do it' };
const round = (ids: readonly string[], parallel = false): HistoryItem => ({
  role: 'assistant',
  turn: turnId,
  text: 'on it. ',
  calls: ids.map((callId) => ({ callId, name: 'work', input: { id: callId } })),
  ...(parallel && { parallel }),
});
const result = (callId: string): HistoryItem => ({
  role: 'tool',
  turn: turnId,
  callId,
  name: 'work',
  ok: true,
  result: 1,
});
const approval = (callId: string, state: Approval['state']): Approval => ({
  id: `approval-${callId}`,
  session_id: 'session-1',
  turn_id: turnId,
  kind: 'tool',
  title: 'work',
  tool: { name: 'work', input: {}, call_id: callId },
  risks: [],
  reason: '',
  created_at: '2026-01-01T00:00:00.000Z',
  expires_at: '2026-01-01T01:00:00.000Z',
  state,
});

async function goOn(history: readonly HistoryItem[], approvals: readonly Approval[] = []) {
  const log = new FakeSessionLog({ history, approvals });
  const turn = new FakeTurn({ log, continued: true });
  const toolbox = toolboxOf({ work: ({ input }) => input.id });
  const model = scriptedModel([say('done')]);
  const outcome = await runRounds(turn, model, withApprovals(toolbox, turn));
  return { turn, toolbox, model, outcome };
}

test('a call that may have started is reported as interrupted and not made again', async () => {
  const { turn, toolbox, model } = await goOn([prompt, round(['a'])]);
  assert.deepEqual(toolbox.called, []);
  assert.deepEqual(inShort(turn.deeds), ['done 1 a failed', 'results 1 a', 'answer done']);
  const { error, result: told } = turn.deedsOf('done')[0]!.done;
  assert.match(String(error), /^interrupted by a restart/);
  assert.deepEqual(told, { callId: 'a', tool: 'work', status: 'interrupted' });
  assert.equal(model.requests[0]?.round, 2);
  assert.equal(model.requests[0]?.history.at(-1)?.role, 'tool');
});

test('a call that waits for an approval asks again under its own id and is made once allowed', async () => {
  const { turn, toolbox } = await goOn([prompt, round(['a'])], [approval('a', 'pending')]);
  assert.deepEqual(
    turn.asked.map(({ tool }) => tool?.call_id),
    ['a'],
  );
  assert.deepEqual(toolbox.called, ['a']);
  assert.deepEqual(inShort(turn.deeds), ['done 1 a ok', 'results 1 a', 'answer done'], 'it is not started twice');
});

test('a call that was allowed may have begun; one that was denied did not', async () => {
  const allowed = await goOn([prompt, round(['a'])], [approval('a', 'allowed')]);
  assert.deepEqual(allowed.toolbox.called, []);
  assert.match(String(allowed.turn.deedsOf('done')[0]?.done.error), /^interrupted by a restart/);
  const denied = await goOn([prompt, round(['a'])], [approval('a', 'denied')]);
  assert.deepEqual(denied.toolbox.called, []);
  assert.equal((denied.turn.deedsOf('done')[0]!.done.result as { status: string }).status, 'denied');
});

test('one after the other: results are kept, the call under way is lost, those behind it were never begun and run', async () => {
  const { turn, toolbox } = await goOn([prompt, round(['a', 'b', 'c']), result('a')]);
  assert.deepEqual(toolbox.called, ['c']);
  assert.deepEqual(inShort(turn.deeds), [
    'done 1 b failed',
    'started 1 work c',
    'done 1 c ok',
    'results 1 a b c',
    'answer done',
  ]);
});

test('all at once: every call without a result and without a waiting approval may have begun', async () => {
  const { turn, toolbox } = await goOn([prompt, round(['a', 'b', 'c'], true), result('b')], [approval('c', 'pending')]);
  assert.deepEqual(toolbox.called, ['c']);
  assert.deepEqual(
    turn.deedsOf('done').map(({ done }) => [done.callId, done.ok]),
    [
      ['a', false],
      ['c', true],
    ],
  );
});

test('a round whose calls all have results is not reported again; the model simply continues', async () => {
  const { turn, model } = await goOn([prompt, round(['a']), result('a')]);
  assert.deepEqual(inShort(turn.deeds), ['answer done']);
  assert.equal(model.requests[0]?.round, 2);
});

test('a turn whose model had finished ends at once', async () => {
  const { turn, model, outcome } = await goOn([prompt, { role: 'assistant', turn: turnId, text: 'all done' }]);
  assert.deepEqual(outcome, { stopReason: 'end_turn' });
  assert.equal(model.requests.length, 0);
  assert.deepEqual(turn.deeds, []);
});

test('a turn that had not begun to speak begins with its first round; rounds of earlier turns do not count', async () => {
  const earlier: HistoryItem[] = [
    { role: 'user', turn: 'turn-0', text: 'before' },
    { role: 'assistant', turn: 'turn-0', text: 'said' },
  ];
  const { model } = await goOn([...earlier, prompt]);
  assert.equal(model.requests[0]?.round, 1);
});

test('the rounds before the restart count towards the most there may be', async () => {
  const log = new FakeSessionLog({ history: [prompt, round(['a']), result('a'), round(['b'])] });
  const turn = new FakeTurn({ log, continued: true, settings: { maxRounds: 2 } });
  const model = scriptedModel();
  assert.deepEqual(await runRounds(turn, model, toolboxOf({ work: () => 1 })), { stopReason: 'max_rounds' });
});

test('an approval asked for before a kill is the same request afterwards: answering it once runs the call once', async () => {
  const before = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const first = new FakeTurn({ log: before });
  first.ask = (request) => broker.ask(before, turnId, request, first.signal);
  const toolbox = toolboxOf({ work: () => 'worked' }, { risks: ['writes'] });
  const asked = Promise.withResolvers<void>();
  before.onEvent = ({ type }) => type === 'approval.requested' && asked.resolve();
  const lost = runRounds(
    first,
    scriptedModel([{ type: 'call', callId: 'a', name: 'work', input: {} }]),
    withApprovals(toolbox, first),
  );
  await asked.promise;

  // Killed here: the record survives, nothing else does.
  const after = before.reopened();
  const newDesk = new ApprovalBroker();
  newDesk.restore(after);
  const second = new FakeTurn({ log: after, continued: true });
  second.ask = (request) => newDesk.ask(after, turnId, request, second.signal);
  const run = runRounds(second, scriptedModel([say('done')]), withApprovals(toolbox, second));
  const { id } = after.record.approvals[0]!;
  newDesk.answer(after, id, { decision: 'allow', remember: 'once' }, 'somebody');
  assert.deepEqual(await run, { stopReason: 'end_turn' });
  assert.deepEqual(toolbox.called, ['a']);
  assert.equal(after.of('approval.requested').length, 0, 'no user was asked twice');
  first.interrupt();
  await lost;
});

test('a question that was answered in the moment of a kill is not asked again', async () => {
  const log = new FakeSessionLog({
    history: [
      prompt,
      {
        role: 'assistant',
        turn: turnId,
        text: '',
        calls: [{ callId: 'q', name: 'ask_user', input: { question: 'Which?' } }],
      },
    ],
  });
  const tool = { name: 'ask_user', input: { question: 'Which?' }, call_id: 'q' };
  const answer = { decision: 'allow', remember: 'once', content: { answer: 'the left one' } } as const;
  log.record.approvals = [{ ...approval('q', 'allowed'), kind: 'question', title: 'Which?', tool, answer }];
  const broker = new ApprovalBroker();
  const turn = new FakeTurn({ log, continued: true });
  turn.ask = (request) => broker.ask(log, turnId, request, turn.signal);
  await runRounds(turn, scriptedModel([say('left then')]), withQuestions(toolboxOf({}), turn));
  assert.deepEqual(turn.deedsOf('done')[0]?.done.result, { answer: 'the left one' });
  assert.equal(log.of('approval.requested').length, 0);
});

test('a turn that is started again in the same process continues to count its rounds and call ids', async () => {
  const log = new FakeSessionLog({
    history: [prompt, round(['a']), result('a'), { role: 'assistant', turn: turnId, text: 'half' }],
  });
  const turn = new FakeTurn({ log, continued: true });
  const again = Object.assign(turn, { continued: false });
  const model = scriptedModel([{ type: 'call', callId: 'a', name: 'work', input: {} }], [say('done')]);
  await runRounds(again, model, toolboxOf({ work: () => 1 }));
  assert.deepEqual(inShort(turn.deeds), ['started 3 work a_2', 'done 3 a_2 ok', 'results 3 a_2', 'answer done']);
});
