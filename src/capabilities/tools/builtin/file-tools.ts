/**
 * The tools that touch files: `read_file`, `write_file`, `edit_file`, `list_dir`.
 *
 * Only names, descriptions and shapes, so that a host that never calls them pays nothing; the work is loaded with the
 * first call. Descriptions are written for a model that decides whether and how to call.
 */
import { type Risk, tool } from '../tool.ts';
import type { EditFileArgs } from './edit-file.ts';
import type { ListDirArgs } from './list-dir.ts';
import type { ReadFileArgs } from './read-file.ts';
import type { WriteFileArgs } from './write-file.ts';

/** Returns the `path` property of all file tools. */
export function pathProperty(description: string, defaultPath?: string): Record<string, unknown> {
  const property = {
    type: 'string',
    minLength: 1,
    maxLength: 4096,
    description: `${description} Relative to the workspace, or absolute inside it.`,
  };
  return defaultPath === undefined ? property : { ...property, default: defaultPath };
}

const truncated = { type: 'boolean', description: 'True when more was found than is returned.' };
const by = { type: 'string', enum: ['editor'], description: 'Present where an editor holds the file, not the disk.' };
const sha256 = { type: 'string', description: 'SHA-256 of the whole file, in hex.' };

/** Both writing tools can overwrite, and both report the former content of the file: by a digest, or by a diff. */
const fileWriting: readonly Risk[] = ['reads', 'writes', 'destructive'];

/** Reads a window of lines or bytes of a file. */
export const readFile = tool({
  name: 'read_file',
  description:
    'Reads a text file of the workspace, by default its first 2000 lines. For more, call again with `offset` set to ' +
    '`next_offset`; for a line too long to be returned whole, with `byte_offset` set to `next_byte_offset`. ' +
    'A binary file is refused unless `encoding` is "base64", which returns raw bytes of any file.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['path'],
    properties: {
      path: pathProperty('The file to read.'),
      offset: { type: 'integer', minimum: 1, default: 1, description: 'First line to return, counted from 1.' },
      limit: { type: 'integer', minimum: 1, maximum: 100_000, default: 2000, description: 'Most lines to return.' },
      byte_offset: {
        type: 'integer',
        minimum: 0,
        description: 'First byte to return, counted from 0. With it or `byte_limit`, lines are not counted.',
      },
      byte_limit: { type: 'integer', minimum: 1, description: 'Most bytes to return; never more than `max_bytes`.' },
      encoding: {
        type: 'string',
        enum: ['utf-8', 'base64'],
        default: 'utf-8',
        description: '"utf-8" for text, "base64" for the bytes of any file.',
      },
      max_bytes: {
        type: 'integer',
        minimum: 256,
        maximum: 524_288,
        default: 131_072,
        description: 'Most bytes of the file to return.',
      },
    },
  },
  output: {
    type: 'object',
    required: ['path', 'encoding', 'content', 'size', 'truncated'],
    properties: {
      path: { type: 'string', description: 'From the workspace, links resolved.' },
      encoding: { type: 'string', enum: ['utf-8', 'base64'] },
      content: { type: 'string' },
      size: { type: 'integer', description: 'Size of the file in bytes.' },
      truncated,
      start_line: { type: 'integer' },
      end_line: { type: 'integer' },
      total_lines: { type: ['integer', 'null'], description: 'Null when the file is too large to be counted.' },
      next_offset: { type: ['integer', 'null'], description: 'Line to continue with; null at the end.' },
      next_byte_offset: { type: ['integer', 'null'], description: 'Byte to continue with; null at the end.' },
      sha256: { ...sha256, type: ['string', 'null'] },
      bom: { type: 'boolean', description: 'True when a byte order mark was left out.' },
      lossy: { type: 'boolean', description: 'True when bytes that are not UTF-8 were replaced.' },
      by,
    },
  },
  kind: 'file',
  tags: ['file', 'read'],
  risks: ['reads'],
  idempotent: true,
  streaming: false,
  run: async (args: ReadFileArgs, context) => (await import('./read-file.ts')).readFile(args, context),
});

