/**
 * Lists and follows the lines of an audit. Reads the files as streams from the newest back, stores at most the lines that
 * were asked for, and may run while a host writes and rotates them. Called by `handfast audit ls`.
 *
 * It proves nothing: lines that cannot be read are counted and left out, and `verify.ts` says what is wrong with them.
 */
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { isObject } from '../../wire/json.ts';
import { capabilityOfType } from '../capability-of-type.ts';
import type { AuditRecord } from './record.ts';
import { HALF_LINE, linesOf, newestFiles, noAudit, type OpenedFile, openChain } from './stored-lines.ts';

/** A stored line: the record, with its place in the chain. */
export interface AuditLine extends AuditRecord {
  /** Its number in the chain. */
  readonly n: number;
}

/** Which lines are listed. What is left out matches all. */
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
}

export interface AuditPage {
  /** The newest line is the last. */
  readonly lines: readonly AuditLine[];
  /** True when older lines match too. */
  readonly more: boolean;
  /** Lines read that are not lines of an audit. */
  readonly unreadable: number;
  /** The newest file of the chain that was read. */
  readonly file: string;
  /** Newest files of other chains beside it: hosts that ran at the same time wrote them. */
  readonly others: readonly string[];
  /** Where the newest file ended: {@link followAudit} continues there. */
  readonly end: AuditPosition;
}

/** A place in a file of an audit. It stays valid when the file is renamed. */
export interface AuditPosition {
  readonly inode: number;
  /** Bytes. */
  readonly offset: number;
}

/** The newest lines that match, of one chain: that of a file, or the first of a folder. Fails with `usage` where none is. */
export async function listAudit(fileOrFolder: string, options: AuditListOptions): Promise<AuditPage> {
  const { limit, before = Number.POSITIVE_INFINITY } = options;
  const [file, ...others] = await newestFiles(fileOrFolder);
  if (file === undefined) throw noAudit(fileOrFolder);
  const opened = await openChain(file);
  let unreadable = 0;
  let lines: AuditLine[] = [];
  let end: AuditPosition | undefined;
  try {
    for (const each of opened.toReversed()) {
      // A line is written after its request arrived: a file that was last written before then has nothing.
      if (end !== undefined && (await each.handle.stat()).mtimeMs < (options.sinceMs ?? 0)) break;
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
    file,
    others,
    end: end as AuditPosition,
  };
}

/** How often a followed audit is looked at. */
const FOLLOW_MS = 300;

/**
 * The lines that match and are written after this position, until the signal aborts, which throws its reason. Lines stay
 * in order when the files are rotated.
 */
export async function* followAudit(
  file: string,
  { filter, from, signal }: { filter: AuditFilter; from: AuditPosition; signal: AbortSignal },
): AsyncGenerator<AuditLine, never> {
  let position = { ...from };
  for (;;) {
    signal.throwIfAborted();
    const found = await stat(file).catch(() => undefined);
    if (found !== undefined && (found.ino !== position.inode || found.size !== position.offset)) {
      const opened = await openChain(file);
      try {
        const known = opened.findIndex(({ inode }) => inode === position.inode);
        for (const each of opened.slice(Math.max(0, known))) {
          if (each.inode !== position.inode) position = { inode: each.inode, offset: 0 };
          for await (const line of readLines(each, position)) {
            if (line !== undefined && matches(line, filter)) yield line;
          }
        }
      } finally {
        for (const { handle } of opened) await handle.close();
      }
    }
    await delay(FOLLOW_MS, undefined, { signal });
  }
}

/** The lines of a file from an offset on, which moves behind each; undefined for one that cannot be read. */
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
