/**
 * A stream of chat completions as the SDK reads it: calls in one form (`call-deltas.ts`), and its end. `[DONE]` says that an
 * answer is complete; several servers send it without a `finish_reason` before, which the SDK takes for an answer that broke
 * off. This stream puts the missing reason in front of it.
 *
 * For the providers with that API.
 */

import { CallDeltas } from './call-deltas.ts';

const REASON = /"finish_reason"\s*:\s*"[^"]/;
const CHOICE = /"(?:delta|message)"\s*:\s*\{/;
const DONE = /^data:\s*\[DONE\]\s*$/;
/** The SDK refuses longer lines as well. */
const MAX_LINE = 32 * 1024 * 1024;

/**
 * Passes a stream of events on, with calls in one form; adds a reason before `[DONE]` if the stream had an answer without one.
 */
export function finishedStream(): TransformStream<Uint8Array, Uint8Array> {
  const decoder = new TextDecoder();
  const encoder = new TextEncoder();
  /** The unfinished line. */
  let pending = '';
  /** A carriage return at the end of a chunk: it may be the first half of a line break. */
  let held = '';
  let answered = false;
  let finished = false;
  let calls = false;
  const deltas = new CallDeltas();
  const seen = (given: string): string => {
    if (!given.startsWith('data:')) return given;
    const line = deltas.repaired(given);
    if (DONE.test(line)) {
      if (!answered || finished) return line;
      finished = true;
      return `data: ${JSON.stringify(ending(calls))}\n\n${line}`;
    }
    answered ||= CHOICE.test(line);
    finished ||= REASON.test(line) || /^data:\s*\{\s*"error"\s*:/.test(line);
    calls ||= /"tool_calls"\s*:\s*\[\s*\{/.test(line);
    return line;
  };
  return new TransformStream({
    transform(chunk, controller) {
      const decoded = held + decoder.decode(chunk, { stream: true });
      held = decoded.endsWith('\r') ? '\r' : '';
      const text = decoded.slice(0, decoded.length - held.length);
      // Only the new text is searched: a long line comes in thousands of chunks.
      const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1;
      if (end > 0) controller.enqueue(encoder.encode(linesOf(pending + text.slice(0, end), seen)));
      pending = end > 0 ? text.slice(end) : pending + text;
      if (pending.length > MAX_LINE) throw new Error('an event of the answer is too long');
    },
    flush(controller) {
      pending += held + decoder.decode();
      if (pending !== '') controller.enqueue(encoder.encode(linesOf(pending, seen)));
    },
  });
}

const linesOf = (text: string, seen: (line: string) => string): string =>
  text
    .split(/(\r\n|\n|\r)/)
    .map((part, at) => (at % 2 === 0 ? seen(part) : part))
    .join('');

const ending = (calls: boolean): object => ({
  object: 'chat.completion.chunk',
  choices: [{ index: 0, delta: {}, finish_reason: calls ? 'tool_calls' : 'stop' }],
});
