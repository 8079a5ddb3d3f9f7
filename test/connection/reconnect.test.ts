/** The one reconnect: attempts, delays, bound, states. Clock, network and dialect are the test's. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  type Opened,
  Reconnect,
  type ReconnectOptions,
  type StateChange,
  type Verdict,
} from '../../src/connection/reconnect.ts';
import type { Link } from '../../src/transport/link.ts';
import { fail, type HandfastError } from '../../src/wire/errors.ts';

const unreachable = () => fail('unreachable', 'nothing listens there');
const lost = () => fail('connection_lost', 'the link ended');

/** Returns a world in which dialling succeeds or fails as scripted, and time passes when a caller waits. */
function world(options: Partial<ReconnectOptions> & { boundMs?: () => number } = {}) {
  let nowMs = 0;
  const waits: number[] = [];
  const changes: StateChange[] = [];
  const destroyed: string[] = [];
  const ended: (HandfastError | undefined)[] = [];
  const script = {
    /** The outcome of the next attempts; the last one stays. */
    outcomes: [] as (HandfastError | 'ok')[],
    handshake: async () => 'terms',
    verdict: (() => 'retry') as (error: HandfastError) => Verdict,
    opened: undefined as Opened | undefined,
    onOpen: () => {},
    dials: 0,
  };
  const link = () => ({ transport: 'tcp', destroy: (reason: string) => destroyed.push(reason) }) as unknown as Link;
  const reconnect: Reconnect<string> = new Reconnect<string>(
    {
      async dial() {
        script.dials += 1;
        const outcome = script.outcomes.length > 1 ? script.outcomes.shift() : script.outcomes[0];
        if (outcome !== undefined && outcome !== 'ok') throw outcome;
        return link();
      },
      handshake: () => script.handshake(),
      open: () => {
        script.onOpen();
        return script.opened ?? { resumed: script.dials > 1 };
      },
      discard: () => {
        destroyed.push('discarded');
      },
      verdict: (error) => script.verdict(error),
      ended: (error) => {
        ended.push(error);
      },
      onState: (change) => {
        changes.push(change);
      },
    },
    {
      boundMs: () => 60_000,
      backoff: { firstDelayMs: 100, maxDelayMs: 1_000, random: () => 1 },
      livenessTimeoutMs: 0,
      now: () => nowMs,
      wait: async (ms) => {
        waits.push(ms);
        nowMs += ms;
        // Here no time passes between two attempts: without its bound it would dial for ever, and no test could fail.
        if (waits.length > 1_000) void reconnect.close(fail('timeout', 'it is still dialling'));
      },
      ...options,
    },
  );
  return {
    reconnect,
    script,
    waits,
    changes,
    destroyed,
    ended,
    pass: (ms: number) => {
      nowMs += ms;
    },
  };
}

const settle = () => new Promise(setImmediate);
const names = (changes: readonly StateChange[]) => changes.map(({ state }) => state);

test('a lost link is dialled again at once, then after delays that double up to their bound', async () => {
  const { reconnect, script, waits, changes } = world();
  await reconnect.connect();
  script.outcomes = [...Array.from({ length: 7 }, unreachable), 'ok'];
  reconnect.lost(lost());
  await reconnect.settled;
  await settle();
  assert.deepEqual(waits, [100, 200, 400, 800, 1_000, 1_000, 1_000]);
  assert.equal(script.dials, 9);
  assert.deepEqual(names(changes), ['open', ...Array.from({ length: 8 }, () => 'lost'), 'resumed']);
});

test('half of each delay is random', async () => {
  for (const [random, expected] of [
    [0, [50, 100, 200]],
    [0.5, [75, 150, 300]],
  ] as const) {
    const { reconnect, script, waits } = world({ backoff: { firstDelayMs: 100, random: () => random } });
    await reconnect.connect();
    script.outcomes = [unreachable(), unreachable(), unreachable(), 'ok'];
    reconnect.lost(lost());
    await reconnect.settled;
    assert.deepEqual(waits, expected);
  }
});

test('every attempt is an event with its number, the reason of the one before, and the time until it', async () => {
  const { reconnect, script, changes } = world();
  await reconnect.connect();
  script.outcomes = [unreachable(), 'ok'];
  reconnect.lost(lost());
  assert.equal(reconnect.state, 'lost');
  await reconnect.settled;
  await settle();
  assert.equal(reconnect.state, 'open');
  const told = changes.flatMap((change) =>
    change.state === 'lost' ? [[change.reason.code, change.attempt, change.retryInMs]] : [],
  );
  assert.deepEqual(told, [
    ['connection_lost', 1, 0],
    ['unreachable', 2, 100],
  ]);
});

test('when the bound is reached it ends with the reason of the loss', async () => {
  const { reconnect, script, waits, changes, ended } = world({ boundMs: () => 2_000 });
  await reconnect.connect();
  script.outcomes = [unreachable()];
  const reason = lost();
  reconnect.lost(reason);
  assert.equal(await reconnect.closed, reason);
  await settle();
  assert.deepEqual(waits, [100, 200, 400, 800], 'the next one would be past the bound');
  assert.deepEqual([reconnect.state, ended], ['closed', [reason]]);
  assert.deepEqual(changes.at(-1), { state: 'closed', error: reason });
});

test('a bound of 0 ends it without an attempt', async () => {
  const { reconnect, script } = world({ boundMs: () => 0 });
  await reconnect.connect();
  reconnect.lost(lost());
  assert.equal((await reconnect.closed)?.code, 'connection_lost');
  assert.equal(script.dials, 1);
});

