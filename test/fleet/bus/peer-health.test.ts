/** Peers that are looked after at their addresses: when they count as there, as gone and as asleep. */
import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import {
  type HealthCheckedPeer,
  PeerHealthChecker,
  type PeerHealthOptions,
} from '../../../src/fleet/bus/plain/peer-health.ts';
import { fail, type HandfastError } from '../../../src/wire/errors.ts';
import { within } from '../../contract/recorder.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { quiet } from '../support/stream-links.ts';

/** A peer whose looks are answered by hand. */
class Looked implements HealthCheckedPeer {
  readonly peerId: string;
  readonly binding = 'http';
  readonly address = 'http://peer.example';
  readonly structured = true;
  readonly features = new Set<never>();
  readonly durable = false;
  reachable = false;
  /** Its requests, in order. */
  readonly asked: string[] = [];
  takesCalls = true;
  reachableWhenAsked: boolean | undefined;
  #look = Promise.withResolvers<(answer: boolean | HandfastError) => void>();

  constructor(peerId = 'a') {
    this.peerId = peerId;
  }

  probe(here: boolean): Promise<boolean> {
    this.asked.push(here ? 'look again' : 'look');
    return new Promise((resolve, reject) => {
      this.#look.resolve((answer) => (typeof answer === 'boolean' ? resolve(answer) : reject(answer)));
    });
  }

  async askAnnounce(): Promise<void> {
    this.asked.push('announce');
    this.reachableWhenAsked = this.reachable;
    if (!this.takesCalls) throw fail('unauthorized', 'the token is wrong');
  }

  /** Answers the look under way, or the next one. */
  async says(answer: boolean | HandfastError): Promise<void> {
    const say = await within(this.#look.promise, 'a look');
    this.#look = Promise.withResolvers();
    say(answer);
  }

  /** Fails a look under way, as happens when its bus stops. */
  end(): void {
    void this.#look.promise.then((say) => say(gone));
  }

  async send(): Promise<void> {}
}

const gone = fail('unreachable', 'no reply');

function watched(context: TestContext, more: Partial<PeerHealthOptions> = {}) {
  const peer = new Looked();
  const events = new PeerRecorder();
  const watch = new PeerHealthChecker([peer], { log: quiet, healthIntervalMs: 1, ...more });
  watch.start(events);
  context.after(async () => {
    const stopped = watch.stop();
    peer.end();
    await stopped;
  });
  return { peer, events, watch };
}

test('a peer is known before it answers, and describes itself before it is reported as connected', async (context) => {
  const { peer, events } = watched(context);
  assert.deepEqual(events.comings, ['joined a']);
  assert.equal(peer.reachable, false);
  await peer.says(false);
  await events.until(() => events.comings.length === 2, 'the peer to be there');
  assert.deepEqual(peer.asked.slice(0, 2), ['look', 'announce']);
  assert.equal(peer.reachableWhenAsked, false);
  assert.equal(peer.reachable, true);
});

test('one look that fails is not the end, two in a row are, and the next that succeeds is a beginning', async (context) => {
  const { peer, events } = watched(context);
  for (const answer of [false, gone, false]) await peer.says(answer);
  await peer.says(gone);
  assert.equal(peer.reachable, true);
  await peer.says(gone);
  await events.until(() => events.comings.length === 3, 'the peer to be missed');
  assert.deepEqual(events.comings, ['joined a', 'joined a', 'left a: no reply']);
  assert.equal(peer.reachable, false);
  await peer.says(false);
  await events.until(() => events.comings.length === 4, 'the peer to be back');
  assert.equal(peer.reachable, true);
  assert.equal(peer.asked.filter((what) => what === 'announce').length, 2);
});

test('a peer that says it rests is asleep at once, and one that takes no calls is gone at once', async (context) => {
  const { peer, events } = watched(context);
  await peer.says(false);
  await peer.says(fail('unreachable', 'asleep', { asleep: 'for the night' }));
  await events.until(() => events.comings.length === 3, 'the peer to be asleep');
  assert.equal(events.comings[2], 'asleep a: for the night');
  await peer.says(false);
  await events.until(() => events.comings.length === 4, 'the peer to be back');
  peer.takesCalls = false;
  await peer.says(true);
  await events.until(() => events.comings.length === 5, 'the peer to be gone');
  assert.equal(events.comings[4], 'left a: the token is wrong');
  assert.equal(peer.reachable, false);
});

test('news of a connected peer is reported, and makes it describe itself', async (context) => {
  const { peer, events } = watched(context);
  for (const answer of [false, false, true]) await peer.says(answer);
  await events.until(() => events.comings.length === 3, 'the news');
  assert.deepEqual(peer.asked.slice(0, 5), ['look', 'announce', 'look again', 'look again', 'announce']);
});

test('a peer that is doubted is looked at before its time', async (context) => {
  const { peer, events, watch } = watched(context, { healthIntervalMs: 3_600_000 });
  await peer.says(false);
  await events.until(() => events.comings.length === 2, 'the peer to be there');
  // The wait begins in the turn after.
  await new Promise((resolve) => setImmediate(resolve));
  watch.probeNow(peer);
  await peer.says(true);
  await events.until(() => events.comings.length === 3, 'the news');
});

test('what the orchestrator throws does not end the watch', async (context) => {
  const events = new PeerRecorder();
  const peer = new Looked();
  const watch = new PeerHealthChecker([peer], { log: quiet, healthIntervalMs: 1 });
  let told = 0;
  watch.start({
    received: () => {},
    malformed: () => {},
    left: (...call) => events.left(...call),
    joined: () => {
      told += 1;
      throw new Error('no room');
    },
  });
  context.after(async () => {
    const stopped = watch.stop();
    peer.end();
    await stopped;
  });
  for (const answer of [false, gone, gone]) await peer.says(answer);
  await events.until(() => events.comings.length === 1, 'the peer to be missed');
  assert.equal(told, 2);
});

test('two peers of one name are refused, and a watch starts once', async () => {
  assert.throws(() => new PeerHealthChecker([new Looked('a'), new Looked('a')], { log: quiet }), {
    code: 'config_invalid',
  });
  const watch = new PeerHealthChecker([], { log: quiet });
  assert.throws(() => watch.events, { code: 'runtime_error' });
  assert.equal(watch.running, false);
  watch.start(new PeerRecorder());
  assert.equal(watch.running, true);
  assert.throws(() => watch.start(new PeerRecorder()), { code: 'usage' });
  await watch.stop();
  assert.equal(watch.running, false);
});
