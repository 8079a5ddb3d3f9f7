/**
 * Events of a call as they come: JSON lines for programs; for people the output of programs as such, progress on one
 * line of the terminal, the rest as notes.
 */
import type { CallEvent } from '../../connection/call.ts';
import type { Terminal } from './terminal.ts';

export interface EventOutput {
  /** Undefined when events would not be shown, so that none are requested. */
  readonly onEvent: ((event: CallEvent) => void) | undefined;
  /** True once the output of a program has been shown, so that its result need not repeat it. */
  readonly showedOutput: () => boolean;
}

/** @param stream asked for with `--stream`; without it events are shown only where people watch */
export function eventOutput(terminal: Terminal, stream: boolean): EventOutput {
  let output = false;
  const showedOutput = () => output;
  if (terminal.json) {
    const print = ({ kind, data, seq }: CallEvent) => terminal.document({ event: { kind, data, seq } });
    return { onEvent: stream ? print : undefined, showedOutput };
  }
  if (!stream && !terminal.watched) return { onEvent: undefined, showedOutput };
  return {
    showedOutput,
    onEvent({ kind, data }) {
      const message = typeof data.message === 'string' ? data.message : '';
      if (kind === 'log' && (data.level === 'stdout' || data.level === 'stderr')) {
        output = true;
        if (data.level === 'stdout') terminal.raw(message);
        else terminal.rawError(message);
      } else if (kind === 'progress') {
        const text = `${typeof data.pct === 'number' ? `${Math.round(data.pct)} % ` : ''}${message}`;
        if (terminal.watched) terminal.passing(text);
        else terminal.note(text);
      } else if (kind === 'artifact') {
        terminal.note(`artifact ${String(data.name ?? '')} (${String(data.mime ?? 'unknown type')})`);
      } else terminal.note(message === '' ? `${kind} ${JSON.stringify(data)}` : message);
    },
  };
}
