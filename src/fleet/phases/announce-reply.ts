/**
 * Phase 2: the SESSION_ANNOUNCE that a worker puts into its first reply, beside its prose. It is read from replies of peers
 * whose binding carries only text, before the search for a result.
 *
 * A program wrote the block, so nothing is repaired. The caller must assign the profile to the peer that the transport
 * authenticated, not to the `agent_id` in the block.
 * @see docs/fleet-phases.md#announce-in-the-reply
 */
import { decode } from '../messages/decode.ts';
import type { Announced, Finding } from '../messages/decoded.ts';
import { candidates } from './candidates.ts';

/** The announce in a reply, if it has one, and the rest of the reply. */
export interface AnnouncedReply {
  readonly found: boolean;
  readonly profile?: Announced;
  /** The reply without the block, trimmed, with LF line ends. */
  readonly prose: string;
  /** Errors of the blocks that mention an announce and are not a valid one; for the log. */
  readonly refused: readonly Finding[];
}

/** Returns the first valid announce of a reply. */
export function announceInReply(text: string): AnnouncedReply {
  const reply = text.replace(/\r\n?/g, '\n');
  const refused: Finding[] = [];
  for (const candidate of reply.includes(WORD) ? candidates(reply, false) : []) {
    if (!candidate.text.includes(WORD)) continue;
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
