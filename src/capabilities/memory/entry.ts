/**
 * Checks received entries, and reports the problem of an invalid one in words that its sender can act on.
 *
 * @see docs/protocol/a2e.md#memory-messages
 */
import { isObject } from '../../wire/json.ts';
import { type NewEntry, TIERS, type Tier } from './engine/types.ts';
import { keyOf, type MemoryKey } from './key.ts';

const MAX_TAGS = 64;
const MAX_TAG = 256;
const MAX_SOURCE = 1024;
const MAX_SUPERSEDES = 64;
const MAX_TTL_S = 2 ** 31;

/** An entry that may be stored, or the reason why not. */
export type CheckedEntry = { readonly entry: NewEntry } | { readonly problem: string };

export const isTier = (value: unknown): value is Tier => TIERS.includes(value as Tier);

/** Checks an entry. `now` is epoch seconds. */
export function checkEntry(given: unknown, now: number): CheckedEntry {
  try {
    return { entry: readEntry(given, now) };
  } catch (thrown) {
    if (thrown instanceof Problem) return { problem: thrown.message };
    throw thrown;
  }
}

/** The problem of an entry; never leaves this file. */
class Problem extends Error {}

function readEntry(given: unknown, now: number): NewEntry {
  if (!isObject(given)) throw new Problem('an entry must be an object');
  const { content, tier, tags = [], source = '', metadata, supersedes = [] } = given;
  const key = keyOf(given.key);
  if (key === undefined) throw new Problem('key must be an object or a text');
  if (content === undefined) throw new Problem('content is missing');
  if (!isTier(tier)) throw new Problem('tier must be working, episodic or semantic');
  if (!isTexts(tags, MAX_TAGS, MAX_TAG))
    throw new Problem(`tags must be at most ${MAX_TAGS} texts of at most ${MAX_TAG} characters`);
  if (typeof source !== 'string' || source.length > MAX_SOURCE)
    throw new Problem(`source must be a text of at most ${MAX_SOURCE} characters`);
  if (metadata !== undefined && metadata !== null && !isObject(metadata))
    throw new Problem('metadata must be an object');
  const validFrom = time(given, 'valid_from');
  const validUntil = time(given, 'valid_until');
  if (validUntil !== undefined && validUntil <= (validFrom ?? Number.NEGATIVE_INFINITY)) {
    throw new Problem('valid_until must be after valid_from');
  }
  const createdAt = time(given, 'created_at') ?? now;
  return {
    key,
    content,
    tier,
    tags: tags as string[],
    source,
    score: finite(given, 'score') ?? 1,
    ttl: ttlOf(given),
    expiresAt: expiryOf(given, now),
    createdAt,
    updatedAt: time(given, 'updated_at') ?? now,
    validFrom,
    validUntil,
    supersedes: keysIn(supersedes),
    metadata: isObject(metadata) ? metadata : undefined,
  };
}

function ttlOf({ ttl = 0 }: Readonly<Record<string, unknown>>): number {
  if (typeof ttl !== 'number' || !Number.isInteger(ttl)) throw new Problem('ttl must be a whole number of seconds');
  if (ttl < 0) throw new Problem('ttl must not be negative');
  if (ttl > MAX_TTL_S) throw new Problem(`ttl must be at most ${MAX_TTL_S}`);
  return ttl;
}

function expiryOf(given: Readonly<Record<string, unknown>>, now: number): number | undefined {
  const expiresAt = time(given, 'expires_at');
  if (expiresAt === undefined) return undefined;
  if (ttlOf(given) === 0) throw new Problem('expires_at needs a ttl');
  if (expiresAt <= now) throw new Problem('it has expired');
  if (expiresAt > now + MAX_TTL_S) throw new Problem(`expires_at must be at most ${MAX_TTL_S} seconds from now`);
  return expiresAt;
}

function keysIn(supersedes: unknown): MemoryKey[] {
  const keys = Array.isArray(supersedes) ? supersedes.map(keyOf) : [];
  if (!Array.isArray(supersedes) || keys.length > MAX_SUPERSEDES || keys.includes(undefined)) {
    throw new Problem(`supersedes must be at most ${MAX_SUPERSEDES} keys`);
  }
  return keys as MemoryKey[];
}

/** Reads a time in epoch seconds; undefined if absent. */
function time(given: Readonly<Record<string, unknown>>, name: string): number | undefined {
  const value = finite(given, name);
  if (value !== undefined && Math.abs(value) > 1e12) throw new Problem(`${name} must be epoch seconds`);
  return value;
}

function finite(given: Readonly<Record<string, unknown>>, name: string): number | undefined {
  const value = given[name];
  if (value === undefined || value === null) return undefined;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new Problem(`${name} must be a number`);
}

const isTexts = (value: unknown, most: number, longest: number): boolean =>
  Array.isArray(value) &&
  value.length <= most &&
  value.every((text) => typeof text === 'string' && text.length <= longest);
