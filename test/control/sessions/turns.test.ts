/**
 * Turns end to end: their events, the order of these, and the stored data.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  queueClear,
  queueList,
  queueRemove,
  sessionGet,
  sessionInterrupt,
  sessionMessages,
  sessionSend,
  sessionSteer,
  sessionTurns,
} from '../../../src/protocol/session-rpc.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { Harness, inShort, isTerminal, type SeenEvent } from './harness.ts';

const rejectsWith = (code: string, message?: string) => (error: { code?: string; message?: string }) => {
  assert.equal(error.code, code);
  if (message !== undefined) assert.equal(error.message, message);
  return true;
};

const isStatus = (label: string) => (event: SeenEvent) => event.payload.status_label === label;

/** Returns terminal events by turn id. */
function ends(harness: Harness, session: string): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const event of harness.events(session).filter(isTerminal)) {
    const { turn_id, stop_reason } = event.payload;
    found.set(turn_id, [...(found.get(turn_id) ?? []), stop_reason]);
  }
  return found;
}

describe('a turn', () => {
  test('tells what happens in the order of the protocol, with what ended it', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script(
      { thought: 'Plan first', text: 'Let me look.', tool_calls: [tool('c1', 'echo hi')] },
      { text: 'Done.' },
    );
    const turnId = await harness.turn(id, '  hello  ');
    const { payload } = await harness.ended(turnId);
    assert.deepEqual(inShort(harness.events(id)), [
      'session.created',
      'session.turn.started',
      'session.renamed',
      'status preparing...',
      'status thinking...',
      'user hello',
      'status thinking: plan first',
      'chunk thought Plan first',
      'status drafting response...',
      'chunk answer Let me look.',
      'started c1',
      'done c1 true',
      'results 1',
      'chunk answer Done.',
      'assistant Let me look.Done.',
      'completed end_turn',
      'status ready',
    ]);
    assert.equal(payload.answer_length, 17);
    assert.equal(typeof payload.duration_ms, 'number');
    assert.equal(payload.usage.total_tokens, 0);
    const ready = harness.events(id).at(-1)!.payload;
    assert.deepEqual([ready.turn_id, ready.detail], [undefined, { turn_id: turnId, stop_reason: 'end_turn' }]);
  });

  test('an empty answer is said to be one', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({});
    const { payload } = await harness.ended(await harness.send(id, 'say nothing'));
    assert.equal(payload.answer_length, '(No response text returned)'.length);
    const { messages, history } = await harness.call(sessionGet, { session_id: id });
    assert.equal(messages.at(-1)?.text, '(No response text returned)');
    assert.equal(history.at(-1)?.text, '(No response text returned)');
  });

  test('weakness 19: a delta is one event of its own size, a status only where the label changes', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const thoughts = ['**Weigh', 'ing** op', 'tions\nmore', '\n**Next', ' step** x'];
    harness.backend.script({ thoughts, pieces: ['one ', 'two ', 'three'] });
    await harness.turn(id, 'think');
    const told = inShort(harness.events(id)).filter((line) => /^(status|chunk)/.test(line));
    assert.deepEqual(told.slice(2), [
      'chunk thought **Weigh',
      'status thinking: weighing',
      'chunk thought ing** op',
      'chunk thought tions\nmore',
      'chunk thought \n**Next',
      'status thinking: next step',
      'chunk thought  step** x',
      'status drafting response...',
      'chunk answer one ',
      'chunk answer two ',
      'chunk answer three',
      'status ready',
    ]);
    const chunks = harness.events(id).filter(({ type }) => type === 'session.stream.chunk');
    assert.deepEqual(chunks[2]?.payload.chunk, {
      thoughts: ['tions\nmore'],
      answerText: '',
      segments: [{ kind: 'thought', text: 'tions\nmore' }],
    });
  });

  test('weakness 7: a prompt that failed before any model was asked is kept, and known to the next turn', async () => {
    let configured = false;
    await using harness = await Harness.start({ backend: scriptedBackend({ isConfigured: () => configured }) });
    const id = await harness.create();
    const turnId = await harness.send(id, 'do the thing');
    // Before the answer: all of it has been told.
    assert.deepEqual(inShort(harness.events(id)).slice(3), [
      'status preparing...',
      'user do the thing',
      'system select a model from an enabled provider first',
      'error error',
      'status ready',
    ]);
    const { payload } = await harness.ended(turnId);
    assert.deepEqual([payload.kind, payload.retryable, payload.stop_reason], ['not_configured', false, 'error']);
    const paged = await harness.call(sessionMessages, { session_id: id });
    assert.deepEqual(
      paged.messages.map(({ kind, text, unsent }) => [kind, text, unsent]),
      [
        ['user', 'do the thing', true],
        ['system', 'select a model from an enabled provider first', undefined],
      ],
    );
    const { turns } = await harness.call(sessionTurns, { session_id: id });
    assert.deepEqual([turns[0]?.prompt, turns[0]?.stop_reason], ['do the thing', 'error']);
    // As 1.0.0 tells it, such a turn leaves only system lines.
    const state = await harness.call(sessionGet, { session_id: id });
    assert.deepEqual([state.messages.length, state.history.length], [1, 0]);
    configured = true;
    harness.backend.script({ text: 'Done.' });
    await harness.turn(id, 'go on');
    assert.deepEqual(
      harness.backend.requests[0]?.history.map((item) => item.role === 'user' && item.text),
      ['do the thing', 'go on'],
    );
  });

  test('weakness 7: a prompt whose image cannot be read is kept too, its turn fails and not the call', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    await harness.send(id, 'look', { images: [{ path: '/no/such/file.png' }] });
    const told = inShort(harness.events(id));
    assert.ok(told.includes('user look'));
    assert.ok(told.includes('system inference error: file not found: /no/such/file.png'));
    const error = harness.events(id).find(({ type }) => type === 'session.error');
    assert.equal(error?.payload.message, 'file not found: /no/such/file.png');
  });

  test('weakness 7: after a failure of the provider the prompt and what was answered stay in the history', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ text: 'Half an ', tool_calls: [tool('c1', 'true')] }, { error: 'the wire broke' });
    const { payload } = await harness.ended(await harness.send(id, 'please'));
    assert.deepEqual([payload.message, payload.kind], ['the wire broke', 'provider_error']);
    const { messages, history } = await harness.call(sessionGet, { session_id: id });
    assert.deepEqual(
      messages.map(({ text }) => text),
      ['please', 'Half an ', 'inference error: the wire broke'],
    );
    assert.deepEqual(history, [
      { role: 'user', text: 'please' },
      { role: 'assistant', text: 'Half an ' },
    ]);
  });

  test('weakness 10: what tools did stays in the history that later turns are given', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ tool_calls: [tool('c1', 'echo found')] }, { text: 'I looked.' }, { text: 'Again.' });
    await harness.turn(id, 'look');
    await harness.turn(id, 'and now');
    const items = harness.backend.requests[2]?.history.map((item) => item.role);
    assert.deepEqual(items, ['user', 'assistant', 'tool', 'assistant', 'user']);
  });

  test('weakness 20: waits and retries of a backend are reported, with numbers for machines', async () => {
    const backend = scriptedBackend({
      tools: { noop: () => null },
    });
    const { run } = backend;
    backend.run = (turn) => {
      turn.status('capacity unavailable; retrying (2/8)...', {
        retry: { attempt: 2, max_attempts: 8, delay_ms: 1250 },
      });
      return run(turn);
    };
    await using harness = await Harness.start({ backend });
    const id = await harness.create();
    backend.script({ text: 'ok' });
    const turn_id = await harness.turn(id, 'try');
    const status = harness.events(id).find(isStatus('capacity unavailable; retrying (2/8)...'));
    assert.deepEqual(status?.payload.detail, { retry: { attempt: 2, max_attempts: 8, delay_ms: 1250 }, turn_id });
  });

  test('weakness 4: a context that overflows is compressed, and the turn continues under its id', async () => {
    let compacted = 0;
    const backend = scriptedBackend({
      compact: async ({ log }, reason) => {
        const had = log.record.history.length;
        const is = backend.requests.length > 0 && compacted === 0;
        if (is) {
          compacted += 1;
          const kept = log.record.history.filter((item) => item.turn === log.record.turn?.id);
          log.remember([{ role: 'assistant', turn: '', text: '## Conversation Summary' }, ...kept], 'replace');
        }
        return {
          compressed: is,
          reason,
          estimated_tokens_before: had,
          estimated_tokens_after: 1,
          model_context_window: 1,
          target_limit: 1,
          anchor_event_index_before: 0,
          anchor_event_index_after: 0,
        };
      },
    });
    await using harness = await Harness.start({ backend });
    const id = await harness.create();
    backend.script({ tool_calls: [tool('c1', 'true')] }, { overflow: true }, { text: 'It fits now.' });
    const turnId = await harness.turn(id, 'a long one');
    assert.deepEqual(ends(harness, id), new Map([[turnId, ['end_turn']]]));
    assert.ok(inShort(harness.events(id)).includes('status compressing context...'));
    assert.equal(backend.turns.length, 2);
    assert.deepEqual(
      backend.requests[2]?.history.map(({ role }) => role),
      ['assistant', 'user', 'assistant', 'tool'],
    );
  });

  test('an overflow that compressing does not cure is an error, not a loop', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ overflow: true }, { text: 'never' });
    const { payload } = await harness.ended(await harness.send(id, 'too long'));
    assert.deepEqual([payload.stop_reason, payload.message], ['error', 'the context is too long']);
  });

  test('says which skills a prompt named, before its model is asked', async () => {
    await using harness = await Harness.start({ skillsFor: async () => [{ name: 'review' }, { name: 'ship' }] });
    const id = await harness.create();
    harness.backend.script({ text: 'ok' });
    await harness.turn(id, 'do $review and $ship');
    assert.deepEqual(inShort(harness.events(id)).slice(3, 6), [
      'status preparing...',
      'system skills applied: review, ship',
      'status thinking...',
    ]);
  });

  test('with thinking off the first label says that it drafts', async () => {
    await using harness = await Harness.start({ defaults: { thinking: 'OFF' } });
    const id = await harness.create();
    harness.backend.script({ text: 'ok' });
    const turnId = await harness.turn(id, 'quick');
    const statuses = harness.events(id).filter(isStatus('drafting response...'));
    assert.deepEqual(
      statuses.map(({ payload }) => payload.turn_id),
      [turnId],
    );
  });
});

