/**
 * Opens the two directories of a search: the workspace, whose `.gitignore` files apply, and the start of the search.
 */
import { bestAddressing, HeldDirectory } from '../../../base/workspace/held-directory.ts';
import { holdDirectory, type LocateOptions } from '../../../base/workspace/workspace-path.ts';

/** Disposing it closes both directories. */
export interface WorkspaceTree extends AsyncDisposable {
  readonly root: HeldDirectory;
  readonly start: HeldDirectory;
  /** Path of `start` relative to the workspace, links resolved; `.` for the workspace. */
  readonly path: string;
}

/** Opens a directory of the workspace for a walk. Fails as {@link holdDirectory} does. */
export async function openTree(workspace: string, path: string, options: LocateOptions = {}): Promise<WorkspaceTree> {
  const { directory: start, path: resolved } = await holdDirectory(workspace, path, options);
  try {
    const root = await HeldDirectory.openTrusted(workspace, options.addressing ?? bestAddressing);
    const close = async () => {
      await start.close();
      await root.close();
    };
    return { root, start, path: resolved, [Symbol.asyncDispose]: close };
  } catch (error) {
    await start.close();
    throw error;
  }
}
