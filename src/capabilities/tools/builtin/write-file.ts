/**
 * The work of `write_file`: whole-file writes in one step. Loaded on the first call.
 */
import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';
import { counted } from '../../../base/counted.ts';
import { fileFailure } from '../../../base/workspace/file-error.ts';
import { locate, type ResolvedPath } from '../../../base/workspace/workspace-path.ts';
import type { CallContext } from '../../../host/context.ts';
import { fail } from '../../../wire/errors.ts';
import { result, type ShapedResult } from '../tool.ts';
import { type FileState, type FilesBy, filesFor, type WorkspaceFiles } from './workspace-files.ts';

export interface WriteFileArgs {
  readonly path: string;
  readonly content: string;
  readonly encoding: 'utf-8' | 'base64';
  readonly create_dirs: boolean;
  readonly overwrite: boolean;
  readonly expected_sha256?: string;
}

export interface WrittenFile {
  readonly path: string;
  readonly bytes: number;
  readonly created: boolean;
  readonly sha256: string;
  /** Present where an editor wrote it. */
  readonly by?: FilesBy;
}

/**
 * Writes `content` to a file in the workspace.
 *
 * Fails with `tool_error` and a reason: `exists` (with `overwrite: false`), `conflict` (the file is not the one
 * `expected_sha256` names), `invalid_base64`, or one of `base/workspace/file-error.ts`.
 */
export async function writeFile(args: WriteFileArgs, context: CallContext): Promise<ShapedResult<WrittenFile>> {
  const content = decodeContent(args);
  await using place = await locate(context.workspace, args.path, {
    createDirectories: args.create_dirs,
    guard: context.pathGuard,
    access: 'change',
  });
  context.signal.throwIfAborted();
  const files = filesFor(context.editor, isText(content) ? 'change' : 'bytes');
  const before = await checkExpected(args, place, files, context.signal);
  if (!args.overwrite && place.kind === 'file') throw fileFailure('exists', args.path, 'exists already');
  const expect = args.overwrite ? (before ?? 'anything') : 'nothing';
  const done = await files.replace(place, content, { expect, signal: context.signal });
  if (done === undefined) {
    if (!args.overwrite) throw fileFailure('exists', args.path, 'exists already');
    throw fileFailure('conflict', args.path, 'was changed by another writer while it was being written');
  }
  const created = place.kind === 'missing';
  const { by } = done;
  const written = { path: place.path, bytes: content.length, created, sha256: sha256Of(content), ...(by && { by }) };
  return result(written, {
    summary: `${created ? 'created' : 'replaced'} ${place.path} (${counted(content.length, 'byte')})`,
  });
}

function decodeContent(args: WriteFileArgs): Buffer {
  if (args.encoding === 'utf-8') return Buffer.from(args.content, 'utf8');
  const compact = args.content.replace(/\s+/g, '');
  // Buffer.from skips invalid characters, which would write unintended bytes.
  if (!/^[A-Za-z0-9+/]*={0,2}$/.test(compact) || compact.length % 4 !== 0) {
    throw fail('tool_error', 'content is not valid base64', { reason: 'invalid_base64' });
  }
  return Buffer.from(compact, 'base64');
}

/** Returns true for content that an editor can hold: it only knows text. */
const isText = (content: Buffer): boolean => isUtf8(content) && !content.includes(0);

export function sha256Of(content: Uint8Array): string {
  return createHash('sha256').update(content).digest('hex');
}

/** Compares the file with `expected_sha256`; the returned state proves at the rename that the file is unchanged. */
async function checkExpected(
  args: WriteFileArgs,
  place: ResolvedPath,
  files: WorkspaceFiles,
  signal: AbortSignal,
): Promise<FileState | undefined> {
  if (args.expected_sha256 === undefined) return undefined;
  const expected = args.expected_sha256.toLowerCase();
  if (place.kind === 'missing') {
    throw fileFailure('conflict', args.path, 'does not exist, but a certain content was expected', {
      expected_sha256: expected,
      actual_sha256: null,
    });
  }
  const file = await files.open(place, signal);
  try {
    const state = await file.state();
    const hash = createHash('sha256');
    const buffer = Buffer.allocUnsafe(256 * 1024);
    for (let position = 0; ; ) {
      signal.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
      position += bytesRead;
      if (bytesRead === 0) break;
      hash.update(buffer.subarray(0, bytesRead));
    }
    const actual = hash.digest('hex');
    if (actual !== expected) {
      throw fileFailure('conflict', args.path, 'has another content than expected; read it again', {
        expected_sha256: expected,
        actual_sha256: actual,
      });
    }
    return state;
  } finally {
    await file.close();
  }
}
