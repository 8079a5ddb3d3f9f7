/**
 * What must stay small while a server of sessions grows: opening a session of any length, pages of its lists, what an idle session
 * holds, what a turn writes. Each prints figures with the most that they should be.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { loadConfig } from '../../src/config/config.ts';
import { type ControlClient, connect } from '../../src/control.ts';
import type { ControlSession } from '../../src/control-client/session.ts';
import { serve } from '../../src/server/serve.ts';
import { type EdgeKind, inParallel } from './edge.ts';

const TOKEN = 'token-of-the-growth-bench';
const WIDTH = 8;
const KIB = 1024;
const PROMPT = `say "${'a word and another one '.repeat(170)}"`;

interface Served {
  readonly control: ControlClient;
  readonly cwd: string;
  stop(): Promise<void>;
}

async function served(folder: string): Promise<Served> {
  const cwd = join(folder, 'work');
  mkdirSync(cwd, { recursive: true });
  const file = join(folder, 'handfast.yaml');
  const tokens = `auth: { tokens: [{ name: root, token: ${TOKEN}, admin: true }] }`;
  writeFileSync(
    file,
    `listen: http://127.0.0.1:0\n${tokens}\ncontrol: { backend: rehearsal, max_sessions: 1000000 }\nlimits: { max_sessions: 1000000 }\n`,
  );
  const env = { HANDFAST_HOME: join(folder, 'home'), HANDFAST_KEYRING: 'off' };
  const server = await serve(await loadConfig(file, { env, cwd: folder }), { announce: false });
  const control = await connect(server.url as string, { token: TOKEN });
  const stop = async (): Promise<void> => {
    await control.close();
    await server.close(0);
  };
  return { control, cwd, stop };
}

async function elapsed(work: () => Promise<unknown>): Promise<number> {
  const started = performance.now();
  await work();
  return performance.now() - started;
}

/** The middle of several runs: the machine may have other work to do. */
async function usual(work: () => Promise<unknown>, runs = 9): Promise<number> {
  const times: number[] = [];
  for (let run = 0; run < runs; run += 1) times.push(await elapsed(work));
  return times.sort((one, other) => one - other)[runs >> 1] as number;
}

const prompted = async (session: ControlSession, text: string): Promise<void> => {
  await (await session.prompt(text)).result();
};

/** Bytes that reached a disk, or its cache, of this process. */
const written = (): number => Number(/^write_bytes: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1] ?? 0);

export const long: EdgeKind = {
  unit: 'a turn of 8 KiB in one session that is never closed',
  units: 20_000,
  quickUnits: 300,
  async open(folder) {
    const { control, cwd, stop } = await served(folder);
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
      close: stop,
    };
  },
};

export const listed: EdgeKind = {
  unit: 'a session that stays, created',
  units: 10_000,
  quickUnits: 1_000,
  async open(folder) {
    const { control, cwd, stop } = await served(folder);
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
      close: stop,
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
    const { control, cwd, stop } = await served(folder);
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
      close: stop,
    };
  },
};
