/**
 * `stream1`, `stream20`: one turn of many chunks to 1 and to 20 subscribers over TCP, from the prompt until the last of
 * them has the end of the turn. Every byte is stored while the clock runs and checked afterwards: each subscriber must
 * have every chunk once and in order, or the contender is out.
 *
 * `-cpu` is the processor time of the server for a chunk and subscriber: serialising and journaling are paid once, so
 * it falls with their number. Separate turns also count that the text is serialised once.
 */
import { once } from 'node:events';
import { connect as openSocket } from 'node:net';
import { LOOPBACK } from '../contenders/contender.ts';
import { bounded } from '../control.ts';
import { chunkText } from './chunk-text.ts';
import type { Script } from './control-process.ts';
import { COMPLETED, LineClient, type WireEvent } from './line-client.ts';
import { Forked, type Scratch } from './processes.ts';
import { ANSWER_WAIT_MS, type Contender, HANDSHAKE, type Measurement, type Workload } from './workload.ts';

export interface StreamHello {
  readonly port: number;
}
/** `count` begins counting, `counted` ends it. */
export type StreamQuestion = 'usage' | 'count' | 'counted';
export interface StreamAnswer {
  /** Of all threads since its start, microseconds. */
  readonly cpuUs: number;
  /** Texts made of chunks since `count`. */
  readonly serialised: number;
}

type Server = Forked<StreamHello, StreamQuestion, StreamAnswer>;

/** Chunks between two turns of the event loop: a provider's answer arrives in packets, too. */
const BURST = 32;

interface Opened {
  readonly client: LineClient;
  close(): Promise<void>;
}

async function open(port: number): Promise<Opened> {
  const socket = openSocket({ port, host: LOOPBACK, noDelay: true });
  await bounded(once(socket, 'connect'), 'no connection', ANSWER_WAIT_MS);
  return {
    client: new LineClient(socket, socket),
    async close() {
      const closed = once(socket, 'close');
      socket.end();
      await bounded(closed, 'a connection did not close', ANSWER_WAIT_MS);
    },
  };
}

/** The start of a turn at one kind of server. */
interface Play {
  /**
   * Prepares the turn and subscribes the subscribers to its events. Returns the functions that start it and that end
   * all of it.
   */
  prepare(
    driver: LineClient,
    subscribers: readonly LineClient[],
  ): Promise<{ start(script: Script): Promise<unknown>; end(): Promise<void> }>;
}

const loopPlay: Play = {
  async prepare(driver, subscribers) {
    for (const subscriber of subscribers) await subscriber.call('subscribe');
    return {
      start: (script) => driver.call('play', script),
      async end() {
        for (const subscriber of subscribers) await subscriber.call('unsubscribe');
      },
    };
  },
};

const sessionPlay: Play = {
  async prepare(driver, subscribers) {
    const { session_id } = await driver.call('session.create');
    const ids: string[] = [];
    for (const subscriber of subscribers) {
      const { subscription_id } = await subscriber.call('events.subscribe', { session_id });
      ids.push(subscription_id as string);
    }
    return {
      start: (script) => driver.call('session.send', { session_id, text: JSON.stringify(script) }),
      async end() {
        for (const [index, subscriber] of subscribers.entries()) {
          await subscriber.call('events.unsubscribe', { subscription_id: ids[index] });
        }
        await driver.call('session.delete', { session_id });
      },
    };
  },
};

/** A server with connections that stay. */
class Stage {
  readonly #server: Server;
  readonly #play: Play;
  readonly #opened: readonly Opened[];

  private constructor(server: Server, play: Play, opened: readonly Opened[]) {
    this.#server = server;
    this.#play = play;
    this.#opened = opened;
  }

  static async open(server: Server, play: Play, subscribers: number): Promise<Stage> {
    const opened: Opened[] = [];
    for (let count = 0; count <= subscribers; count++) {
      const one = await open(server.hello.port);
      await one.client.call('rpc.handshake', HANDSHAKE);
      opened.push(one);
    }
    return new Stage(server, play, opened);
  }

  /** Plays one turn to the first `count` subscribers; returns milliseconds, and CPU microseconds of the server. */
  async turn(count: number, chunks: number): Promise<{ ms: number; cpuUs: number }> {
    const [driver, ...all] = this.#opened.map(({ client }) => client) as [LineClient, ...LineClient[]];
    const subscribers = all.slice(0, count);
    const { start, end } = await this.#play.prepare(driver, subscribers);
    const before = await this.#server.ask('usage');
    const begun = performance.now();
    const keeping = Promise.all(subscribers.map((subscriber) => subscriber.keep()));
    await start({ chunks, burst: BURST });
    const kept = await keeping;
    const ms = performance.now() - begun;
    const after = await this.#server.ask('usage');
    await end();
    checkDelivery(kept, chunks);
    return { ms, cpuUs: after.cpuUs - before.cpuUs };
  }

