/**
 * The work of `glob`: files of the workspace by name. Runs in the search thread (`search-worker.ts`).
 */
import type { PathGuard } from '../../../base/workspace/protected-paths.ts';
import { pathFilter } from './glob-pattern.ts';
import type { SearchProgress } from './search-progress.ts';
import { walkTree } from './tree-walk.ts';
import { openTree } from './workspace-tree.ts';

/** Maximum characters of returned paths, regardless of the limit. */
const MAX_CHARACTERS = 256 * 1024;

export interface GlobArgs {
  readonly patterns: readonly string[];
  readonly path: string;
  readonly gitignore: boolean;
  readonly hidden: boolean;
  readonly limit: number;
  readonly time_limit_seconds: number;
}

export interface FoundFiles {
  /** Paths relative to the workspace, sorted. */
  readonly paths: readonly string[];
  readonly truncated: boolean;
  /** Directories that could not be read or lie too deep. */
  readonly skipped: number;
}

/** Finds files and links by pattern. Fails with `not_found` or `not_a_directory` for the start directory. */
export async function globFiles(
  workspace: string,
  args: GlobArgs,
  spot: SearchProgress,
  guard?: PathGuard,
): Promise<FoundFiles> {
  const filter = pathFilter(args.patterns);
  await using tree = await openTree(workspace, args.path, { guard });
  const notes = { unreadable: 0, tooDeep: 0 };
  const options = { gitignore: args.gitignore, hidden: args.hidden, mayHold: filter.mayHold, guard };
  const paths: string[] = [];
  let characters = 0;
  let truncated = false;
  for (const file of walkTree(tree.root, tree.start, tree.path, options, notes)) {
    spot.start(file.path);
    if (!filter.matches(file.fromStart)) continue;
    characters += file.path.length;
    if (paths.length === args.limit || characters > MAX_CHARACTERS) {
      truncated = true;
      break;
    }
    paths.push(file.path);
  }
  return { paths, truncated, skipped: notes.unreadable + notes.tooDeep };
}
