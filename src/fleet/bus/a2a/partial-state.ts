/**
 * The A2A state of work that is `partial`, for clients without the fleet protocol. A setting of agents; `states.ts` applies it.
 */

/** The state that a client without the fleet protocol sees for unfinished work. */
export type PartialState = 'failed' | 'completed' | 'input_required';