  /** Returns how often a turn to `count` subscribers made text of a chunk. */
  async serialised(count: number, chunks: number): Promise<number> {
    await this.#server.ask('count');
    await this.turn(count, chunks);
    return (await this.#server.ask('counted')).serialised;
  }

  async close(): Promise<void> {
    await Promise.all(this.#opened.map(({ close }) => close()));
  }
}

/** Throws unless every subscriber has all chunks once and in order, and all have the same bytes. */
function checkDelivery(kept: readonly (readonly Buffer[])[], chunks: number): void {
  const [first = Buffer.alloc(0), ...others] = kept.map((parts) => throughEnd(Buffer.concat(parts)));
  for (const [index, other] of others.entries()) {
    if (!other.equals(first)) throw new Error(`subscriber ${index + 2} got something else than the first one`);
  }
  let seen = 0;
  let seq = 0;
  for (const line of first.toString().trimEnd().split('\n')) {
    const { params } = JSON.parse(line) as { params: WireEvent };
    if (seq !== 0 && params.seq !== seq + 1) throw new Error(`event ${params.seq} follows ${seq}`);
    seq = params.seq;
    if (params.type !== 'session.stream.chunk') continue;
    if (params.payload.chunk.answerText !== chunkText(seen)) throw new Error(`chunk ${seen} is not there`);
    seen++;
  }
  if (seen !== chunks) throw new Error(`only ${seen} of ${chunks} chunks arrived`);
}

/** Returns the bytes up to the event that ends the turn; with some contenders, later output arrived in the same packet. */
function throughEnd(bytes: Buffer): Buffer {
  return bytes.subarray(0, bytes.indexOf(10, bytes.indexOf(COMPLETED)) + 1);
}

/** The counts: subscribers → texts made of one turn's chunks. */
export type Serialised = ReadonlyMap<number, number>;

export interface StreamWorkloads {
  readonly workloads: readonly Workload[];
  /** Counts, after the rounds, in turns that are not timed. */
  count(subscribers: readonly number[], chunks: number): Promise<Serialised>;
}

/**
 * Returns the streams to each number of subscribers. `handfast` journals to disk as `handfast rpc` does,
 * `handfast+memory` does not.
 */
export async function streams(scratch: Scratch, subscribers: readonly number[]): Promise<StreamWorkloads> {
  const most = Math.max(...subscribers);
  const loop = (name: string): Promise<Server> => Forked.start('./stream-loop-process.ts', [name]);
  const control = (kind: string): Promise<Server> => Forked.start('./control-process.ts', [scratch.make(), kind]);
  const plan: readonly (readonly [string, Promise<Server>, Play])[] = [
    ['bare', loop('bare'), loopPlay],
    ['limit', loop('limit'), loopPlay],
    ['handfast', control('sqlite'), sessionPlay],
    ['handfast+memory', control('memory'), sessionPlay],
  ];
  const stages = new Map<string, { server: Server; stage: Stage }>();
  for (const [name, starting, play] of plan) {
    const server = await starting;
    stages.set(name, { server, stage: await Stage.open(server, play, most) });
  }
  const workloads = subscribers.map((count, index): Workload => {
    const name = `stream${count}`;
    const cpu = `${name}-cpu`;
    const contenders = [...stages].map(
      ([who, { stage }]): Contender => ({
        name: who,
        async measure({ chunks }): Promise<Measurement> {
          const { ms, cpuUs } = await stage.turn(count, chunks);
          return { [name]: (chunks / ms) * 1000, [cpu]: cpuUs / chunks / count };
        },
      }),
    );
    return {
      name,
      transport: 'tcp',
      figures: [
        { name, unit: 'chunks/s', lowerIsBetter: false },
        { name: cpu, unit: 'µs/chunk and subscriber', lowerIsBetter: true },
      ],
      contenders,
      async close() {
        // All workloads share the servers; the first workload ends them.
        if (index > 0) return;
        for (const { stage, server } of stages.values()) {
          await stage.close().catch(() => {});
          await server.stop();
        }
      },
    };
  });
  return {
    workloads,
    async count(each, chunks) {
      const stage = stages.get('handfast')?.stage;
      const counted = new Map<number, number>();
      for (const number of each) counted.set(number, (await stage?.serialised(number, chunks)) ?? 0);
      return counted;
    },
  };
}
