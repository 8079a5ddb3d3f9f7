/**
 * The content of files, on the disk or in the editor in which the session is open, for `read_file`, `write_file` and
 * `edit_file`. A path is located in the workspace, and its protection checked, before it is passed here.
 *
 * An editor may hold unsaved text, so its text counts. If it has no content for a file (it refuses to read it, the file is
 * binary or large), the disk counts. An editor that does not reply is an error: the disk may be old.
 */
import { createHash } from 'node:crypto';
import { fileFailure } from '../../../base/workspace/file-error.ts';
import { openFile, type ResolvedPath } from '../../../base/workspace/workspace-path.ts';
import type { EditorAccess } from '../../../session/editors.ts';
import { asError } from '../../../wire/errors.ts';
import { type FileState as DiskState, replaceFile, stateOf } from './atomic-write.ts';
import { looksBinary, SAMPLE_BYTES } from './text-bytes.ts';

/** The owner of the content; absent in results: the disk. */
export type FilesBy = 'editor';

/** Identifies a content without reading it again: of the disk, or by its digest in an editor. */
export type FileState = DiskState | { readonly sha256: string };

/** An open file. Close it. */
export interface OpenedFile {
  /** The size in bytes. */
  readonly size: number;
  readonly by?: FilesBy;
  read(buffer: Buffer, offset: number, length: number, position: number): Promise<{ readonly bytesRead: number }>;
  readAll(signal: AbortSignal): Promise<Buffer>;
  state(): Promise<FileState>;
  close(): Promise<void>;
}

export interface WorkspaceFiles {
  /** Opens a file. Fails with `tool_error` and a reason of `base/workspace/file-error.ts` or of `session/editors.ts`. */
  open(place: ResolvedPath, signal: AbortSignal): Promise<OpenedFile>;
  /**
   * Replaces or creates a file if the present one is the expected one; else returns undefined and changes nothing. Fails as
   * `open` does.
   */
  replace(
    place: ResolvedPath,
    content: Buffer,
    options: { readonly expect: 'anything' | 'nothing' | FileState; readonly signal: AbortSignal },
  ): Promise<{ readonly by?: FilesBy } | undefined>;
}

/** Larger files are read and written on the disk: an editor sends a file as one message. */
const MAX_EDITOR_BYTES = 4 * 1024 * 1024;

/**
 * Returns the files for one call.
 * @param editor the editor of the call's context
 * @param use `read` and `change` of text; `bytes` uses the disk, because editors only know text
 */
export function filesFor(editor: EditorAccess | undefined, use: 'read' | 'change' | 'bytes'): WorkspaceFiles {
  if (editor === undefined || use === 'bytes') return disk;
  // An editor that only reads would not see writes beside it.
  return editor.reads && (use === 'read' || editor.writes) ? editorFiles(editor) : disk;
}

const disk: WorkspaceFiles = {
  async open(place) {
    const { handle, stats } = await openFile(place);
    return {
      size: stats.size,
      read: (buffer, offset, length, position) => handle.read(buffer, offset, length, position),
      readAll: (signal) => handle.readFile({ signal }),
      state: () => stateOf(handle),
      close: () => handle.close(),
    };
  },
  async replace(place, content, { expect, signal }) {
    if (typeof expect === 'object' && 'sha256' in expect) return undefined;
    return (await replaceFile(place, content, { expect, signal })) ? {} : undefined;
  },
};

function editorFiles(editor: EditorAccess): WorkspaceFiles {
  /** Returns the text of the editor; undefined if it has none for the file. */
  const textOf = async ({ path }: ResolvedPath, signal: AbortSignal): Promise<Buffer | undefined> => {
    try {
      const { content } = (await editor.request('fs/read_text_file', { path }, { signal })) as { content?: unknown };
      return typeof content === 'string' ? Buffer.from(content, 'utf8') : undefined;
    } catch (error) {
      if (asError(error).detail.reason === 'editor_refused') return undefined;
      throw error;
    }
  };
  return {
    async open(place, signal) {
      const text = (await isForEditor(place)) ? await textOf(place, signal) : undefined;
      return text === undefined ? disk.open(place, signal) : inMemory(text);
    },
    async replace(place, content, { expect, signal }) {
      const isDisks = content.length > MAX_EDITOR_BYTES || (typeof expect === 'object' && !('sha256' in expect));
      if (isDisks) return disk.replace(place, content, { expect, signal });
      if (place.kind === 'directory') throw fileFailure('is_a_directory', place.asked, 'is a directory');
      if (place.kind === 'other') throw fileFailure('not_a_regular_file', place.asked, 'is not a regular file');
      if (expect !== 'anything') {
        const now = await textOf(place, signal);
        if (expect === 'nothing' ? now !== undefined : now === undefined || digestOf(now) !== expect.sha256) {
          return undefined;
        }
      }
      const { path } = place;
      await editor.request('fs/write_text_file', { path, content: content.toString('utf8') }, { signal });
      return { by: 'editor' };
    },
  };
}

/** Returns true for text of a moderate size, and for files that the disk does not have. */
async function isForEditor(place: ResolvedPath): Promise<boolean> {
  if (place.kind === 'missing') return true;
  if (place.kind !== 'file') return false;
  const { handle, stats } = await openFile(place);
  try {
    if (stats.size > MAX_EDITOR_BYTES) return false;
    const sample = Buffer.allocUnsafe(SAMPLE_BYTES);
    const { bytesRead } = await handle.read(sample, 0, SAMPLE_BYTES, 0);
    return !looksBinary(sample.subarray(0, bytesRead));
  } finally {
    await handle.close();
  }
}

function inMemory(bytes: Buffer): OpenedFile {
  return {
    size: bytes.length,
    by: 'editor',
    read: async (buffer, offset, length, position) => ({
      bytesRead: bytes.copy(buffer, offset, position, Math.min(bytes.length, position + length)),
    }),
    readAll: async () => bytes,
    state: async () => ({ sha256: digestOf(bytes) }),
    close: async () => {},
  };
}

const digestOf = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');
