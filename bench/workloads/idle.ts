/**
 * `idle`: resident memory of one idle TCP session, both ends together. Sessions are opened, garbage is collected in
 * both processes, and the growth of the processes is divided by the number of sessions.
 */
import type { Bench } from '../bench.ts';
import type { Session } from '../contenders/contender.ts';
import type { Workload } from './workload.ts';

/** Opened and closed before the first reading, so that loaded code and grown heaps are not counted. */
const WARM_UP_SESSIONS = 200;
const OPENING_AT_ONCE = 32;

async function openMany(bench: Bench, count: number): Promise<Session[]> {
  const sessions: Session[] = [];
  let started = 0;
  const lane = async (): Promise<void> => {
    while (started < count) {
      started++;
      sessions.push(await bench.open());
    }
  };
  await Promise.all(Array.from({ length: OPENING_AT_ONCE }, lane));
  return sessions;
}

export const idle: Workload = {
  name: 'idle',
  unit: 'KiB/session',
  lowerIsBetter: true,
  transports: ['tcp'],
  fresh: true,
  async run(bench, { idleSessions }) {
    await Promise.all((await openMany(bench, WARM_UP_SESSIONS)).map((session) => session.close()));
    const before = await bench.residentBytes();
    const sessions = await openMany(bench, idleSessions);
    const after = await bench.residentBytes();
    const grown = after.near + after.far - before.near - before.far;
    if (sessions.length !== idleSessions) throw new Error('not all sessions were opened');
    return { value: grown / 1024 / idleSessions };
  },
};
