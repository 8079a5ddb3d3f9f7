/** The state machine of turns, checked over random histories, restarts and closings included. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Steer } from '../../../../src/control/contract/session-log.ts';
import {
  step,
  type TurnEffect,
  type TurnInput,
  type TurnState,
} from '../../../../src/control/sessions/turns/turn-machine.ts';
import fc from '../../../support/properties.ts';

const LIMITS = { queueLength: 3 };
const IDLE: TurnState = { phase: 'idle', turn: null, queue: [], steers: [], steered: 0, held: false, closing: null };

const steerOf = (id: string, whenLate: Steer['whenLate'] = 'report'): Steer => ({ id, text: `text ${id}`, whenLate });

function run(state: TurnState, ...inputs: readonly TurnInput[]): { state: TurnState; effects: TurnEffect[] } {
  const effects: TurnEffect[] = [];
  for (const input of inputs) {
    const next = step(state, input, LIMITS);
    state = next.state;
    effects.push(...next.effects);
  }
  return { state, effects };
}

const send = (turnId: string, enqueue = true): TurnInput => ({ type: 'send', turnId, enqueue });
const ended = (turnId: string): TurnInput => ({ type: 'ended', turnId });

/** The view from outside of the machine: checks every effect as it comes. */
class World {
  state: TurnState = IDLE;
  readonly ends = new Map<string, number>();
  running: string | null = null;
  #ids = 0;
  /** Inputs for turns that are not settled. */
  readonly said = new Set<string>();

  feed(input: TurnInput): readonly TurnEffect[] {
    const { state, effects } = step(this.state, input, LIMITS);
    this.state = state;
    for (const effect of effects) this.#saw(effect, input);
    // The machine's own state must agree with the inputs that the world saw it take.
    assert.equal(this.state.turn, this.running);
    assert.ok(this.state.steered <= this.state.queue.length);
    assert.ok(this.state.queue.length <= LIMITS.queueLength + LIMITS.queueLength);
    if (this.state.phase === 'idle' && !this.state.held && this.state.closing === null) {
      assert.deepEqual(this.state.queue, [], 'nothing waits while nothing runs');
    }
    return effects;
  }

  issue(): string {
    this.#ids += 1;
    return `t${this.#ids}`;
  }

  #saw(effect: TurnEffect, input: TurnInput): void {
    switch (effect.do) {
      case 'start':
        assert.equal(this.running, null, 'two turns never run at once');
        this.running = effect.turnId;
        if (!this.ends.has(effect.turnId)) this.ends.set(effect.turnId, 0);
        if (effect.steer !== undefined) this.said.delete(effect.steer.id);
        break;
      case 'continue':
        assert.equal(this.running, effect.turnId);
        break;
      case 'queue':
        assert.ok(!this.ends.has(effect.turnId));
        this.ends.set(effect.turnId, 0);
        if (effect.steer !== undefined) this.said.delete(effect.steer.id);
        break;
      case 'end':
        assert.equal(this.running, effect.turnId);
        this.running = null;
        this.ends.set(effect.turnId, this.ends.get(effect.turnId)! + 1);
        break;
      case 'drop':
        assert.notEqual(this.running, effect.turnId);
        this.ends.set(effect.turnId, this.ends.get(effect.turnId)! + 1);
        break;
      case 'store_steer':
        this.said.add(effect.steer.id);
        break;
      case 'return_steers':
        for (const { id } of effect.steers) assert.ok(this.said.delete(id), 'only what was kept is given back');
        break;
      case 'close':
        assert.equal(this.running, null);
        assert.ok(input.type !== 'send');
        break;
    }
    for (const [turnId, count] of this.ends) assert.ok(count <= 1, `${turnId} ended ${count} times`);
  }
}

/** One thing that can happen; which turn it is about is decided when it happens. */
const happening = fc.oneof(
  { weight: 6, arbitrary: fc.record({ type: fc.constant('send'), enqueue: fc.boolean() }) },
  { weight: 6, arbitrary: fc.constant({ type: 'ended' }) },
  { weight: 2, arbitrary: fc.constant({ type: 'late_end' }) },
  {
    weight: 4,
    arbitrary: fc.record({
      type: fc.constant('steer'),
      whenLate: fc.constantFrom('report', 'queue'),
      expected: fc.constantFrom('none', 'running', 'other'),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ type: 'take_steers' }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constant('interrupt'), other: fc.boolean() }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant('remove'), at: fc.nat(3) }) },
  { weight: 1, arbitrary: fc.constant({ type: 'clear_queue' }) },
  { weight: 2, arbitrary: fc.constantFrom({ type: 'hold' }, { type: 'release' }) },
  { weight: 1, arbitrary: fc.constantFrom({ type: 'close', why: 'closed' }, { type: 'close', why: 'shutdown' }) },
  { weight: 1, arbitrary: fc.constant({ type: 'reopen' }) },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('restart'), continues: fc.boolean() }) },
) as fc.Arbitrary<Record<string, unknown> & { type: string }>;