describe('an interrupt', () => {
  test('weakness 3: while the model is waited for, it is an interrupt and no error, and the prompt stays', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000, text: 'never' });
    const turnId = await harness.send(id, 'wait');
    const answer = await harness.call(sessionInterrupt, { session_id: id });
    assert.deepEqual(answer, { session_id: id, interrupted: true, turn_id: turnId });
    const { type, payload } = await harness.ended(turnId);
    assert.deepEqual(
      [type, payload.stop_reason, payload.partial_output],
      ['session.interrupted', 'interrupted', false],
    );
    const state = await harness.call(sessionGet, { session_id: id });
    assert.deepEqual(state.history, [{ role: 'user', text: 'wait' }]);
    assert.equal(state.messages.at(-1)?.text, 'response interrupted by user.');
    assert.equal((await harness.call(sessionInterrupt, { session_id: id })).interrupted, false);
  });

  test('keeps what was answered, ends the tool, and continues with the queue', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ text: 'working.', tool_calls: [tool('c1', 'sleep 30')] }, { text: 'next' });
    const first = await harness.send(id, 'stop me');
    await harness.event(({ type }) => type === 'session.tool.call.started');
    const second = await harness.send(id, 'then this', { enqueue: true });
    await harness.call(sessionInterrupt, { session_id: id, turn_id: first });
    await harness.ended(second);
    const told = inShort(harness.events(id));
    assert.deepEqual(told.slice(told.indexOf('status interrupting...'), told.indexOf('status interrupting...') + 9), [
      'status interrupting...',
      'done c1 false',
      'results 1',
      'assistant working.',
      'system response interrupted by user. partial output kept.',
      'interrupted interrupted',
      'status ready',
      'session.turn.started',
      'status preparing...',
    ]);
    assert.deepEqual(ends(harness, id).get(second), ['end_turn']);
  });

  test('of another turn than the running one does nothing', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    const turnId = await harness.send(id, 'wait');
    assert.equal((await harness.call(sessionInterrupt, { session_id: id, turn_id: 'other' })).interrupted, false);
    await harness.call(sessionInterrupt, { session_id: id, turn_id: turnId });
    await harness.ended(turnId);
  });

  test('a backend that does not hear it is given up, and what it says later is not heard', async () => {
    const backend = scriptedBackend();
    backend.run = (turn) => {
      turn.answer('begun ');
      turn.toolStarted(1, { name: 'bash', input: {}, providerToolName: 'bash', callId: 'c1' });
      later = () => {
        turn.answer('too late');
        turn.log.emit('session.plan', { entries: [] });
        turn.log.remember([{ role: 'assistant', turn: turn.id, text: 'too late' }]);
        turn.log.appendMessage('system', 'too late');
        turn.status('too late');
        return turn.ask({ kind: 'question', title: 'too late', risks: [] });
      };
      return new Promise(() => {});
    };
    let later: () => Promise<unknown> = async () => {};
    await using harness = await Harness.start({ backend, limits: { interruptGraceMs: 20 } });
    const id = await harness.create();
    const turnId = await harness.send(id, 'hang');
    await harness.event(({ type }) => type === 'session.tool.call.started');
    await harness.call(sessionInterrupt, { session_id: id });
    const { payload } = await harness.ended(turnId);
    assert.equal(payload.partial_output, true);
    const told = inShort(harness.events(id));
    assert.ok(told.includes('done c1 false'), 'a call that was left open is ended');
    const { seq } = harness.sessions.open(id).record;
    const approval = (await later()) as { state: string };
    assert.equal(approval.state, 'cancelled');
    assert.equal(harness.sessions.open(id).record.seq, seq);
  });

  test('weakness 14: a turn that takes too long is ended, and says so', async () => {
    await using harness = await Harness.start({ limits: { turnTimeoutMs: 30 } });
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    const { payload } = await harness.ended(await harness.send(id, 'wait'));
    assert.equal(payload.stop_reason, 'timeout');
    const { messages } = await harness.call(sessionGet, { session_id: id });
    assert.equal(messages.at(-1)?.text, 'response interrupted by its time limit.');
  });

  test('the time the user takes to answer is not the time of the turn, and his place is free meanwhile', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    const backend = scriptedBackend({ asks: true });
    await using harness = await Harness.start({ backend, limits: { turnTimeoutMs: 60_000, turns: 1 } });
    const id = await harness.create();
    backend.script({ tool_calls: [tool('c1', 'echo hi')] });
    const turnId = await harness.send(id, 'ask me');
    const { payload } = await harness.event(({ type }) => type === 'approval.requested');
    // Another session has its turn while this one waits, and longer than a turn may take goes by.
    const other = await harness.create();
    backend.script({ text: 'meanwhile' }, { text: 'allowed' });
    await harness.turn(other, 'first');
    t.mock.timers.tick(600_000);
    harness.broker.answer(
      harness.sessions.open(id),
      payload.approval.id,
      { decision: 'allow', remember: 'once' },
      'alice',
    );
    assert.equal((await harness.ended(turnId)).payload.stop_reason, 'end_turn');
  });
});

