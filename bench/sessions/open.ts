/**
 * `open`: the time until a client has opened a long stored session, after a restart of the server, milliseconds: its
 * state (`session.get`), the first page of its messages, and the last hundred of its events by a subscription that
 * begins in the past. `handfast+pages` omits the state, as a client of long sessions would.
 *
 * Each measurement starts a new `handfast rpc` on the same data folder. The clock begins at the reply to the handshake:
 * no part of the session was read, and no code is warm.
 */
import { once } from 'node:events';
import { connect as openSocket } from 'node:net';
import { LOOPBACK } from '../contenders/contender.ts';
import { bounded } from '../control.ts';
import type { Script } from './control-process.ts';
import { LineClient } from './line-client.ts';
import { Forked, RPC_ARGS, type Scratch, startOnPipes, stopOnPipes } from './processes.ts';
import type { StreamHello } from './stream.ts';
import { ANSWER_WAIT_MS, HANDSHAKE, type Measurement, type Settings, type Workload } from './workload.ts';

/** Events of a turn beside its chunks; `make` counts the real number. */
const OTHER_EVENTS = 9;
const REPLAYED = 100;

const PARTS = ['open', 'open-get', 'open-messages', 'open-replay', 'open-start'];

interface Stored {
  readonly home: string;
  readonly session: string;
  readonly events: number;
  readonly messages: number;
}

/** Creates the session, turn by turn, as real sessions grow. */
async function make(scratch: Scratch, { turns, eventsPerTurn }: Settings['stored']): Promise<Stored> {
  const home = scratch.make();
  const server = await Forked.start<StreamHello, never, never>('./control-process.ts', [home, 'sqlite']);
  try {
    const socket = openSocket({ port: server.hello.port, host: LOOPBACK, noDelay: true });
    await bounded(once(socket, 'connect'), 'no connection', ANSWER_WAIT_MS);
    const client = new LineClient(socket, socket);
    await client.call('rpc.handshake', HANDSHAKE);
    const { session_id: session } = await client.call('session.create', { title: 'a long one' });
    await client.call('events.subscribe', { session_id: session, types: ['session.completed'] });
    const script: Script = { chunks: eventsPerTurn - OTHER_EVENTS, burst: eventsPerTurn };
    for (let turn = 0; turn < turns; turn++) {
      const completed = client.event('session.completed');
      await client.call('session.send', { session_id: session, text: JSON.stringify(script) });
      await completed;
    }
    const { seq, messages } = await client.call('session.get', { session_id: session });
    socket.destroy();
    return { home, session, events: seq as number, messages: (messages as unknown[]).length };
  } finally {
    await server.stop();
  }
}

/** Opens the session. `whole`: with the state, which holds every message, twice; else only the pages that fit a screen. */
async function openOnce({ home, session, events, messages }: Stored, whole: boolean): Promise<Measurement> {
  const begun = performance.now();
  const child = startOnPipes(RPC_ARGS, home);
  try {
    const client = new LineClient(child.stdout, child.stdin);
    await client.call('rpc.handshake', HANDSHAKE);
    const start = performance.now();
    const state = whole ? await client.call('session.get', { session_id: session }) : undefined;
    const got = performance.now();
    const page = await client.call('session.messages', { session_id: session });
    const paged = performance.now();
    let replayed = 0;
    const replay = new Promise<void>((resolve) => {
      client.onEvent = ({ seq }) => {
        replayed++;
        if (seq === events) resolve();
      };
    });
    await client.call('events.subscribe', { session_id: session, after_seq: events - REPLAYED });
    await bounded(replay, 'the events did not come', ANSWER_WAIT_MS);
    const end = performance.now();
    if ((whole && state.seq !== events) || page.total !== messages || replayed !== REPLAYED) {
      throw new Error(
        `the session is not what it was: ${state?.seq} of ${events} events, ${page.total} messages, ${replayed} replayed`,
      );
    }
    return {
      open: end - start,
      ...(whole && { 'open-get': got - start }),
      'open-messages': paged - got,
      'open-replay': end - paged,
      'open-start': start - begun,
    };
  } finally {
    await stopOnPipes(child);
  }
}

/** Makes the session and opens it in every round. */
export async function opens(scratch: Scratch, settings: Settings): Promise<Workload> {
  const begun = performance.now();
  const stored = await make(scratch, settings.stored);
  const seconds = ((performance.now() - begun) / 1000).toFixed(1);
  return {
    name: 'open',
    transport: 'stdio',
    figures: PARTS.map((name) => ({ name, unit: 'ms', lowerIsBetter: true })),
    contenders: [
      { name: 'handfast', measure: () => openOnce(stored, true) },
      { name: 'handfast+pages', measure: () => openOnce(stored, false) },
    ],
    note: () => `the session: ${stored.events} events, ${stored.messages} messages, made in ${seconds} s`,
    close: async () => {},
  };
}
