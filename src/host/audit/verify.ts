/**
 * Verifies an audit: detects changed, removed, added and moved lines, and missing files. Reads the files as a stream,
 * so their size does not matter, and may run while a host is writing them.
 *
 * A chain proves every change in the stored lines, and every line missing before them. Lines cut off at the end, and a
 * log rewritten from some line on by an attacker who knows the format, are detected only with a hash noted elsewhere:
 * `expectedHead`.
 */
import { stat } from 'node:fs/promises';
import { CHAIN_START, type ChainHead, type ChainLink, GENESIS, ROTATED, readLink } from './chain.ts';
import { filesOf } from './files.ts';
import { HALF_LINE, linesOf, newestFiles, noAudit, type OpenedFile, openChain } from './stored-lines.ts';

/**
 * Reasons of a broken chain:
 *
 * - `unreadable_line`: not a line of an audit
 * - `edited`: the line's hash is not that of its content
 * - `missing_lines`: lines before this one are missing
 * - `missing_file`: a whole file before this line is missing
 * - `reordered`: the line's number is not above the one before it
 * - `rewritten`: numbers fit, but this line was chained to another line than the one before it
 * - `head_missing`: the noted head is not in the chain: its end was cut off or rewritten
 */
export type AuditBreakReason =
  | 'unreadable_line'
  | 'edited'
  | 'missing_lines'
  | 'missing_file'
  | 'reordered'
  | 'rewritten'
  | 'head_missing';

/** The first break of a chain. `line` counts from 1 within the file; 0 when no line is the cause. */
export interface AuditBreak {
  readonly file: string;
  readonly line: number;
  readonly reason: AuditBreakReason;
}

/** One chain: a host's `audit.jsonl` with its rotated files. */
export interface AuditChainReport {
  /** The newest file. */
  readonly file: string;
  /** Number of the first stored line; above 1 once retention has removed files. */
  readonly first: number;
  /** The last line: note it elsewhere, to pass as `expectedHead` another time. */
  readonly head: ChainHead;
  /** The newest file ends in a truncated line: it is being written, or its host was killed. The rest is intact. */
  readonly tornTail: boolean;
}

export interface AuditReport {
  readonly ok: boolean;
  /** Lines read, up to the break of each chain. */
  readonly lines: number;
  readonly files: number;
  readonly chains: readonly AuditChainReport[];
  readonly firstBreak?: AuditBreak;
}

/**
 * Checks the audit whose newest file is `fileOrFolder`, or every audit in that folder; with `everyHost`, for a file,
 * also those of hosts that ran at the same time. `expectedHead` is a hash noted earlier (`head.hash`), which must still
 * be in one of the chains.
 *
 * Fails with `usage` when the path has no audit.
 */
export async function verifyAudit(
  fileOrFolder: string,
  options: { readonly expectedHead?: string; readonly everyHost?: boolean } = {},
): Promise<AuditReport> {
  const chains: AuditChainReport[] = [];
  const breaks: AuditBreak[] = [];
  let lines = 0;
  let files = 0;
  let headSeen = false;
  for (const newest of await newestFiles(fileOrFolder, options)) {
    const result = await verifyLiveChain(newest, options.expectedHead);
    lines += result.lines;
    files += result.files;
    headSeen ||= result.headSeen;
    chains.push(result.report);
    if (result.broken) breaks.push(result.broken);
  }
  if (chains.length === 0) throw noAudit(fileOrFolder);
  if (options.expectedHead !== undefined && !headSeen) {
    breaks.push({ file: chains[0]!.file, line: 0, reason: 'head_missing' });
  }
  const [firstBreak] = breaks;
  return { ok: firstBreak === undefined, lines, files, chains, ...(firstBreak && { firstBreak }) };
}

/** A rotation during the read looks like a missing file. A real break is found again. */
const MAX_ATTEMPTS = 5;

async function verifyLiveChain(newest: string, expectedHead: string | undefined) {
  for (let attempt = 1; ; attempt++) {
    const opened = await openChain(newest);
    try {
      const result = { files: opened.length, ...(await verifyChain(newest, opened, expectedHead)) };
      if (result.broken === undefined || attempt === MAX_ATTEMPTS || (await standsStill(newest, opened))) return result;
    } finally {
      for (const { handle } of opened) await handle.close();
    }
  }
}

/** Returns true when the files of the chain are still the ones that were read. */
async function standsStill(newest: string, opened: readonly OpenedFile[]): Promise<boolean> {
  const files = await filesOf(newest);
  const inodes = await Promise.all(
    files.map(({ path }) =>
      stat(path).then(
        ({ ino }) => ino,
        () => undefined,
      ),
    ),
  );
  const read = opened.map(({ inode }) => inode).reverse();
  return inodes.length === read.length && inodes.every((inode, index) => inode === read[index]);
}

async function verifyChain(newest: string, files: readonly OpenedFile[], expectedHead: string | undefined) {
  let lines = 0;
  let first = 0;
  let oldest = 1;
  let tornTail = false;
  let broken: AuditBreak | undefined;
  let head = CHAIN_START;
  let headSeen = expectedHead === GENESIS;
  let previous: OpenedFile | undefined;

  reading: for (const file of files) {
    let line = 0;
    for await (const bytes of linesOf(file.handle)) {
      line++;
      if (bytes === HALF_LINE && file === files.at(-1)) {
        tornTail = true;
        break;
      }
      const link = typeof bytes === 'string' ? undefined : readLink(bytes);
      const fileGone = line === 1 && previous !== undefined && previous.index - file.index > 1;
      const reason = link === undefined ? 'unreadable_line' : judge(link, head, first === 0, fileGone);
      if (reason !== undefined || link === undefined) {
        broken = { file: file.path, line, reason: reason ?? 'unreadable_line' };
        break reading;
      }
      if (first === 0) first = link.n;
      if (link.type === ROTATED && typeof link.oldest === 'number') oldest = link.oldest;
      lines++;
      head = { n: link.n, hash: link.hash };
      headSeen ||= link.hash === expectedHead;
    }
    previous = file;
  }
  // Retention may remove the oldest files, but the first line of each later file names the oldest stored line.
  if (broken === undefined && first > oldest) broken = { file: files[0]!.path, line: 1, reason: 'missing_file' };
  return { lines, headSeen, broken, report: { file: newest, first, head, tornTail } };
}

/** Returns the reason why a line cannot follow `head`; undefined when it can. */
function judge(link: ChainLink, head: ChainHead, isFirst: boolean, fileGone: boolean): AuditBreakReason | undefined {
  if (link.hash !== link.actual) return 'edited';
  if (isFirst) return link.n === 1 && link.prev !== GENESIS ? 'rewritten' : undefined;
  if (link.n > head.n + 1) return fileGone ? 'missing_file' : 'missing_lines';
  if (link.n <= head.n) return 'reordered';
  return link.prev === head.hash ? undefined : 'rewritten';
}
