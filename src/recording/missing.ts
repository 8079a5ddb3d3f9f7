/**
 * The missing part of a recording that was not finished: its recorder was killed, or its disk was full.
 */
import type { Recording } from './format.ts';
import { plansOf } from './timeline.ts';

/** Requests without a reply that are listed. */
const LISTED = 5;

/** Returns the missing part of an incomplete recording, in one sentence; undefined for a complete one. */
export function whatIsMissing(recording: Recording): string | undefined {
  if (recording.manifest.complete) return undefined;
  const plans = plansOf(recording);
  const open = plans.filter(({ closed }) => closed === undefined);
  const unanswered = open
    .flatMap(({ steps }) => steps)
    .filter(({ info, answered, state }) => info.kind === 'request' && !answered && state !== 'skipped')
    .map(({ entry, info }) => `#${entry.seq} ${info.type}`);
  const last = recording.entries.at(-1)?.seq;
  return [
    `the recording is not complete: ${last === undefined ? 'nothing was written' : `its last whole line is #${last}`}`,
    ...(open.length > 0 ? [`the ends of connections ${open.map(({ number }) => number).join(', ')} are missing`] : []),
    ...(unanswered.length > 0
      ? [
          `so are the replies to ${unanswered.slice(0, LISTED).join(', ')}${unanswered.length > LISTED ? ` and ${unanswered.length - LISTED} more` : ''}`,
        ]
      : []),
  ].join('; ');
}
