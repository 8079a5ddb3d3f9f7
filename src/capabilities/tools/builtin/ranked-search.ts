/**
 * The work of `search_files`: passages of the workspace's text files by words, ranked by BM25. Runs in the search thread
 * (`search-worker.ts`), which is stopped from outside.
 *
 * Each search walks the tree, reads new and changed files, by time and size, removes deleted ones, and queries the index. The
 * returned passages are read from the files again, by the path rules of the caller.
 */
import { closeSync, type Stats } from 'node:fs';
import { isDamage } from '../../../base/sqlite/failure.ts';
import type { PathGuard } from '../../../base/workspace/protected-paths.ts';
import { locate, openFile } from '../../../base/workspace/workspace-path.ts';
import { pathFilter } from './glob-pattern.ts';
import { type FileKind, type IndexChange, type IndexedFile, PassageIndex } from './passage-index.ts';
import { matchOf, type Passage, passagesOf } from './passages.ts';
import { readWhole } from './read-whole.ts';
import type { SearchProgress } from './search-progress.ts';
import { looksBinary } from './text-bytes.ts';
import { type WalkedFile, walkTree } from './tree-walk.ts';
import { openTree } from './workspace-tree.ts';

/** Larger files are skipped and counted. */
const MAX_FILE_BYTES = 1024 * 1024;
/** Maximum number of indexed files of a workspace. */
const MAX_FILES = 50_000;
/** Maximum size of the index. */
const MAX_INDEX_BYTES = 256 * 1024 * 1024;
/** Files and text that are written to the index together; a stopped search loses no more. */
const BATCH_FILES = 200;
const BATCH_CHARACTERS = 4 * 1024 * 1024;
/** Part of the timeout after which no further file is read, so that the index can still be queried. */
const READING_PART = 0.6;
const MAX_PER_FILE = 3;
const MAX_LINE = 400;

export interface RankedArgs {
  readonly query: string;
  readonly path: string;
  readonly globs: readonly string[];
  readonly limit: number;
  readonly time_limit_seconds: number;
}

export interface FoundPassage {
  /** Path relative to the workspace. */
  readonly path: string;
  readonly line: number;
  readonly end_line: number;
  readonly score: number;
  readonly text: string;
}

export interface RankedResult {
  /** The best first. */
  readonly passages: readonly FoundPassage[];
  readonly files_searched: number;
  /** False when not all files are in the index. */
  readonly complete: boolean;
  readonly truncated: boolean;
  readonly skipped: { readonly binary: number; readonly too_large: number; readonly unreadable: number };
}

/** Limits of the index; tests use smaller ones. */
export interface IndexLimits {
  readonly maxFiles?: number;
  readonly maxBytes?: number;
  /** Milliseconds for reading; default a part of the timeout. */
  readonly readingMs?: number;
}

/** Searches a directory. Fails with a reason of `base/workspace/file-error.ts`. */
export async function rankFiles(
  workspace: string,
  args: RankedArgs,
  indexFile: string,
  spot: SearchProgress,
  guard?: PathGuard,
  limits: IndexLimits = {},
): Promise<RankedResult> {
  const search = () => searchOnce(workspace, args, indexFile, spot, guard, limits);
  try {
    return await search();
  } catch (thrown) {
    if (!isDamage(thrown)) throw thrown;
    PassageIndex.remove(indexFile);
    return search();
  }
}

async function searchOnce(
  workspace: string,
  args: RankedArgs,
  indexFile: string,
  spot: SearchProgress,
  guard: PathGuard | undefined,
  { maxFiles = MAX_FILES, maxBytes = MAX_INDEX_BYTES, readingMs }: IndexLimits,
): Promise<RankedResult> {
  const untilMs = performance.now() + (readingMs ?? args.time_limit_seconds * 1000 * READING_PART);
  await using tree = await openTree(workspace, args.path, { guard });
  using index = PassageIndex.open(indexFile, { maxBytes, waitMs: args.time_limit_seconds * 250 });
  const notes = { unreadable: 0, tooDeep: 0 };
  const walk = walkTree(tree.root, tree.start, tree.path, { gitignore: true, hidden: true, mayHold, guard }, notes);
  const top = tree.path === '.' ? '' : `${tree.path}/`;
  const visit = refresh(walk, index, { top, maxFiles, untilMs, spot });
  const files = index.files();
  const { globs, limit } = args;
  const filter = pathFilter(globs);
  const searched = new Map<number, string>();
  const skipped = { binary: 0, too_large: 0, unreadable: visit.unreadable + notes.unreadable + notes.tooDeep };
  for (const [path, { id, kind }] of files) {
    // After an incomplete walk, files that it has not seen may exist.
    if (!(visit.wasWhole ? visit.seen.has(path) : path.startsWith(top)) || !filter.matches(path.slice(top.length)))
      continue;
    if (kind === 'text') searched.set(id, path);
    else skipped[kind] += 1;
  }
  const reader = new PassageReader(workspace, guard);
  const passages: FoundPassage[] = [];
  let truncated = false;
  const counts = new Map<string, number>();
  const match = matchOf(args.query);
  for (const { fileId, at, score } of match === undefined ? [] : index.search(match)) {
    const path = searched.get(fileId);
    if (path === undefined) continue;
    const count = counts.get(path) ?? 0;
    if (count === MAX_PER_FILE) continue;
    const passage = await reader.read(path, at);
    if (passage === undefined) continue;
    if (passages.length === limit) {
      truncated = true;
      break;
    }
    counts.set(path, count + 1);
    const { line, endLine } = passage;
    passages.push({ path, line, end_line: endLine, score: Math.round(score * 1000) / 1000, text: shortened(passage) });
  }
  return { passages, files_searched: searched.size, complete: visit.isComplete, truncated, skipped };
}