describe('the queue', () => {
  test('runs prompts in order, each under the id it was given', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: '1' }, { text: '2' }, { text: '3' });
    const first = await harness.send(id, 'one');
    const sent = await harness.call(sessionSend, { session_id: id, text: ' two ', enqueue: true });
    assert.equal(sent.queued, true);
    const third = await harness.send(id, 'three', { enqueue: true });
    const { queue } = await harness.call(queueList, { session_id: id });
    assert.deepEqual(
      queue.map(({ id: turnId, text }) => [turnId, text]),
      [
        [sent.turn_id, 'two'],
        [third, 'three'],
      ],
    );
    const queued = harness.events(id).filter(isStatus('queued (2)'));
    assert.deepEqual([queued[0]?.payload.turn_id, queued[0]?.payload.detail], [undefined, { turn_id: third }]);
    gate.resolve();
    await harness.ended(third);
    assert.deepEqual([...ends(harness, id).keys()], [first, sent.turn_id, third]);
  });

  test('weakness 4: prompts that are dropped end too, each once', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: 'ok' });
    const first = await harness.send(id, 'one');
    const [a, b, c] = [
      await harness.send(id, 'a', { enqueue: true }),
      await harness.send(id, 'b', { enqueue: true }),
      await harness.send(id, 'c', { enqueue: true }),
    ];
    assert.deepEqual(await harness.call(queueRemove, { session_id: id, turn_id: b }), {
      session_id: id,
      removed: true,
    });
    assert.equal((await harness.call(queueRemove, { session_id: id, turn_id: b })).removed, false);
    assert.equal((await harness.call(queueClear, { session_id: id })).cleared_count, 2);
    gate.resolve();
    await harness.ended(first);
    assert.deepEqual(
      ends(harness, id),
      new Map([
        [b, ['cleared']],
        [a, ['cleared']],
        [c, ['cleared']],
        [first, ['end_turn']],
      ]),
    );
  });

  test('refuses what it has no room for, and a prompt that will not wait', async () => {
    await using harness = await Harness.start({ limits: { queueLength: 1 } });
    const id = await harness.create();
    harness.backend.script({ delay_ms: 60_000 });
    const turnId = await harness.send(id, 'one');
    await assert.rejects(
      harness.send(id, 'two'),
      rejectsWith('session_busy', 'session is busy; use enqueue=true to queue the prompt'),
    );
    await harness.send(id, 'two', { enqueue: true });
    await assert.rejects(harness.send(id, 'three', { enqueue: true }), rejectsWith('over_capacity'));
    await harness.call(queueClear, { session_id: id });
    await harness.call(sessionInterrupt, { session_id: id, turn_id: turnId });
    await harness.ended(turnId);
  });

  test('turns past the limit of the server wait in order, and say so', async () => {
    await using harness = await Harness.start({ limits: { turns: 1 } });
    const [one, two, three] = [await harness.create(), await harness.create(), await harness.create()];
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: '1' }, { text: '2' }, { text: '3' });
    await harness.send(one, 'one');
    const second = await harness.send(two, 'two');
    const third = await harness.send(three, 'three');
    assert.ok(inShort(harness.events(two)).includes('status waiting for other turns (1)...'));
    assert.ok(inShort(harness.events(three)).includes('status waiting for other turns (2)...'));
    gate.resolve();
    await harness.ended(third);
    const order = harness.published.filter(isTerminal).map(({ params }) => params.payload.turn_id);
    assert.deepEqual(order.slice(1), [second, third]);
  });

  test('a turn that waits for its place can be interrupted', async () => {
    await using harness = await Harness.start({ limits: { turns: 1 } });
    const [one, two] = [await harness.create(), await harness.create()];
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: '1' });
    const first = await harness.send(one, 'one');
    const second = await harness.send(two, 'two');
    await harness.call(sessionInterrupt, { session_id: two });
    await harness.ended(second);
    const { history } = await harness.call(sessionGet, { session_id: two });
    assert.deepEqual(history, [{ role: 'user', text: 'two' }]);
    gate.resolve();
    await harness.ended(first);
  });
});

