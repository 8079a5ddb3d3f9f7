/** Sends the events of runs to their followers. */
import type { CallContext } from '../../host/context.ts';
import { asError } from '../../wire/errors.ts';
import type { RunEvent } from './engine/outgoing-events.ts';

/** Characters of an error that is sent without its details. */
const MAX_ERROR_CHARS = 1_000;

/** Sends an event of a run. Leaves out its output and the details of its error where no message may hold them. */
export function emitEvent(event: RunEvent, context: Pick<CallContext, 'emit'>): Promise<void> | undefined {
  const { node_id, phase, output = null, error = '', data } = event;
  try {
    return context.emit('status', { ...data }, { node_id, phase, output, error });
  } catch (thrown) {
    if (asError(thrown).code !== 'too_large') throw thrown;
    const { error: _, ...facts } = data ?? {};
    const short = { node_id, phase, output: null, error: error.slice(0, MAX_ERROR_CHARS) };
    return context.emit('status', { ...facts, left_out: true }, short);
  }
}
