/**
 * Phase 2: the SESSION_ANNOUNCE a worker puts into its first reply, next to the words of the reply. Called by the
 * orchestrator on replies of peers whose binding carries nothing but text, and by `reply.ts` before it looks for a result.
 *
 * A machine wrote the block, so nothing is repaired. The profile it gives belongs to the peer the transport authenticated,
 * whatever `agent_id` it claims: who calls sees to that.
 * @see docs/fleet-phases.md#announce-in-the-reply
 */
import { decode } from '../messages/decode.ts';
import type { Announced, Finding } from '../messages/decoded.ts';
import { candidates } from './candidates.ts';

/** What a reply says of the worker, and what it says besides. */
export interface AnnouncedReply {
  readonly found: boolean;
  readonly profile?: Announced;
  /** The reply without the block, trimmed, with LF line ends. */
  readonly prose: string;
  /** What is wrong with the blocks that meant to be an announce and are none; for the log. */
  readonly refused: readonly Finding[];
}

/** The first valid announce of a reply. */
export function announceInReply(text: string): AnnouncedReply {
  const reply = text.replace(/\r\n?/g, '\n');
  const refused: Finding[] = [];
  for (const candidate of reply.includes(WORD) ? candidates(reply, false) : []) {
    if (!candidate.text.includes(WORD) || candidate.open) continue;
    const decoded = decode(candidate.text);
    if (!decoded.valid) {
      refused.push(...decoded.errors);
      continue;
    }
    if (decoded.message.type !== WORD) continue;
    const prose = (reply.slice(0, candidate.start) + reply.slice(candidate.end)).trim();
    return { found: true, profile: decoded.message, prose, refused };
  }
  return { found: false, prose: reply.trim(), refused };
}

const WORD = 'SESSION_ANNOUNCE';
