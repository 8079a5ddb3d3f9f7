/**
 * The work of `edit_file`: read, replace, write in one step, and start again when another writer was faster. Loaded on the
 * first call.
 */

import { isUtf8 } from 'node:buffer';
import { counted } from '../../../base/counted.ts';
import { unifiedDiff } from '../../../base/text-diff.ts';
import { fileError, fileFailure } from '../../../base/workspace/file-error.ts';
import { locate, type ResolvedPath } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { result, type ShapedResult } from '../tool.ts';
import { applyEdits, type Replacement, usesCrlf } from './text-edit.ts';
import { type FileState, type FilesBy, filesFor, type WorkspaceFiles } from './workspace-files.ts';
import { sha256Of } from './write-file.ts';

/** Largest file that is edited in memory. */
const MAX_BYTES = 4 * 1024 * 1024;
/** Times the edit starts again because the file changed in between; each time another writer made progress. */
const MAX_ATTEMPTS = 64;
const BYTE_ORDER_MARK = '\ufeff';

export interface EditFileArgs {
  readonly path: string;
  readonly edits: readonly Replacement[];
}

export interface EditedFile {
  readonly path: string;
  readonly replacements: number;
  readonly bytes: number;
  readonly sha256: string;
  readonly line_endings: 'lf' | 'crlf';
  /** Unified diff of the changes, cut when very long. */
  readonly diff: string;
  /** Present where an editor wrote it. */
  readonly by?: FilesBy;
}

/**
 * Edits a text file in the workspace. Concurrent edits of one file all take effect, one after the other.
 *
 * Fails with `tool_error` and a reason: those of `text-edit.ts`, `not_utf8`, `too_large`, `conflict`, or one of
 * `base/workspace/file-error.ts`. The file is then unchanged.
 */
export async function editFile(args: EditFileArgs, context: CallContext): Promise<ShapedResult<EditedFile>> {
  const files = filesFor(context.editor, 'change');
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    context.signal.throwIfAborted();
    await using place = await locate(context.workspace, args.path, { guard: context.pathGuard, access: 'change' });
    const { text, state } = await readText(place, files, context.signal);
    // The mark is no part of the searched text; it stays where it is.
    const mark = text.startsWith(BYTE_ORDER_MARK) ? BYTE_ORDER_MARK : '';
    const before = text.slice(mark.length);
    const edited = await applyEdits(before, args.edits, context.signal);
    const content = Buffer.from(mark + edited.text, 'utf8');
    const written = await files.replace(place, content, { expect: state, signal: context.signal });
    if (written === undefined) continue;
    const done: EditedFile = {
      path: place.path,
      replacements: edited.replacements,
      bytes: content.length,
      sha256: sha256Of(content),
      line_endings: usesCrlf(edited.text) ? 'crlf' : 'lf',
      diff: await unifiedDiff(before, edited.text),
      ...(written.by && { by: written.by }),
    };
    const places = counted(edited.replacements, 'replacement');
    return result(done, { summary: `${places} in ${place.path}` });
  }
  throw fileFailure('conflict', args.path, 'is changed by others all the time');
}

async function readText(
  place: ResolvedPath,
  files: WorkspaceFiles,
  signal: AbortSignal,
): Promise<{ text: string; state: FileState }> {
  const file = await files.open(place, signal);
  try {
    if (file.size > MAX_BYTES) {
      throw fileFailure('too_large', place.asked, `is larger than ${MAX_BYTES} bytes and cannot be edited`, {
        size: file.size,
      });
    }
    const state = await file.state();
    const content = await file.readAll(signal);
    // Text that is not UTF-8 would not survive being decoded and written again.
    if (!isUtf8(content) || content.includes(0)) {
      throw fileFailure('not_utf8', place.asked, 'is not UTF-8 text and cannot be edited');
    }
    return { text: content.toString('utf8'), state };
  } catch (error) {
    signal.throwIfAborted();
    throw fileError(error, place.asked);
  } finally {
    await file.close();
  }
}
