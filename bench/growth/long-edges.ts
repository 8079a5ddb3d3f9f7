/**
 * Costs that must stay small while a server of sessions grows: opening a session of any length, pages of its lists, memory of an idle
 * session, bytes written by a turn. Each edge prints its figures with their upper bounds.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { ControlSession } from '../../src/control-client/session.ts';
import { type EdgeKind, inParallel } from './edge.ts';
import { served, WIDTH } from './served.ts';

const KIB = 1024;
const PROMPT = `say "${'a word and another one '.repeat(170)}"`;

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** Returns the middle of several runs: the machine may have other work. */
async function usual(work: () => Promise<unknown>, runs = 9): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < runs; run += 1) times.push(await elapsed(work));
  return times.sort((one, other) => one - other)[runs >> 1] as number;
}

const prompted = async (session: ControlSession, text: string): Promise<void> => {
  await (await session.prompt(text)).result();
};

/** Returns the bytes of this process that reached a disk, or its cache. */
const written = (): number => Number(/^write_bytes: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);

export const long: EdgeKind = {
  unit: 'a turn of 8 KiB in one session that is never closed',
  units: 20_000,
  quickUnits: 300,
  async open(folder) {
    const { control, cwd, close } = await served(folder);
    const session = await control.create({ cwd });
    let turns = 0;
    let bytes = 0;
    return {
      async run(count) {
        const before = written();
        for (let n = 0; n < count; n += 1) await prompted(session, PROMPT);
        turns = count;
        bytes = written() - before;
      },
      async finish() {
        const ask = { session_id: session.id, messages: 100 };
        const size = JSON.stringify(await control.rpc.sessionResume(ask)).length;
        const page = JSON.stringify(await control.rpc.sessionMessages({ session_id: session.id })).length;
        return {
          'open the session (≤ 20 ms)': await usual(() => control.rpc.sessionResume(ask)),
          'KiB of that reply (≤ 256)': size / KIB,
          'KiB of a page of messages (≤ 512)': page / KIB,
          'KiB written by a turn, of the last sample (≤ 64)': bytes / turns / KIB,
        };
      },
      close,
    };
  },
};

export const listed: EdgeKind = {
  unit: 'a session that stays, created',
  units: 10_000,
  quickUnits: 1_000,
  async open(folder) {
    const { control, cwd, close } = await served(folder);
    return {
      run: (count) => inParallel(count, WIDTH, () => control.create({ cwd, title: 'one of many' })),
      async finish() {
        const page = (): Promise<unknown> => control.rpc.sessionList({});
        const all = async (): Promise<void> => {
          for await (const _ of control.sessions());
        };
        return {
          'a ping': await usual(() => control.rpc.ping()),
          'a page of session.list (≤ 1 ms and a ping)': await usual(page),
          'all pages (≤ 100 ms for 10,000)': await usual(all, 3),
        };
      },
      close,
    };
  },
};

/** Beyond this the places of idle sessions are free, and their states are not in memory. */
const IDLE_MS = 65_000;

export const idle: EdgeKind = {
  unit: 'a session that was prompted once and is idle',
  units: 5_000,
  quickUnits: 300,
  restSeconds: IDLE_MS / 1000,
  async open(folder) {
    const { control, cwd, close } = await served(folder);
    const heap = (): number => {
      global.gc?.();
      return process.memoryUsage().heapUsed;
    };
    await prompted(await control.create({ cwd }), 'list .');
    const empty = heap();
    let sessions = 0;
    return {
      async run(count) {
        await inParallel(count, WIDTH, async () => prompted(await control.create({ cwd }), 'list .'));
        sessions += count;
      },
      async finish() {
        const before = heap() - empty;
        await delay(IDLE_MS);
        return {
          'KiB of heap of a session': before / sessions / KIB,
          'KiB of it once idle, 256 of them loaded (≤ 1 of the others)': (heap() - empty) / sessions / KIB,
        };
      },
      close,
    };
  },
};