function happen(world: World, what: Record<string, unknown> & { type: string }): void {
  const { state } = world;
  switch (what.type) {
    case 'send': {
      const turnId = world.issue();
      const [effect] = world.feed({ type: 'send', turnId, enqueue: what.enqueue as boolean });
      assert.ok(effect !== undefined, 'a prompt is started, queued or refused');
      break;
    }
    case 'ended':
      if (state.turn !== null) world.feed(ended(state.turn));
      break;
    case 'late_end':
      assert.deepEqual(world.feed(ended('a turn of old')), [], 'what comes late is not heard');
      break;
    case 'steer': {
      const before = state;
      const id = world.issue();
      const expectedTurn = { none: undefined, running: state.turn ?? undefined, other: 'other' }[
        what.expected as string
      ];
      const effects = world.feed({ type: 'steer', steer: steerOf(id, what.whenLate as 'queue'), expectedTurn });
      const answer = effects.find((effect) => effect.do === 'settle_steer')!;
      if (answer.outcome === 'injected') assert.equal(answer.turnId, before.turn);
      if (answer.outcome === 'rejected') assert.deepEqual(world.state, before, 'what is rejected leaves no trace');
      if (answer.outcome === 'queued' || answer.outcome === 'started') assert.equal(answer.turnId, id);
      break;
    }
    case 'take_steers':
      // The backend was handed them: the fold takes them out.
      for (const { id } of state.steers) world.said.delete(id);
      world.state = { ...state, steers: [] };
      break;
    case 'interrupt': {
      const turnId = what.other ? 'other' : undefined;
      const effects = world.feed({ type: 'interrupt', stopReason: 'interrupted', turnId });
      const could = !what.other && state.phase === 'running' && state.turn !== null;
      assert.equal(effects.length, could ? 1 : 0);
      break;
    }
    case 'remove':
      world.feed({ type: 'remove', turnId: state.queue[what.at as number] ?? 'none', stopReason: 'cleared' });
      break;
    case 'clear_queue':
      world.feed({ type: 'clear_queue', stopReason: 'cleared' });
      assert.deepEqual(world.state.queue, []);
      break;
    case 'restart': {
      // Of a process that was killed nothing is left but the record.
      world.state = { ...state, steered: 0, held: false, closing: null };
      world.feed({ type: 'restart', continues: what.continues as boolean });
      break;
    }
    default:
      world.feed(what as TurnInput);
  }
}

