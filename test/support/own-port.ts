/**
 * A port for tests that give one back and take it again: between the two no process may get it that asks the system for any,
 * as everything else that runs meanwhile does. So it is none of those the system gives.
 */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const LOWEST = 15_000;
/** Where the ports begin that systems give, unless they tell. */
const GIVEN_FROM = 32_768;
const TRIES = 50;
/** What this process has got: its owner may not have bound it yet. */
const taken = new Set<number>();

/** A port on 127.0.0.1 that is free now. */
export async function ownPort(): Promise<number> {
  const below = Math.max(LOWEST + 1, givenFrom());
  for (let tries = 0; tries < TRIES; tries++) {
    const port = randomInt(LOWEST, below);
    if (taken.has(port)) continue;
    taken.add(port);
    if (await isFree(port)) return port;
  }
  throw new Error(`no free port from ${LOWEST} to ${below}`);
}

function givenFrom(): number {
  try {
    return Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/)[0]) || GIVEN_FROM;
  } catch {
    return GIVEN_FROM;
  }
}

function isFree(port: number): Promise<boolean> {
  const server = createServer();
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}
