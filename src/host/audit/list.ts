/**
 * Lists and follows the lines of an audit. Reads the files as streams from the newest back, holds at most the requested
 * lines, and may run while a host writes and rotates them.
 *
 * It proves nothing: lines that cannot be read are counted and left out, and `verify.ts` reports their problems.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { capabilityOfType } from '../capability-of-type.ts';
import type { AuditRecord } from './record.ts';
import { HALF_LINE, linesOf, newestFiles, noAudit, type OpenedFile, openChain } from './stored-lines.ts';

/** A stored line: the record, with its place in the chain. */
export interface AuditLine extends AuditRecord {
  /** Its number in the chain. */
  readonly n: number;
}

/** A filter for lines. A missing member matches all. */
export interface AuditFilter {
  /** Requests that arrived at this time or later, epoch milliseconds. */
  readonly sinceMs?: number;
  readonly principal?: string;
  /** A capability by its name on the wire, as `planning`. */
  readonly capability?: string;
  readonly outcome?: string;
  /** Error code of the reply. */
  readonly code?: string;
}

export interface AuditListOptions extends AuditFilter {
  /** Most lines; the newest ones are listed. */
  readonly limit: number;
  /** Only lines with a smaller number: the page before the one whose first line has this number. */
  readonly before?: number;
  /** Of a file also the audits of hosts that ran at the same time. */
  readonly everyHost?: boolean;
}

export interface AuditPage {
  /** The newest line is the last. */
  readonly lines: readonly AuditLine[];
  /** True when older lines match too. */
  readonly more: boolean;
  /** Lines read that are not lines of an audit. */
  readonly unreadable: number;
  /** Positions at which the newest file of each chain that was read ended: {@link followAudit} continues there. */
  readonly ends: readonly AuditEnd[];
}

/** The newest file of a chain, and the position up to which it was read. */
export interface AuditEnd {
  readonly file: string;
  readonly position: AuditPosition;
}

/** A place in a file of an audit. It stays valid when the file is renamed. */
export interface AuditPosition {
  readonly inode: number;
  /** Bytes. */
  readonly offset: number;
}

/**
 * Returns the newest matching lines, by their time: of a file, or of all chains of a folder. Fails with `usage` if no
 * audit is found, and for `before` with several chains, each of which counts its own lines.
 */
export async function listAudit(fileOrFolder: string, options: AuditListOptions): Promise<AuditPage> {
  const { limit, before } = options;
  const files = await newestFiles(fileOrFolder, options);
  if (files.length === 0) throw noAudit(fileOrFolder);
  if (files.length > 1 && before !== undefined) {
    throw fail('usage', `the number of a line is that of one audit; name its file: ${files.join(', ')}`);
  }
  const pages: ChainPage[] = [];
  for (const file of files) pages.push(await listChain(file, options));
  const lines = pages.flatMap((page) => page.lines).sort((one, other) => one.time - other.time);
  return {
    lines: lines.slice(-limit),
    more: lines.length > limit || pages.some(({ more }) => more),
    unreadable: pages.reduce((sum, page) => sum + page.unreadable, 0),
    ends: pages.map(({ end }) => end),
  };
}

interface ChainPage extends Pick<AuditPage, 'lines' | 'more' | 'unreadable'> {
  readonly end: AuditEnd;
}

async function listChain(file: string, options: AuditListOptions): Promise<ChainPage> {
  const { limit, before = Number.POSITIVE_INFINITY } = options;
  const opened = await openChain(file);
  let unreadable = 0;
  let lines: AuditLine[] = [];
  let end: AuditPosition | undefined;
  try {
    for (const each of opened.toReversed()) {
      // A line is written after its request arrived: a file that was last written before then has nothing. An older one may
      // have: the clock was set back.
      if (end !== undefined && (await each.handle.stat()).mtimeMs < (options.sinceMs ?? 0)) continue;
      const found: AuditLine[] = [];
      const position = { inode: each.inode, offset: 0 };
      end ??= position;
      for await (const line of readLines(each, position)) {
        if (line === undefined) unreadable += 1;
        else if (line.n < before && matches(line, options)) found.push(line);
        if (found.length > 2 * limit + 1) found.splice(0, limit);
      }
      lines = [...found, ...lines];
      if (lines.length > limit) break;
    }
  } finally {
    for (const { handle } of opened) await handle.close();
  }
  return {
    lines: lines.slice(-limit),
    more: lines.length > limit,
    unreadable,
    end: { file, position: end as AuditPosition },
  };
}

/** Interval of checks of a followed audit. */
const FOLLOW_MS = 300;

/**
 * Yields the matching lines that are written after these positions, until the signal aborts, which throws its reason.
 * Lines of a chain stay in order when its files are rotated.
 */
export async function* followAudit(
  ends: readonly AuditEnd[],
  { filter, signal }: { filter: AuditFilter; signal: AbortSignal },
): AsyncGenerator<AuditLine, never> {
  const followed = ends.map(({ file, position }) => ({ file, position: { ...position } }));
  for (;;) {
    signal.throwIfAborted();
    for (const chain of followed) yield* newLines(chain, filter);
    await delay(FOLLOW_MS, undefined, { signal });
  }
}

/** Yields the lines after the position of a chain, and moves the position to its end. */
async function* newLines(
  chain: { readonly file: string; position: { readonly inode: number; offset: number } },
  filter: AuditFilter,
): AsyncGenerator<AuditLine, void> {
  const found = await stat(chain.file).catch(() => undefined);
  if (found === undefined || (found.ino === chain.position.inode && found.size === chain.position.offset)) return;
  const opened = await openChain(chain.file);
  try {
    const known = opened.findIndex(({ inode }) => inode === chain.position.inode);
    for (const each of opened.slice(Math.max(0, known))) {
      if (each.inode !== chain.position.inode) chain.position = { inode: each.inode, offset: 0 };
      for await (const line of readLines(each, chain.position)) {
        if (line !== undefined && matches(line, filter)) yield line;
      }
    }
  } finally {
    for (const { handle } of opened) await handle.close();
  }
}

/**
 * Yields the lines of a file from an offset on, and moves the offset after each; undefined for a line that cannot be
 * read.
 */
async function* readLines(
  { handle }: OpenedFile,
  position: { offset: number },
): AsyncGenerator<AuditLine | undefined, void> {
  for await (const bytes of linesOf(handle, position.offset)) {
    // The line is being written, or its host was killed.
    if (bytes === HALF_LINE) return;
    if (typeof bytes === 'string') {
      yield undefined;
      return;
    }
    position.offset += bytes.length + 1;
    yield lineOf(bytes);
  }
}

function lineOf(bytes: Buffer): AuditLine | undefined {
  try {
    const line: unknown = JSON.parse(bytes.toString('utf8'));
    const { n, time, type } = isObject(line) ? line : {};
    return Number.isInteger(n) && typeof time === 'number' && typeof type === 'string'
      ? (line as unknown as AuditLine)
      : undefined;
  } catch {
    return undefined;
  }
}

function matches(line: AuditLine, { sinceMs, principal, capability, outcome, code }: AuditFilter): boolean {
  return (
    (sinceMs === undefined || line.time >= sinceMs) &&
    (principal === undefined || line.principal === principal) &&
    (capability === undefined || capabilityOf(line.type) === capability) &&
    (outcome === undefined || line.outcome === outcome) &&
    (code === undefined || line.error_code === code)
  );
}

/** Capabilities of packages have their name as the first part of their types. */
const capabilityOf = (type: string): string => capabilityOfType(type) ?? type.split('/', 1)[0]!;