describe('steering', () => {
  test('reaches the running turn before its next round, and is reported', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: 'a.', tool_calls: [tool('c1', 'true')] }, { text: 'left' });
    const turnId = await harness.send(id, 'go');
    const steered = await harness.call(sessionSteer, { session_id: id, text: ' go left ', expected_turn_id: turnId });
    assert.deepEqual([steered.accepted, steered.outcome, steered.turn_id], [true, 'injected', turnId]);
    gate.resolve();
    await harness.ended(turnId);
    const told = inShort(harness.events(id));
    assert.deepEqual(told.slice(told.indexOf('results 1'), told.indexOf('results 1') + 5), [
      'results 1',
      'session.steer.injected',
      'user go left',
      'status steer applied; continuing...',
      'status drafting response...',
    ]);
    const injected = harness.events(id).find(({ type }) => type === 'session.steer.injected');
    assert.deepEqual(injected?.payload.steer_ids, [steered.steer_id]);
  });

  test('weakness 6: what comes too late is given back with its text, or becomes the next turn', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: 'finished' }, { text: 'followed' });
    await harness.send(id, 'one round');
    const back = await harness.call(sessionSteer, { session_id: id, text: 'late' });
    const next = await harness.call(sessionSteer, { session_id: id, text: 'then this', when_late: 'queue' });
    gate.resolve();
    const { payload } = await harness.ended(next.steer_id!);
    assert.equal(payload.stop_reason, 'end_turn');
    const returned = harness.events(id).find(({ type }) => type === 'session.steer.returned');
    assert.deepEqual(returned?.payload.steers, [{ id: back.steer_id, text: 'late' }]);
    const told = inShort(harness.events(id));
    const ready = told.indexOf('status ready');
    assert.deepEqual(told.slice(ready, ready + 6), [
      'status ready',
      'session.steer.returned',
      'system 1 steer message(s) were queued too late and not applied.',
      'session.turn.queued',
      'status queued (1)',
      'session.turn.started',
    ]);
    assert.equal((await harness.call(sessionGet, { session_id: id })).pendingSteerCount, 0);
  });

  test('a late steer becomes the turn before the prompts that wait, while its turn ends and afterwards', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: 'one' }, { text: 'steered' }, { text: 'waited' });
    const first = await harness.send(id, 'first');
    const waiting = await harness.send(id, 'waits', { enqueue: true });
    const kept = await harness.call(sessionSteer, { session_id: id, text: 'said in time', when_late: 'queue' });
    await harness.call(sessionInterrupt, { session_id: id });
    const late = await harness.call(sessionSteer, { session_id: id, text: 'said late', when_late: 'queue' });
    assert.deepEqual([kept.outcome, late.outcome], ['injected', 'queued']);
    const { queue } = await harness.call(queueList, { session_id: id });
    assert.deepEqual(
      queue.map((item) => item.id),
      [late.steer_id, waiting],
    );
    gate.resolve();
    await harness.ended(waiting);
    const started = harness.events(id).filter(({ type }) => type === 'session.turn.started');
    assert.deepEqual(
      started.map(({ payload }) => payload.turn_id),
      [first, kept.steer_id, late.steer_id, waiting],
    );
  });

  test('several steers of a turn that is being interrupted run next, in the order in which they were sent', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const gate = Promise.withResolvers<void>();
    harness.backend.script({ after: gate.promise, text: 'one' }, { text: '1' }, { text: '2' }, { text: 'waited' });
    await harness.send(id, 'first');
    const waiting = await harness.send(id, 'waits', { enqueue: true });
    // At once: the turn ends soon.
    const interrupted = harness.call(sessionInterrupt, { session_id: id });
    const steers = ['not that', 'but this'].map((text) =>
      harness.call(sessionSteer, { session_id: id, text, when_late: 'queue' }),
    );
    await interrupted;
    for (const steer of steers) assert.equal((await steer).outcome, 'queued');
    gate.resolve();
    await harness.ended(waiting);
    const started = harness.events(id).filter(({ type }) => type === 'session.turn.started');
    assert.deepEqual(
      started.map(({ payload }) => payload.text),
      ['first', 'not that', 'but this', 'waits'],
    );
  });

  test('is rejected where no turn runs, or another one, and starts one where that was asked for', async () => {
    await using harness = await Harness.start();
    const id = await harness.create();
    const idle = await harness.call(sessionSteer, { session_id: id, text: 'x' });
    assert.deepEqual(idle, { session_id: id, accepted: false, outcome: 'rejected', turn_id: null });
    harness.backend.script({ text: 'started' });
    const started = await harness.call(sessionSteer, { session_id: id, text: 'go', when_late: 'queue' });
    assert.deepEqual([started.accepted, started.outcome], [true, 'started']);
    await harness.ended(started.turn_id!);
    const other = await harness.call(sessionSteer, { session_id: id, text: 'x', expected_turn_id: 'gone' });
    assert.equal(other.accepted, false);
  });
});

function tool(id: string, command: string) {
  return { id, name: 'bash', input: { command } };
}
