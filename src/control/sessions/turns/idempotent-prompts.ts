/**
 * Prompts that are sent again because their client never got the reply. The idempotency key is stored with its turn, so it is
 * as durable as the turn, and needs no further memory.
 *
 * @see docs/protocol/session-rpc.md#idempotent-send
 */
import { wrongParam } from '../../../protocol/rpc-reader.ts';
import { sessionSend } from '../../../protocol/session-rpc.ts';
import { fail } from '../../../wire/errors.ts';
import type { OpenSession } from '../log/open-session.ts';
import { digestOf } from '../record/folded.ts';
import { type Prompt, shownText } from './prompt-text.ts';

/** Number of the newest turns among which a prompt is looked for. */
const NEWEST_TURNS = 1024;
const MAX_KEY_CHARACTERS = 128;

/** The reply to the first sending of a prompt. */
export interface SentPrompt {
  readonly turnId: string;
  readonly queued: boolean;
}

/**
 * Finds the turn a prompt has already, when it was sent before under this key. Fails with `schema_violation` when the key is
 * too long, or was another prompt's: answering that one would drop this one silently.
 */
export function findByIdempotencyKey({ folded }: OpenSession, key: string, prompt: Prompt): SentPrompt | undefined {
  if (key.length > MAX_KEY_CHARACTERS) {
    throw wrongParam(sessionSend.name, 'idempotency_key', `at most ${MAX_KEY_CHARACTERS} characters`);
  }
  const at = folded.turns.findLastIndex(({ sent }) => sent?.key === key, NEWEST_TURNS);
  const row = at === -1 ? undefined : folded.turns.at(at);
  if (row?.sent === undefined) return undefined;
  const isIt = (text: string): boolean =>
    row.digest === undefined ? row.prompt === text : row.digest === digestOf(text);
  if (!isIt(prompt.text) && !isIt(shownText(prompt))) {
    throw fail('schema_violation', `invalid params for ${sessionSend.name}: \`idempotency_key\` was another prompt's`, {
      field: 'idempotency_key',
      turn_id: row.turnId,
    });
  }
  return { turnId: row.turnId, queued: row.sent.queued };
}

/** Releases the key of a refused prompt: its client may send it again. */
export function releaseKey(session: OpenSession, turnId: string): void {
  if (!session.deleted) session.note('prompt.refused', { turn_id: turnId });
}