test('an attempt that fails for good ends it with that error', async () => {
  const { reconnect, script } = world();
  script.verdict = ({ code }) => (code === 'auth_failed' ? 'stop' : 'retry');
  await reconnect.connect();
  script.outcomes = [unreachable(), fail('auth_failed', 'the token was refused')];
  reconnect.lost(lost());
  assert.equal((await reconnect.closed)?.code, 'auth_failed');
});

test('a refusal that stands is tried again after the longest delay only', async () => {
  const { reconnect, script, waits } = world();
  script.verdict = ({ code }) => (code === 'over_capacity' ? 'later' : 'retry');
  await reconnect.connect();
  script.outcomes = [fail('over_capacity', 'full'), fail('over_capacity', 'full'), 'ok'];
  reconnect.lost(lost());
  await reconnect.settled;
  assert.deepEqual(waits, [1_000, 1_000]);
});

test('a link that does not hold continues the delays, one that held starts them again', async () => {
  const { reconnect, script, waits, pass, changes } = world();
  await reconnect.connect();
  script.outcomes = ['ok'];
  for (let loss = 0; loss < 4; loss++) {
    reconnect.lost(lost());
    await reconnect.settled;
  }
  assert.deepEqual(waits, [100, 200, 400], 'each loss came too soon, and the first was dialled at once');
  pass(5_000);
  reconnect.lost(lost());
  await reconnect.settled;
  assert.equal(waits.length, 3, 'dialled at once');
  await settle();
  const attempts = changes.flatMap((change) => (change.state === 'lost' ? [change.attempt] : []));
  assert.deepEqual(attempts, [1, 1, 1, 1, 1], 'each loss is reported as one');
});

test('the first link is one attempt, or dialled like a lost one', async () => {
  const once = world();
  once.script.outcomes = [unreachable()];
  await assert.rejects(once.reconnect.connect(), { code: 'unreachable' });
  assert.deepEqual([once.script.dials, once.changes], [1, []]);

  const patient = world({ boundMs: () => Number.POSITIVE_INFINITY });
  patient.script.outcomes = [unreachable(), unreachable(), 'ok'];
  patient.script.opened = { resumed: false };
  patient.reconnect.start();
  await patient.reconnect.settled;
  await settle();
  assert.deepEqual(names(patient.changes), ['lost', 'lost', 'open']);
});

test('a gap is part of the state it came with', async () => {
  const { reconnect, script, changes } = world();
  await reconnect.connect();
  script.opened = { resumed: true, gap: { from: 3, to: 9 } };
  reconnect.lost(lost());
  await reconnect.settled;
  await settle();
  assert.deepEqual(changes.at(-1), { state: 'resumed', gap: { from: 3, to: 9 } });
});

test('closing ends an attempt under way, and a link that comes too late is ended', async () => {
  const late = Promise.withResolvers<Link>();
  const { reconnect, changes, destroyed, script } = world();
  await reconnect.connect();
  // Dials as something does that ignores the signal.
  const stubborn = new Reconnect<string>(
    {
      dial: () => late.promise,
      handshake: async () => 'terms',
      open: () => ({ resumed: true }),
      discard() {},
      verdict: () => 'retry',
      ended() {},
    },
    { boundMs: () => 1_000 },
  );
  stubborn.start();
  await stubborn.close();
  late.resolve({ destroy: (reason: string) => destroyed.push(reason) } as unknown as Link);
  await settle();
  assert.deepEqual(destroyed, ['no longer wanted']);

  await reconnect.close();
  await reconnect.close(lost());
  await settle();
  assert.deepEqual(changes.at(-1), { state: 'closed' });
  reconnect.lost(lost());
  assert.equal(script.dials, 1, 'nothing is dialled after the end');
});

test('a handshake that succeeds after the end is discarded', async () => {
  const { reconnect, script, destroyed, changes } = world();
  const shaking = Promise.withResolvers<string>();
  const asked = Promise.withResolvers<void>();
  script.handshake = () => {
    asked.resolve();
    return shaking.promise;
  };
  const connecting = reconnect.connect();
  await asked.promise;
  void reconnect.close();
  shaking.resolve('terms');
  await assert.rejects(connecting, { code: 'cancelled' });
  await settle();
  assert.deepEqual(destroyed, ['discarded']);
  assert.deepEqual(names(changes), ['closed'], 'it is not put in use');
});

test('a first link that comes after the end is ended without a handshake', async () => {
  const { reconnect, destroyed } = world();
  const connecting = reconnect.connect();
  void reconnect.close();
  await assert.rejects(connecting, { code: 'cancelled' });
  await settle();
  assert.deepEqual(destroyed, ['no longer wanted']);
});

test('a link that is lost while it is put in use is reported behind its success', async () => {
  const { reconnect, script, changes } = world();
  script.onOpen = () => {
    script.onOpen = () => {};
    reconnect.lost(lost());
  };
  await reconnect.connect();
  await reconnect.settled;
  await settle();
  assert.deepEqual(names(changes), ['open', 'lost', 'resumed']);
});

test('changes are reported outside of what the link is doing', async () => {
  const { reconnect, changes, ended } = world();
  await reconnect.connect();
  await settle();
  const before = changes.length;
  reconnect.lost(lost());
  void reconnect.close();
  assert.deepEqual(
    [changes.length, ended.length],
    [before, 1],
    'calls are settled at once, users are notified behind it',
  );
  await settle();
  assert.deepEqual(names(changes).slice(before), ['lost', 'closed']);
});
