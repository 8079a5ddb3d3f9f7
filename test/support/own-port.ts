/**
 * A port for tests that close one and open it again: meanwhile no process may get it that asks the system for any port,
 * as all other running programs do. So it is outside the range from which the system assigns ports.
 */
import { randomInt } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';

const LOWEST = 15_000;
/** First port that systems assign, unless they report another one. */
const GIVEN_FROM = 32_768;
const TRIES = 50;
/** Ports that this process has assigned: the owner may not have bound its port yet. */
const taken = new Set<number>();

/** Returns a port on 127.0.0.1 that is free now. */
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
