/**
 * Shortens a list of subagents that no message of its session may hold: with short texts and without metadata, so that an agent
 * with many subagents, or with long instructions, still finds them. Pure.
 */
import { asciiLength } from '../../wire/ascii.ts';
import { isObject } from '../../wire/json.ts';

/** Maximum characters of a text, and items of a list. */
const MAX_CHARS = 200;
const MAX_ITEMS = 16;
/** Bytes of a list beside its subagents. */
const MAX_FRAME_BYTES = 4 * 1024;

/** Returns the newest subagents that fit, each shortened. */
export function shortList<Reply extends { readonly subagents: readonly unknown[] }>(
  reply: Reply,
  maxBytes: number,
): Reply {
  let bytesLeft = maxBytes - MAX_FRAME_BYTES;
  const subagents: unknown[] = [];
  for (const subagent of reply.subagents.toReversed()) {
    const short = shortened(subagent);
    bytesLeft -= asciiLength(JSON.stringify(short)) + 1;
    if (bytesLeft < 0) break;
    subagents.unshift(short);
  }
  return { ...reply, subagents };
}

function shortened(value: unknown): unknown {
  if (typeof value === 'string') return value.length > MAX_CHARS ? `${value.slice(0, MAX_CHARS - 1)}…` : value;
  if (Array.isArray(value)) return value.slice(0, MAX_ITEMS).map(shortened);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, name === 'metadata' ? {} : shortened(member)]),
  );
}
