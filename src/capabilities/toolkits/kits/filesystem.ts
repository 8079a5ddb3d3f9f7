/**
 * The toolkit `filesystem`: the built-in file tools of a host, and tools that move and delete. All of them stay in the
 * workspace and off protected paths.
 *
 * The work of the tools is loaded with their first call.
 */

import { editFile, listDir, pathProperty, readFile, writeFile } from '../../tools/builtin/file-tools.ts';
import { glob } from '../../tools/builtin/search-tools.ts';
import { tool } from '../../tools/tool.ts';
import { defineToolkit } from '../toolkit.ts';
import type { DeleteArgs, MakeArgs, MoveArgs } from './file-changes.ts';

const moveFile = tool({
  name: 'move_file',
  description:
    'Moves or renames a file or a directory within the workspace. A file or directory at the new place is never replaced: delete it first.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['from', 'to'],
    properties: {
      from: pathProperty('The file or directory to move.'),
      to: pathProperty('Where to; its directory must exist.'),
    },
  },
  kind: 'file',
  tags: ['file', 'write'],
  risks: ['reads', 'writes'],
  run: async (args: MoveArgs, context) => (await import('./file-changes.ts')).moveEntry(args, context),
});

const deleteFile = tool({
  name: 'delete_file',
  description:
    'Deletes a file or an empty directory of the workspace; of a link, what it leads to. It cannot be had again.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['path'],
    properties: { path: pathProperty('The file or directory to delete.') },
  },
  kind: 'file',
  tags: ['file', 'write'],
  risks: ['writes', 'destructive'],
  run: async (args: DeleteArgs, context) => (await import('./file-changes.ts')).deleteEntry(args, context),
});

const makeDirectory = tool({
  name: 'make_directory',
  description: 'Creates a directory in the workspace, with those above it. One that exists already is no error.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['path'],
    properties: { path: pathProperty('The directory to create.') },
  },
  kind: 'file',
  tags: ['file', 'write'],
  risks: ['writes'],
  idempotent: true,
  run: async (args: MakeArgs, context) => (await import('./file-changes.ts')).makeDirectory(args, context),
});

export const filesystem = defineToolkit({
  name: 'filesystem',
  alias: 'fs',
  description: 'Files of the workspace: read, write, edit, list, find, move, delete',
  category: 'io',
  tags: ['fs', 'file'],
  enabled: true,
  tools: [readFile, writeFile, editFile, listDir, glob, makeDirectory, moveFile, deleteFile],
});