describe('turn machine', () => {
  test('weakness 4: every turn id ends exactly once, and no two turns run at once, for any inputs', () => {
    fc.assert(
      fc.property(fc.array(happening, { maxLength: 60 }), (history) => {
        const world = new World();
        for (const what of history) happen(world, what);
        // In the end everything is let run out.
        world.feed({ type: 'release' });
        world.feed({ type: 'close', why: 'closed' });
        if (world.state.turn !== null) world.feed(ended(world.state.turn));
        assert.equal(world.running, null);
        for (const [turnId, count] of world.ends) assert.equal(count, 1, `${turnId} ended ${count} times`);
        assert.equal(world.said.size, 0, 'every steer was handed over, became a turn, or was given back');
      }),
      { numRuns: 3000 },
    );
  });

  test('the queue continues in order when a turn ends, however it ends', () => {
    const { state } = run(IDLE, send('a'), send('b'), send('c'));
    assert.deepEqual([state.turn, state.queue], ['a', ['b', 'c']]);
    const interrupted = run(state, { type: 'interrupt', stopReason: 'interrupted' }, ended('a'));
    assert.deepEqual(interrupted.effects, [
      { do: 'abort', turnId: 'a', stopReason: 'interrupted' },
      { do: 'end', turnId: 'a' },
      { do: 'start', turnId: 'b' },
    ]);
  });

  test('a second interrupt, and one of another turn, does nothing', () => {
    const { state } = run(IDLE, send('a'), { type: 'interrupt', stopReason: 'interrupted' });
    assert.equal(state.phase, 'interrupting');
    assert.deepEqual(run(state, { type: 'interrupt', stopReason: 'timeout' }).effects, []);
    const other = run(IDLE, send('a'), { type: 'interrupt', stopReason: 'interrupted', turnId: 'b' });
    assert.equal(other.state.phase, 'running');
  });

  test('a busy session refuses a prompt that will not wait, and a full queue one that would', () => {
    const busy = run(IDLE, send('a'), send('b', false));
    assert.deepEqual(busy.effects.at(-1), { do: 'refuse', code: 'session_busy' });
    const full = run(IDLE, send('a'), send('b'), send('c'), send('d'), send('e'));
    assert.deepEqual(full.effects.at(-1), { do: 'refuse', code: 'over_capacity' });
    assert.deepEqual(full.state.queue, ['b', 'c', 'd']);
  });

  test('a late steer is the next turn when it wants to be, and is given back when not', () => {
    const { state } = run(
      IDLE,
      send('a'),
      send('b'),
      { type: 'steer', steer: steerOf('s1', 'queue') },
      { type: 'steer', steer: steerOf('s2') },
    );
    const { effects, state: after } = run(state, ended('a'));
    assert.deepEqual(
      effects.map((effect) => effect.do),
      ['end', 'return_steers', 'queue', 'start'],
    );
    assert.deepEqual([after.turn, after.queue], ['s1', ['b']]);
  });

  test('late steers run in their order before the prompts that wait', () => {
    const { state } = run(
      IDLE,
      send('a'),
      send('b'),
      { type: 'steer', steer: steerOf('s1', 'queue') },
      { type: 'steer', steer: steerOf('s2', 'queue') },
    );
    const { effects, state: after } = run(state, ended('a'));
    assert.deepEqual(effects.slice(1), [
      { do: 'queue', turnId: 's1', position: 0, steer: steerOf('s1', 'queue') },
      { do: 'queue', turnId: 's2', position: 1, steer: steerOf('s2', 'queue') },
      { do: 'start', turnId: 's1' },
    ]);
    assert.deepEqual(after.queue, ['s2', 'b']);
  });

  test('a steer for a turn that is being interrupted runs next, before the prompts that wait', () => {
    const ending = run(IDLE, send('a'), send('b'), send('c'), { type: 'interrupt', stopReason: 'interrupted' });
    const steered = run(ending.state, { type: 'steer', steer: steerOf('s1', 'queue'), expectedTurn: 'a' });
    assert.deepEqual(steered.effects, [
      { do: 'queue', turnId: 's1', position: 0, steer: steerOf('s1', 'queue') },
      { do: 'settle_steer', outcome: 'queued', turnId: 's1' },
    ]);
    const { effects, state } = run(steered.state, ended('a'));
    assert.deepEqual(effects.at(-1), { do: 'start', turnId: 's1' });
    assert.deepEqual(state.queue, ['b', 'c']);
  });

  test('several steers for a turn that is being interrupted run in their order, also when one of them is removed', () => {
    const late = (id: string): TurnInput => ({ type: 'steer', steer: steerOf(id, 'queue') });
    const early = run(IDLE, send('a'), send('b'), late('s0'), { type: 'interrupt', stopReason: 'interrupted' });
    const steered = run(early.state, late('s1'), { type: 'remove', turnId: 's1', stopReason: 'cleared' }, late('s2'));
    assert.deepEqual(steered.state.queue, ['s2', 'b']);
    const more = step(steered.state, late('s3'), LIMITS);
    assert.deepEqual(more.effects, [
      { do: 'queue', turnId: 's3', position: 1, steer: steerOf('s3', 'queue') },
      { do: 'settle_steer', outcome: 'queued', turnId: 's3' },
    ]);
    const { state } = run({ ...more.state, held: true }, ended('a'));
    assert.deepEqual(state.queue, ['s2', 's3', 'b'], 'the queue was full, and s0 was returned');
  });

  test('a steer for the turn of a steer runs before the steers and prompts that wait', () => {
    const interrupt: TurnInput = { type: 'interrupt', stopReason: 'interrupted' };
    const late = (id: string): TurnInput => ({ type: 'steer', steer: steerOf(id, 'queue') });
    const { state } = run(IDLE, send('a'), interrupt, late('s1'), late('s2'), ended('a'), interrupt, late('s3'));
    assert.deepEqual([state.turn, state.queue], ['s1', ['s3', 's2']]);
  });

  test('a steer that comes while the session is held runs first when it is released', () => {
    const held = run(IDLE, { type: 'hold' }, send('b'), { type: 'steer', steer: steerOf('s1', 'queue') });
    assert.deepEqual(held.state.queue, ['s1', 'b']);
    const { effects, state } = run(held.state, { type: 'release' });
    assert.deepEqual(effects, [{ do: 'start', turnId: 's1' }]);
    assert.deepEqual(state.queue, ['b']);
  });

  test('a restart ends what ran, or continues it, and then the queue', () => {
    const { state } = run(IDLE, send('a'), send('b'));
    const ending = run(state, { type: 'restart', continues: false });
    assert.deepEqual(ending.effects, [
      { do: 'end', turnId: 'a', restart: true },
      { do: 'start', turnId: 'b' },
    ]);
    const going = run(state, { type: 'restart', continues: true });
    assert.deepEqual(going.effects, [{ do: 'continue', turnId: 'a' }]);
    assert.deepEqual(going.state.queue, ['b']);
  });

  test('closing drops what waits, ends what runs, and takes nothing in until it is opened again', () => {
    const { state, effects } = run(IDLE, send('a'), send('b'), { type: 'close', why: 'closed' }, send('c'));
    assert.deepEqual(effects.slice(2), [
      { do: 'drop', turnId: 'b', stopReason: 'closed' },
      { do: 'abort', turnId: 'a', stopReason: 'closed' },
      { do: 'refuse', code: 'session_closed' },
    ]);
    const closed = run(state, ended('a'));
    assert.deepEqual(closed.effects.at(-1), { do: 'close' });
    assert.equal(closed.state.phase, 'closed');
    const opened = run(closed.state, { type: 'reopen' }, send('d'));
    assert.deepEqual(opened.effects.at(-1), { do: 'start', turnId: 'd' });
  });
});