/** Writes a whole file in one step. */
export const writeFile = tool({
  name: 'write_file',
  description:
    'Writes a whole file of the workspace in one step: readers see the old content or the new, never a mixture. ' +
    'Replaces an existing file unless `overwrite` is false. To change part of a file use edit_file. ' +
    'With `expected_sha256` (from read_file) nothing is written if the file changed since it was read.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['path', 'content'],
    properties: {
      path: pathProperty('The file to write.'),
      content: { type: 'string', description: 'The whole new content.' },
      encoding: {
        type: 'string',
        enum: ['utf-8', 'base64'],
        default: 'utf-8',
        description: 'How `content` is given; "base64" for binary files.',
      },
      create_dirs: {
        type: 'boolean',
        default: false,
        description: 'Create missing directories that lead to the file.',
      },
      overwrite: { type: 'boolean', default: true, description: 'False fails when the file exists already.' },
      expected_sha256: {
        type: 'string',
        pattern: '^[0-9a-fA-F]{64}$',
        description: 'SHA-256 the existing file must have, in hex.',
      },
    },
  },
  output: {
    type: 'object',
    required: ['path', 'bytes', 'created', 'sha256'],
    properties: {
      path: { type: 'string' },
      bytes: { type: 'integer', description: 'Size of the file now.' },
      created: { type: 'boolean', description: 'True when the file did not exist before.' },
      sha256,
      by,
    },
  },
  kind: 'file',
  tags: ['file', 'write'],
  risks: fileWriting,
  idempotent: true,
  streaming: false,
  run: async (args: WriteFileArgs, context) => (await import('./write-file.ts')).writeFile(args, context),
});

/** Replaces exact pieces of text in a file. */
export const editFile = tool({
  name: 'edit_file',
  description:
    'Replaces exact pieces of text in a file of the workspace. The edits are applied in order, all or none, and the file ' +
    'is written in one step. Each `old_text` must occur exactly once, unless `replace_all` is set: include enough ' +
    'surrounding lines to make it unique, with their exact indentation. When it is not found or ambiguous, nothing is ' +
    'changed and the error names the nearest lines or all the places. Line ends (CRLF) and a byte order mark are kept: ' +
    'write plain newlines.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['path', 'edits'],
    properties: {
      path: pathProperty('The file to edit.'),
      edits: {
        type: 'array',
        minItems: 1,
        maxItems: 100,
        description: 'Replacements, applied in order, each to the result of the one before.',
        items: {
          type: 'object',
          additionalProperties: false,
          required: ['old_text', 'new_text'],
          properties: {
            old_text: { type: 'string', minLength: 1, description: 'The exact text that is there now.' },
            new_text: { type: 'string', description: 'The text in its place; empty to delete.' },
            replace_all: { type: 'boolean', default: false, description: 'Replace every occurrence.' },
          },
        },
      },
    },
  },
  output: {
    type: 'object',
    required: ['path', 'replacements', 'bytes', 'sha256', 'line_endings', 'diff'],
    properties: {
      path: { type: 'string' },
      replacements: { type: 'integer', description: 'Places that were replaced.' },
      bytes: { type: 'integer', description: 'Size of the file now.' },
      sha256,
      line_endings: { type: 'string', enum: ['lf', 'crlf'] },
      diff: { type: 'string', description: 'The changes, as a unified diff; cut when very long.' },
      by,
    },
  },
  kind: 'file',
  tags: ['file', 'write', 'edit'],
  risks: fileWriting,
  streaming: false,
  run: async (args: EditFileArgs, context) => (await import('./edit-file.ts')).editFile(args, context),
});

/** Lists a directory. */
export const listDir = tool({
  name: 'list_dir',
  description:
    'Lists a directory of the workspace with type, size and time of change of each entry, sorted by path. With `depth` ' +
    'also the directories below; when there are more entries than `limit`, the deepest are left out. Links are listed ' +
    'and not followed. To find files by name in a large tree use glob.',
  input: {
    type: 'object',
    additionalProperties: false,
    properties: {
      path: pathProperty('The directory to list.', '.'),
      depth: {
        type: 'integer',
        minimum: 1,
        maximum: 32,
        default: 1,
        description: 'Levels to list; 1 is this one only.',
      },
      hidden: { type: 'boolean', default: true, description: 'Include names that begin with a dot.' },
      limit: { type: 'integer', minimum: 1, maximum: 5000, default: 500, description: 'Most entries to return.' },
    },
  },
  output: {
    type: 'object',
    required: ['path', 'entries', 'truncated'],
    properties: {
      path: { type: 'string' },
      entries: {
        type: 'array',
        items: {
          type: 'object',
          required: ['path', 'type', 'mtime'],
          properties: {
            path: { type: 'string', description: 'From the workspace.' },
            type: { type: 'string', enum: ['file', 'directory', 'symlink', 'other'] },
            size: { type: 'integer', description: 'Bytes; files only.' },
            mtime: { type: 'string', description: 'When it last changed, ISO 8601.' },
          },
        },
      },
      truncated,
    },
  },
  kind: 'file',
  tags: ['file', 'read', 'list'],
  risks: ['reads'],
  idempotent: true,
  streaming: false,
  run: async (args: ListDirArgs, context) => (await import('./list-dir.ts')).listDir(args, context),
});
