/**
 * The format of an audit line and its chain, shared by the writer (`audit.ts`) and the verifier (`verify.ts`).
 *
 * A line is one JSON object. Its last two fields chain it: `prev` is the hash of the line before, across files and
 * restarts, and `hash` is the SHA-256 of the bytes of this line before `,"hash":`. Bytes are hashed unchanged, so any
 * tool can check a line without writing JSON, and a changed blank counts as a change. `n` counts the lines from 1, so
 * that a missing line is distinguished from a changed one.
 */

/** `prev` of the first line of a chain. */
export const GENESIS = '0'.repeat(64);

/** Longest line the readers accept, in bytes. The writer clips its texts, so its lines stay far below. */
export const MAX_LINE_BYTES = 64 * 1024;

/** Longest text of one field, in characters: types and tool names come from peers. */
const MAX_TEXT_CHARACTERS = 256;

/** `,"hash":"<64 digits>"}` closes every line. */
const SEAL = /,"hash":"([0-9a-f]{64})"\}$/;
const SEAL_BYTES = ',"hash":""}'.length + 64;

/** The first line of every file but the first: names the oldest stored line, so that a removed file is detected. */
export const ROTATED = 'audit/rotated';
/** Written when the queue accepts records again: how many it dropped. */
export const DROPPED = 'audit/dropped';

/** The end of a chain. */
export interface ChainHead {
  /** Number of the last line; 0 before the first. */
  readonly n: number;
  /** Its hash; {@link GENESIS} before the first. */
  readonly hash: string;
}

export const CHAIN_START: ChainHead = Object.freeze({ n: 0, hash: GENESIS });

/** The position of a line in its chain. */
export interface ChainLink extends ChainHead {
  readonly prev: string;
  readonly type: unknown;
  /** In a {@link ROTATED} line: the number of the oldest line that is stored. */
  readonly oldest: unknown;
  /** SHA-256 of the bytes that `hash` covers. */
  readonly actual: string;
}

/**
 * Returns the hash function, loaded with the first line: loading takes milliseconds, and a starting host must not wait
 * for it.
 */
const loadHash = () => process.getBuiltinModule('node:crypto').hash;

/** Shortens a text of a peer. */
export function clip(text: string): string {
  return text.length > MAX_TEXT_CHARACTERS ? `${text.slice(0, MAX_TEXT_CHARACTERS)}…` : text;
}

/** A sealed line with its newline, its length in bytes, and its hash. */
export interface SealedLine {
  readonly line: string;
  readonly bytes: number;
  readonly hash: string;
}

/** Creates the function that seals lines: JSON objects as `JSON.stringify` writes them, with `prev` as the last field. */
export function createSealer(): (open: string) => SealedLine {
  const hashOf = loadHash();
  return (open) => {
    const body = open.slice(0, -1);
    const hash = hashOf('sha256', body, 'hex');
    return { line: `${body},"hash":"${hash}"}\n`, bytes: Buffer.byteLength(body) + SEAL_BYTES + 1, hash };
  };
}

/** Reads a line without its newline; undefined when it is not an audit line. Its hash is computed, not compared. */
export function readLink(line: Buffer): ChainLink | undefined {
  const text = line.toString('utf8');
  const sealed = SEAL.exec(text);
  if (sealed === null) return undefined;
  try {
    const { n, prev, type, oldest } = JSON.parse(text) as Record<string, unknown>;
    if (typeof n !== 'number' || !Number.isSafeInteger(n) || n < 1 || typeof prev !== 'string') return undefined;
    const actual = loadHash()('sha256', line.subarray(0, line.length - SEAL_BYTES), 'hex');
    return { n, hash: sealed[1]!, prev, type, oldest, actual };
  } catch {
    return undefined;
  }
}
