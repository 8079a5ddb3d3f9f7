/** How clients without the fleet protocol see work that is `partial`. A setting of agents; `states.ts` applies it. */

/** The state that a client without the fleet protocol sees for unfinished work. */
export type PartialState = 'failed' | 'completed' | 'input_required';
