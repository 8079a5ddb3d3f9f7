/**
 * The work of `move_file`, `delete_file` and `make_directory`. Loaded on the first call.
 *
 * Both ends of a move are entries of directories that are held open, so no path is followed after it was checked.
 */
import { linkSync, lstatSync, renameSync, rmdirSync, unlinkSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { errnoOf, fileError, fileFailure, outsideWorkspace } from '../../../base/workspace/file-error.ts';
import { locate, type ResolvedPath } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { result, type ShapedResult } from '../../tools/tool.ts';

export interface MoveArgs {
  readonly from: string;
  readonly to: string;
}

export interface DeleteArgs {
  readonly path: string;
}

export interface MakeArgs {
  readonly path: string;
}

const forChange = ({ pathGuard: guard }: CallContext) => ({ guard, access: 'change' }) as const;

/** Moves an entry. Fails with `tool_error` (`not_found`, `exists`, …) and `tool_denied` as `locate` does. */
export async function moveEntry(
  { from, to }: MoveArgs,
  context: CallContext,
): Promise<ShapedResult<{ readonly from: string; readonly to: string }>> {
  await using source = await locate(context.workspace, from, forChange(context));
  await using target = await locate(context.workspace, to, forChange(context));
  mustBeThere(source);
  if (target.kind !== 'missing') throw fileFailure('exists', to, 'exists already');
  mustHoldNothingProtected(source, context);
  context.signal.throwIfAborted();
  await mustStand(source, target);
  const [old, place] = [source.parent.at(source.name), target.parent.at(target.name)];
  try {
    // A link fails if the new name exists by now; directories have no links, and a rename replaces only an empty one.
    if (source.kind === 'file') {
      linkSync(old, place);
      unlinkSync(old);
    } else renameSync(old, place);
  } catch (error) {
    if (errnoOf(error) === 'EEXIST' || errnoOf(error) === 'ENOTEMPTY')
      throw fileFailure('exists', to, 'exists already');
    throw fileError(error, from);
  }
  for (const { parent } of [source, target]) await parent.sync();
  return result({ from: source.path, to: target.path }, { summary: `moved ${source.path} to ${target.path}` });
}

/** Deletes a file or an empty directory. For a link, deletes its target. */
export async function deleteEntry(
  { path }: DeleteArgs,
  context: CallContext,
): Promise<ShapedResult<{ readonly path: string }>> {
  await using place = await locate(context.workspace, path, forChange(context));
  mustBeThere(place);
  context.signal.throwIfAborted();
  await mustStand(place);
  const entry = place.parent.at(place.name);
  try {
    if (lstatSync(entry).isDirectory()) rmdirSync(entry);
    else unlinkSync(entry);
  } catch (error) {
    if (errnoOf(error) === 'ENOTEMPTY') throw fileFailure('not_empty', path, 'is not empty');
    throw fileError(error, path);
  }
  await place.parent.sync();
  return result({ path: place.path }, { summary: `deleted ${place.path}` });
}

export async function makeDirectory(
  { path }: MakeArgs,
  context: CallContext,
): Promise<ShapedResult<{ readonly path: string; readonly created: boolean }>> {
  await using place = await locate(context.workspace, path, { ...forChange(context), createDirectories: true });
  if (place.kind === 'directory')
    return result({ path: place.path, created: false }, { summary: `${place.path} exists` });
  if (place.kind !== 'missing') throw fileFailure('exists', path, 'exists, and is not a directory');
  await mustStand(place);
  try {
    await mkdir(place.parent.at(place.name));
  } catch (error) {
    if (errnoOf(error) !== 'EEXIST') throw fileError(error, path);
  }
  await place.parent.sync();
  return result({ path: place.path, created: true }, { summary: `created ${place.path}` });
}

function mustBeThere(place: ResolvedPath): void {
  if (place.kind === 'missing') throw fileFailure('not_found', place.asked, 'does not exist');
  if (place.name === '.') throw fileFailure('is_the_directory', place.asked, 'must be named by its own name');
}

async function mustStand(...places: readonly ResolvedPath[]): Promise<void> {
  for (const { parent, asked } of places) if (!(await parent.confirm())) throw outsideWorkspace(asked);
}

/** Fails for a directory with protected paths in it: a moved directory takes its contents along. */
function mustHoldNothingProtected({ kind, asked, parent, name }: ResolvedPath, { pathGuard }: CallContext): void {
  if (kind !== 'directory' || pathGuard === undefined) return;
  const own = `${parent.realPath}/${name}/`;
  if (pathGuard.present().some(({ path }) => path.startsWith(own))) {
    throw fileFailure('permission_denied', asked, 'holds protected paths and may not be moved');
  }
}
