/**
 * A link that is cut: at every message of a task's life, once so that the message is lost and once so that it still
 * arrives; and a worker's process that is killed.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { joinOverLink } from '../../../src/fleet/bus/stream/join.ts';
import { streamBus } from '../../../src/fleet/bus/stream/stream-bus.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import type { Link, Message } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { spawnLink } from '../../../src/transport/subprocess.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { aDispatch } from '../bus-contract.ts';
import { PeerRecorder } from '../support/peer-recorder.ts';
import { ScriptedWorker } from '../support/scripted-worker.ts';
import { httpEvents, quiet } from '../support/stream-links.ts';

const structured = { mode: 'structured' } as const;

/** Counts the messages of all links, and cuts the link of one of them. */
class Scissors {
  sent = 0;
  readonly #at: number;
  readonly #lost: boolean;

  constructor(at: number, lost: boolean) {
    this.#at = at;
    this.#lost = lost;
  }

  /** Returns the same link, watched. */
  watch(link: Link): Link {
    const send = (message: string | Message): void => {
      const cut = ++this.sent === this.#at;
      if (!cut || !this.#lost) link.send(message);
      if (!cut) return;
      if (this.#lost) link.destroy('cut');
      else setImmediate(() => link.destroy('cut'));
    };
    return new Proxy(link, {
      get(target, name) {
        if (name === 'send') return send;
        const value = Reflect.get(target, name, target);
        return typeof value === 'function' ? value.bind(target) : value;
      },
    });
  }
}

/** Acts as an orchestrator: sends, and where it cannot know the fate of a message, asks before it sends again. */
async function settle(events: PeerRecorder, taskId: string): Promise<void> {
  let attempt = 1;
  let ask = false;
  while (events.results(taskId).length === 0) {
    const peer = await events.peer('worker-1');
    const said = (): number => events.of('TASK_ACK').filter(({ state }) => state !== 'accepted').length;
    const before = said();
    try {
      if (ask) {
        await peer.send(fleetMessage('TASK_POLL', { task_id: taskId }), structured);
        await events.until(() => said() > before || events.results(taskId).length > 0 || !peer.reachable, 'an answer');
        if (said() > before && events.of('TASK_ACK').at(-1)?.state === 'unknown') {
          attempt++;
          ask = false;
        }
      } else {
        await peer.send(aDispatch(taskId, {}, attempt), structured);
        ask = true;
        await events.until(() => events.results(taskId).length > 0 || !peer.reachable, 'the end');
      }
    } catch (thrown) {
      const { code } = thrown as HandfastError;
      assert.ok(['connection_lost', 'unreachable'].includes(code), String(thrown));
      ask = ask || code === 'connection_lost';
      if (!peer.reachable && events.peers.get('worker-1') === peer) {
        await events.until(() => events.peers.get('worker-1') !== peer, 'the peer to be gone');
      }
    }
  }
}

/** Runs one task over links, one message of which is cut. Returns the number of messages. */
async function run(at: number, lost: boolean): Promise<number> {
  const scissors = new Scissors(at, lost);
  const events = new PeerRecorder();
  const worker = new ScriptedWorker();
  const bus = streamBus({ name: 'orchestrator', log: quiet, heartbeatS: 60 });
  await bus.start(events);
  const dial = async (): Promise<Link> => {
    const [client, server] = memoryPair();
    bus.accept(scissors.watch(server));
    return scissors.watch(client);
  };
  const membership = joinOverLink(worker, dial, {
    log: quiet,
    reconnect: { backoff: { firstDelayMs: 1, maxDelayMs: 2 } },
  });
  try {
    await settle(events, 't-1');
    await worker.until(() => worker.outbox.length === 0, 'the confirmation');
    assert.deepEqual(worker.begun, ['t-1'], `begun ${worker.begun.length} times`);
    const [result, ...again] = events.results('t-1');
    assert.equal(result?.status, 'done');
    for (const other of again) assert.deepEqual(other.tokens_spent, result?.tokens_spent);
    return scissors.sent;
  } finally {
    await membership.close();
    await bus.close();
    worker.close();
  }
}

test('a task is run once and its result arrives, whichever message is lost with its link', async () => {
  const messages = await run(Number.POSITIVE_INFINITY, true);
  // Announce, accept, dispatch, ack, result, ack.
  assert.ok(messages >= 6, `${messages} messages`);
  for (let at = 1; at <= messages; at++) await run(at, true);
});

test('a task is run once and its result arrives, behind whichever message the link ends', async () => {
  const messages = await run(Number.POSITIVE_INFINITY, false);
  for (let at = 1; at <= messages; at++) await run(at, false);
});

test('over HTTP, connections may be cut in the middle of a task, and the link continues as if nothing had been', async (context) => {
  const events = new PeerRecorder();
  const bus = streamBus({ name: 'orchestrator', log: quiet });
  await bus.start(events);
  const site = await httpEvents.listen((link) => bus.accept(link));
  const worker = new ScriptedWorker({ byHand: true });
  const membership = joinOverLink(worker, () => site.dial(), { log: quiet });
  context.after(async () => {
    await membership.close();
    await bus.close();
    await site.close();
  });
  const peer = await events.peer('worker-1');
  for (const taskId of ['t-1', 't-2', 't-3']) {
    await peer.send(aDispatch(taskId), structured);
    site.cut?.();
    // Sent without a connection, both ways.
    worker.finish(taskId);
    await peer.send(fleetMessage('TASK_POLL', { task_id: 'unknown' }), structured);
    await events.until(() => events.results(taskId).length > 0, `the result of ${taskId}`);
    await worker.until(() => worker.outbox.length === 0, 'the result to be confirmed');
  }
  await events.until(
    () => events.of('TASK_ACK').filter(({ state }) => state === 'unknown').length === 3,
    'the answers',
  );
  assert.deepEqual(worker.begun, ['t-1', 't-2', 't-3']);
  assert.deepEqual(
    events.results().map(({ task_id }) => task_id),
    ['t-1', 't-2', 't-3'],
  );
  assert.deepEqual(events.comings, ['joined worker-1']);
  assert.equal(events.of('SESSION_ANNOUNCE').length, 1);
});

test('a worker that was started on its pipes works, and is started again when it is killed', async () => {
  const events = new PeerRecorder();
  const bus = streamBus({
    name: 'orchestrator',
    log: quiet,
    reconnect: { backoff: { firstDelayMs: 5, maxDelayMs: 10 } },
  });
  await bus.start(events);
  const script = new URL('../support/stdio-worker.ts', import.meta.url).pathname;
  bus.supervise(
    () => spawnLink({ command: process.execPath, args: ['-C', 'handfast-source', script] }),
    'worker --stdio',
  );
  const first = await events.peer('child-1');
  await first.send(aDispatch('t-1'), structured);
  await events.until(() => events.results('t-1').length === 1, 'the result');
  const [life] = events.of('SESSION_ANNOUNCE');
  process.kill(Number(life?.incarnation?.slice('life-'.length)), 'SIGKILL');
  await events.until(() => events.of('SESSION_ANNOUNCE').length === 2, 'the second life');
  assert.notEqual(events.of('SESSION_ANNOUNCE')[1]?.incarnation, life?.incarnation);
  await events.peers.get('child-1')!.send(aDispatch('t-2'), structured);
  await events.until(() => events.results('t-2').length === 1, 'the other result');
  await bus.close();
});
