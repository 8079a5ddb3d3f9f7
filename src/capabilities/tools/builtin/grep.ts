/**
 * The work of `grep`: lines of the workspace's files by content. Runs in the search thread (`search-worker.ts`), where an
 * endless expression can be stopped.
 */
import { closeSync, fstatSync } from 'node:fs';
import { fileFailure } from '../../../base/workspace/file-error.ts';
import type { PathGuard } from '../../../base/workspace/protected-paths.ts';
import { locate, openFile } from '../../../base/workspace/workspace-path.ts';
import { pathFilter } from './glob-pattern.ts';
import { countLines, type LineMatch, type LineTest, lineTest, searchLines } from './line-search.ts';
import { readWhole } from './read-whole.ts';
import type { SearchProgress } from './search-progress.ts';
import { looksBinary } from './text-bytes.ts';
import { walkTree } from './tree-walk.ts';
import { openTree } from './workspace-tree.ts';

/** Larger files are skipped and reported. */
const MAX_FILE_BYTES = 16 * 1024 * 1024;
/** Maximum characters of returned text, regardless of the limit. */
const MAX_CHARACTERS = 192 * 1024;
/** Maximum number of skipped files that the result names; the others are only counted. */
const NAMED_FILES = 20;

export interface GrepArgs {
  readonly pattern: string;
  readonly literal: boolean;
  readonly ignore_case: boolean;
  readonly path: string;
  readonly globs: readonly string[];
  readonly output: 'content' | 'files_with_matches' | 'count';
  readonly before: number;
  readonly after: number;
  readonly limit: number;
  readonly gitignore: boolean;
  readonly hidden: boolean;
  readonly time_limit_seconds: number;
}

export interface MatchedFile {
  /** Path relative to the workspace. */
  readonly path: string;
  /** Only with `output: 'content'`. */
  readonly matches?: readonly LineMatch[];
  /** Matching lines; only with `output: 'count'`. */
  readonly count?: number;
}

export interface GrepResult {
  /** Sorted by path. */
  readonly files: readonly MatchedFile[];
  readonly files_searched: number;
  readonly truncated: boolean;
  readonly skipped: {
    readonly binary: number;
    /** Paths of files over 16 MiB, the first 20. */
    readonly too_large: readonly string[];
    /** Files and directories that may not be read or lie too deep. */
    readonly unreadable: number;
  };
}

/** The state of a running search. */
interface Progress {
  readonly files: MatchedFile[];
  matches: number;
  characters: number;
  searched: number;
  truncated: boolean;
  binary: number;
  readonly tooLarge: string[];
  unreadable: number;
}

/** Searches a file or all files below a directory. Fails with `bad_pattern` or a reason of `base/workspace/file-error.ts`. */
export async function grepFiles(
  workspace: string,
  args: GrepArgs,
  spot: SearchProgress,
  guard?: PathGuard,
): Promise<GrepResult> {
  const test = lineTest(args);
  const progress: Progress = {
    files: [],
    matches: 0,
    characters: 0,
    searched: 0,
    truncated: false,
    binary: 0,
    tooLarge: [],
    unreadable: 0,
  };
  await using place = await locate(workspace, args.path, { guard });
  if (place.kind === 'missing') throw fileFailure('not_found', args.path, 'does not exist');
  if (place.kind === 'directory') await searchTree(workspace, args, test, progress, spot, guard);
  else {
    const { handle } = await openFile(place);
    try {
      spot.start(place.path);
      searchFile(handle.fd, place.path, args, test, progress);
    } finally {
      await handle.close();
    }
  }
  return {
    files: progress.files,
    files_searched: progress.searched,
    truncated: progress.truncated,
    skipped: { binary: progress.binary, too_large: progress.tooLarge, unreadable: progress.unreadable },
  };
}

async function searchTree(
  workspace: string,
  args: GrepArgs,
  test: LineTest,
  progress: Progress,
  spot: SearchProgress,
  guard: PathGuard | undefined,
): Promise<void> {
  const filter = pathFilter(args.globs);
  await using tree = await openTree(workspace, args.path, { guard });
  const notes = { unreadable: 0, tooDeep: 0 };
  const options = { gitignore: args.gitignore, hidden: args.hidden, mayHold: filter.mayHold, guard };
  for (const file of walkTree(tree.root, tree.start, tree.path, options, notes)) {
    // The target of a link is found under its own name, or is not in the workspace.
    if (file.link || !filter.matches(file.fromStart)) continue;
    spot.start(file.path);
    const fd = file.open();
    if (fd === undefined) {
      progress.unreadable += 1;
      continue;
    }
    try {
      searchFile(fd, file.path, args, test, progress);
    } finally {
      closeSync(fd);
    }
    if (progress.truncated) break;
  }
  progress.unreadable += notes.unreadable + notes.tooDeep;
}

function searchFile(fd: number, path: string, args: GrepArgs, test: LineTest, progress: Progress): void {
  const size = fstatSync(fd).size;
  if (size > MAX_FILE_BYTES) {
    if (progress.tooLarge.length < NAMED_FILES) progress.tooLarge.push(path);
    return;
  }
  const content = readWhole(fd, size);
  if (looksBinary(content)) {
    progress.binary += 1;
    return;
  }
  progress.searched += 1;
  // Most files do not contain the text at all, and bytes are searched faster than lines.
  if (args.literal && !args.ignore_case && !content.includes(args.pattern)) return;
  const text = content.toString('utf8');
  // Each case asks for one more than fits, so that it reports further matches only if they exist.
  if (args.output === 'content') {
    const { before, after } = args;
    const { matches, more } = searchLines(text, test, { before, after, limit: args.limit - progress.matches });
    if (matches.length > 0) addMatches({ path, matches }, progress);
    progress.truncated ||= more;
    return;
  }
  const count = args.output === 'count' ? countLines(text, test) : Number(hasMatch(text, test));
  if (count === 0) return;
  if (progress.files.length === args.limit) progress.truncated = true;
  else progress.files.push(args.output === 'count' ? { path, count } : { path });
}

function hasMatch(text: string, test: LineTest): boolean {
  const { matches } = searchLines(text, test, { before: 0, after: 0, limit: 1 });
  return matches.length > 0;
}

/** Adds the matches of one file, as far as they fit into the result. */
function addMatches(file: { path: string; matches: LineMatch[] }, progress: Progress): void {
  progress.characters += file.path.length;
  for (const [index, match] of file.matches.entries()) {
    const lines = [match.text, ...(match.before ?? []), ...(match.after ?? [])];
    progress.characters += lines.reduce((sum, line) => sum + line.length, 0);
    if (progress.characters > MAX_CHARACTERS) {
      progress.truncated = true;
      file.matches.length = index;
      break;
    }
  }
  progress.matches += file.matches.length;
  if (file.matches.length > 0) progress.files.push(file);
}
