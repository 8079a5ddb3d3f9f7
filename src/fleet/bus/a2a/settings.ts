/**
 * What the configuration says about A2A: the agents that are called, and how a worker of ours appears to clients. Apart from
 * what uses the official kit, so that programs that only name these types need not have it.
 *
 * Used by the other files of this folder and by whoever makes buses and agents.
 */
import type { TokenSource } from '../plain/token.ts';

/** Where an agent is. */
export interface RemoteAgent {
  /** Its address; the card is at `/.well-known/agent-card.json` below it. */
  readonly url: string;
  /** Read for each call, and again when it was refused. Shown to nobody but the origin of `url`. */
  readonly token?: TokenSource;
}

/** An agent, from the configuration. */
export interface A2aPeerOptions extends RemoteAgent {
  /** Its name here. */
  readonly id: string;
}

/** What a client that knows nothing of fleets is shown of work that is not finished. */
export type PartialState = 'failed' | 'completed' | 'input_required';
