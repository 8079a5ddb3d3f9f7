/**
 * Shares the time in which queued requests start among all connections: some milliseconds of each turn of the event
 * loop. Handlers that return at once would fill the turn, those of many connections together as those of one.
 *
 * One connection at a time starts its requests. The others queue, each with a separate callback: the handlers of one
 * run before the next one starts, so the time that they take counts.
 */
import { nextTurn } from '../base/next-turn.ts';

/** Time in which queued requests start within one turn of the event loop, in milliseconds. */
const START_MS = 5;

/** One connection's half that has queued requests. */
interface Starter {
  /** Starts them as long as {@link mayStart} returns true. */
  startNext(): void;
}

/** Time at which queued requests stop starting in this turn; undefined: none has started in it. */
let endsAt: number | undefined;
let current: Starter | undefined;
/** In their order; each has one callback of {@link serveFirst}. */
const line = new Set<Starter>();

/** Returns true when `starter` may start a queued request now. False: its `startNext` is called in a later turn. */
export function mayStart(starter: Starter, now: number): boolean {
  if (endsAt === undefined) {
    endsAt = now + START_MS;
    current = starter;
    nextTurn(renew);
  }
  if (current === starter && now < endsAt) return true;
  if (!line.has(starter)) {
    line.add(starter);
    nextTurn(serveFirst);
  }
  return false;
}

function renew(): void {
  endsAt = undefined;
  current = undefined;
}

function serveFirst(): void {
  if (endsAt !== undefined && performance.now() >= endsAt) return nextTurn(serveFirst);
  const [first] = line;
  if (first === undefined) return;
  line.delete(first);
  current = first;
  first.startNext();
}