const mayHold = (): boolean => true;

interface Visit {
  /** Paths of the files that may be searched. */
  readonly seen: ReadonlySet<string>;
  /** True when the walk saw all files. */
  readonly wasWhole: boolean;
  /** True when the index also has all of them. */
  readonly isComplete: boolean;
  readonly unreadable: number;
}

/** Updates the index to the files of the walk, as far as time and limits allow. */
function refresh(
  walk: Iterable<WalkedFile>,
  index: PassageIndex,
  {
    top,
    maxFiles,
    untilMs,
    spot,
  }: {
    readonly top: string;
    readonly maxFiles: number;
    readonly untilMs: number;
    readonly spot: SearchProgress;
  },
): Visit {
  const known = index.files();
  const seen = new Set<string>();
  let unreadable = 0;
  let wasWhole = true;
  let isComplete = true;
  let changes: IndexChange[] = [];
  let characters = 0;
  const write = () => {
    if (changes.length > 0 && !index.apply(changes)) isComplete = false;
    changes = [];
    characters = 0;
  };
  for (const file of walk) {
    // The target of a link is found under its own name, or is not in the workspace.
    if (file.link) continue;
    spot.start(file.path);
    if (seen.size === maxFiles || performance.now() > untilMs) {
      wasWhole = false;
      break;
    }
    const stats = file.stats();
    if (stats === undefined) {
      unreadable += 1;
      continue;
    }
    seen.add(file.path);
    const state = stateOf(stats);
    // A full index gets no further files; removing changed files keeps the rest true.
    if (known.get(file.path)?.state === state) continue;
    const change = isComplete ? read(file, stats, state) : { removed: file.path };
    if (change === undefined) {
      unreadable += 1;
      continue;
    }
    changes.push(change);
    if ('passages' in change) for (const { text } of change.passages) characters += text.length;
    if (changes.length >= BATCH_FILES || characters >= BATCH_CHARACTERS) write();
  }
  if (wasWhole) removeMissing(known, seen, top, changes);
  write();
  return { seen, wasWhole, isComplete: isComplete && wasWhole, unreadable };
}

function removeMissing(
  known: ReadonlyMap<string, IndexedFile>,
  seen: ReadonlySet<string>,
  top: string,
  changes: IndexChange[],
): void {
  for (const path of known.keys()) if (path.startsWith(top) && !seen.has(path)) changes.push({ removed: path });
}

/** Returns the state of a file, with the inode and its time of change: a replacement of equal size and time is another file. */
const stateOf = ({ size, mtimeMs, ctimeMs, ino }: Stats): string => `${size} ${mtimeMs} ${ctimeMs} ${ino}`;

function read(file: WalkedFile, { size }: Stats, state: string): IndexChange | undefined {
  const change = (kind: FileKind, passages: readonly Passage[] = []) => ({ path: file.path, state, kind, passages });
  if (size > MAX_FILE_BYTES) return change('too_large');
  const fd = file.open();
  if (fd === undefined) return undefined;
  try {
    const content = readWhole(fd, size);
    return looksBinary(content) ? change('binary') : change('text', passagesOf(content.toString('utf8')));
  } finally {
    closeSync(fd);
  }
}

/** Reads passages of files, each file once. */
class PassageReader {
  readonly #workspace: string;
  readonly #guard: PathGuard | undefined;
  readonly #texts = new Map<string, readonly Passage[]>();

  constructor(workspace: string, guard: PathGuard | undefined) {
    this.#workspace = workspace;
    this.#guard = guard;
  }

  /** Returns a passage; undefined if the file is deleted, may not be read, or is shorter by now. */
  async read(path: string, at: number): Promise<Passage | undefined> {
    let passages = this.#texts.get(path);
    if (passages === undefined) {
      passages = await this.#passagesOf(path);
      this.#texts.set(path, passages);
    }
    return passages[at];
  }

  async #passagesOf(path: string): Promise<readonly Passage[]> {
    try {
      await using place = await locate(this.#workspace, path, { guard: this.#guard });
      const { handle, stats } = await openFile(place);
      try {
        return stats.size > MAX_FILE_BYTES ? [] : passagesOf(readWhole(handle.fd, stats.size).toString('utf8'));
      } finally {
        await handle.close();
      }
    } catch {
      return [];
    }
  }
}

function shortened({ text }: Passage): string {
  return text
    .split('\n')
    .map((line) => (line.length <= MAX_LINE ? line : `${line.slice(0, MAX_LINE).toWellFormed()}…`))
    .join('\n');
}
