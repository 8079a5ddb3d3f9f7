/**
 * The condition for a silent link. Time is ticks of the test's own timer.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Liveness } from '../../src/connection/liveness.ts';
import type { Link } from '../../src/transport/link.ts';

interface FakeLink {
  transport: string;
  received: number | undefined;
  buffered: number;
  progress: number;
  destroyed: string | undefined;
  destroy(reason: string): void;
}

function fakeLink(over: Partial<FakeLink> = {}): FakeLink & Link {
  return {
    transport: 'tcp',
    received: 0,
    buffered: 0,
    progress: 0,
    destroyed: undefined,
    destroy(this: FakeLink, reason: string) {
      this.destroyed = reason;
    },
    ...over,
  } as unknown as FakeLink & Link;
}

/** Returns a liveness whose timer the test fires. */
function manual(livenessTimeoutMs = 15_000) {
  let fire: (() => void) | undefined;
  let period = 0;
  const liveness = new Liveness({
    livenessTimeoutMs,
    every(ms, tick) {
      period = ms;
      fire = tick;
      return () => {
        fire = undefined;
      };
    },
  });
  return {
    liveness,
    ticks(count: number) {
      for (let done = 0; done < count; done++) fire?.();
    },
    get runs() {
      return fire !== undefined;
    },
    get period() {
      return period;
    },
  };
}

test('a silent link is pinged once, and lost within its bound', () => {
  const time = manual(15_000);
  const link = fakeLink();
  let pings = 0;
  time.liveness.watch(link, () => {
    pings += 1;
  });
  assert.equal(time.period, 3_000);
  time.ticks(1);
  assert.equal(pings, 0);
  time.ticks(2);
  assert.deepEqual([pings, link.destroyed], [1, undefined]);
  time.ticks(1);
  assert.match(String(link.destroyed), /silent for 15000 ms/);
  // The silence before the first tick is at most one tick more.
  assert.ok(time.period * 5 <= 15_000);
});

test('an answered ping starts the silence again', () => {
  const time = manual();
  const link = fakeLink();
  let pings = 0;
  time.liveness.watch(link, () => {
    pings += 1;
    link.received = (link.received ?? 0) + 1;
  });
  time.ticks(100);
  assert.deepEqual([link.destroyed, pings], [undefined, 33]);
});

test('a peer that is slow and sends is neither pinged nor lost', () => {
  const time = manual();
  const link = fakeLink();
  let pings = 0;
  time.liveness.watch(link, () => {
    pings += 1;
  });
  for (let bytes = 1; bytes < 50; bytes++) {
    link.received = bytes;
    time.ticks(2);
  }
  assert.deepEqual([link.destroyed, pings], [undefined, 0]);
});

test('silence does not count while this side does not read', () => {
  const time = manual();
  const link = fakeLink({ received: undefined });
  time.liveness.watch(link, () => {});
  time.ticks(50);
  assert.equal(link.destroyed, undefined);
  link.received = 0;
  time.ticks(5);
  assert.notEqual(link.destroyed, undefined);
});

test('a peer that takes what waits for it is alive, one that takes nothing is not', () => {
  const time = manual();
  const taking = fakeLink({ buffered: 1_000_000 });
  const stuck = fakeLink({ buffered: 1_000_000 });
  time.liveness.watch(taking, () => {});
  time.liveness.watch(stuck, () => {});
  for (let tick = 0; tick < 20; tick++) {
    taking.progress += 1;
    time.ticks(1);
  }
  assert.equal(taking.destroyed, undefined);
  assert.notEqual(stuck.destroyed, undefined);
});

test('messages that the system accepts and no peer answers do not keep a link alive', () => {
  const time = manual();
  const link = fakeLink();
  time.liveness.watch(link, () => {});
  for (let sent = 0; sent < 5; sent++) {
    link.progress += 100;
    time.ticks(1);
  }
  assert.notEqual(link.destroyed, undefined);
});

test('the transport is asked where it can ask, and a link that nothing can ask is left alone', () => {
  const time = manual();
  let probes = 0;
  let pings = 0;
  const webSocket = Object.assign(fakeLink({ transport: 'websocket' }), {
    probe() {
      probes += 1;
    },
  });
  const mute = fakeLink();
  time.liveness.watch(webSocket, () => {
    pings += 1;
  });
  time.liveness.watch(mute);
  time.ticks(10);
  assert.deepEqual([probes, pings, mute.destroyed], [1, 0, undefined]);
  assert.notEqual(webSocket.destroyed, undefined);
});

test('silence of a peer that need not answer now does not count', () => {
  const time = manual();
  const link = fakeLink();
  let busy = true;
  time.liveness.watch(link, () => !busy);
  time.ticks(50);
  assert.equal(link.destroyed, undefined);
  busy = false;
  time.ticks(5);
  assert.notEqual(link.destroyed, undefined);
});

test('a stall of this process is one tick, however long it was', () => {
  const time = manual();
  const link = fakeLink();
  const answer = () => {
    link.received = (link.received ?? 0) + 1;
  };
  let asked = false;
  time.liveness.watch(link, () => {
    asked = true;
  });
  for (let round = 0; round < 10; round++) {
    // The timer fires first after a stall; messages that arrived meanwhile are read after it.
    time.ticks(1);
    if (asked) answer();
    asked = false;
  }
  assert.equal(link.destroyed, undefined);
});

test('the timer runs only while there are links, and never with a bound of 0', () => {
  const time = manual();
  const stop = time.liveness.watch(fakeLink(), () => {});
  const other = time.liveness.watch(fakeLink(), () => {});
  stop();
  assert.equal(time.runs, true);
  other();
  assert.equal(time.runs, false);
  const never = manual(0);
  never.liveness.watch(fakeLink(), () => {});
  assert.equal(never.runs, false);
});
