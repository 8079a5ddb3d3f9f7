/**
 * The tools that search the workspace: `glob` by name, `grep` by content, `search_files` by words, ranked.
 *
 * Only names, descriptions and shapes; the work is loaded with the first call and done in a thread (`search.ts`).
 */
import { tool } from '../tool.ts';
import { pathProperty } from './file-tools.ts';
import type { GlobArgs } from './glob.ts';
import type { GrepArgs } from './grep.ts';
import type { RankedArgs } from './ranked-search.ts';

const patternHelp =
  '`*` and `?` stay within a name, `**` crosses directories, `[a-z]` and `{a,b}` work. Without `/` a pattern is matched ' +
  'against names at any depth, with `/` against the path from `path`; `!` in front excludes.';

const gitignore = { type: 'boolean', default: true, description: 'Leave out what .gitignore files exclude.' };
const hidden = { type: 'boolean', default: true, description: 'Include names that begin with a dot; never .git.' };
const timeLimit = {
  type: 'number',
  minimum: 0.1,
  maximum: 120,
  default: 20,
  description: 'Seconds after which the search is stopped and fails.',
};
const truncated = { type: 'boolean', description: 'True when more was found than is returned.' };

/** Finds files by name. */
export const glob = tool({
  name: 'glob',
  description:
    `Finds files of the workspace by name and returns their paths, sorted. ${patternHelp} Links are listed and not ` +
    'followed. To search in the content of files use grep.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['patterns'],
    properties: {
      patterns: {
        type: 'array',
        minItems: 1,
        maxItems: 100,
        items: { type: 'string', minLength: 1, maxLength: 1024 },
        description: 'Patterns of which one must match, e.g. ["src/**/*.{ts,tsx}", "!*.test.ts"].',
      },
      path: pathProperty('The directory to search.', '.'),
      gitignore,
      hidden,
      limit: { type: 'integer', minimum: 1, maximum: 10_000, default: 1000, description: 'Most paths to return.' },
      time_limit_seconds: timeLimit,
    },
  },
  output: {
    type: 'object',
    required: ['paths', 'truncated', 'skipped'],
    properties: {
      paths: { type: 'array', items: { type: 'string' }, description: 'From the workspace.' },
      truncated,
      skipped: { type: 'integer', description: 'Directories that could not be read.' },
    },
  },
  kind: 'search',
  tags: ['file', 'search'],
  risks: ['reads'],
  idempotent: true,
  streaming: false,
  run: async (args: GlobArgs, context) => (await import('./search.ts')).searchNames(args, context),
});

/** Finds lines by content. */
export const grep = tool({
  name: 'grep',
  description:
    'Searches the content of files in the workspace line by line, with a JavaScript regular expression or plain text. ' +
    'Returns matching lines by file, or only the files, or the number of matching lines in each. Binary files and files ' +
    'over 16 MiB are skipped and counted. An expression that takes too long is stopped.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['pattern'],
    properties: {
      pattern: { type: 'string', minLength: 1, maxLength: 4096, description: 'The pattern to search in each line.' },
      literal: { type: 'boolean', default: false, description: 'Take the pattern as plain text.' },
      ignore_case: { type: 'boolean', default: false, description: 'Do not tell upper and lower case apart.' },
      path: pathProperty('The file or directory to search.', '.'),
      globs: {
        type: 'array',
        maxItems: 100,
        items: { type: 'string', minLength: 1, maxLength: 1024 },
        default: [],
        description: `Only files of which one of these patterns matches. ${patternHelp}`,
      },
      output: {
        type: 'string',
        enum: ['content', 'files_with_matches', 'count'],
        default: 'content',
        description: 'Matching lines, only paths, or numbers of matching lines.',
      },
      before: { type: 'integer', minimum: 0, maximum: 50, default: 0, description: 'Lines to show before a match.' },
      after: { type: 'integer', minimum: 0, maximum: 50, default: 0, description: 'Lines to show after a match.' },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: 5000,
        default: 200,
        description: 'Most matching lines to return; with the other outputs, most files.',
      },
      gitignore,
      hidden,
      time_limit_seconds: timeLimit,
    },
  },
  output: {
    type: 'object',
    required: ['files', 'files_searched', 'truncated', 'skipped'],
    properties: {
      files: {
        type: 'array',
        items: {
          type: 'object',
          required: ['path'],
          properties: {
            path: { type: 'string', description: 'From the workspace.' },
            count: { type: 'integer', description: 'Matching lines, with output "count".' },
            matches: {
              type: 'array',
              items: {
                type: 'object',
                required: ['line', 'column', 'text'],
                properties: {
                  line: { type: 'integer' },
                  column: { type: 'integer' },
                  text: { type: 'string', description: 'The line; a very long one is cut around the match.' },
                  before: { type: 'array', items: { type: 'string' }, description: 'Lines before, none shown twice.' },
                  after: {
                    type: 'array',
                    items: { type: 'string' },
                    description: 'Lines after, up to the next match.',
                  },
                },
              },
            },
          },
        },
      },
      files_searched: { type: 'integer' },
      truncated,
      skipped: {
        type: 'object',
        required: ['binary', 'too_large', 'unreadable'],
        properties: {
          binary: { type: 'integer' },
          too_large: { type: 'array', items: { type: 'string' } },
          unreadable: { type: 'integer' },
        },
      },
    },
  },
  kind: 'search',
  tags: ['file', 'search'],
  risks: ['reads'],
  idempotent: true,
  streaming: false,
  run: async (args: GrepArgs, context) => (await import('./search.ts')).searchContents(args, context),
});

/** Finds passages by words, the best first. */
export const searchFiles = tool({
  name: 'search_files',
  description:
    'Finds the passages of text files in the workspace that match words best, ranked by BM25: for questions whose exact words ' +
    'are not known. Words of a name such as `readFile` or `read_file` count one by one, and together. What .gitignore files ' +
    'exclude is left out, unless `path` names it, as are binary files and files over 1 MiB. The first search builds an index; later ones read what changed. ' +
    'For exact text or an expression use grep.',
  input: {
    type: 'object',
    additionalProperties: false,
    required: ['query'],
    properties: {
      query: { type: 'string', minLength: 1, maxLength: 1024, description: 'Words; there is no syntax.' },
      path: pathProperty('The directory to search.', '.'),
      globs: {
        type: 'array',
        maxItems: 100,
        items: { type: 'string', minLength: 1, maxLength: 1024 },
        default: [],
        description: `Only files of which one of these patterns matches. ${patternHelp}`,
      },
      limit: { type: 'integer', minimum: 1, maximum: 50, default: 10, description: 'Most passages to return.' },
      time_limit_seconds: timeLimit,
    },
  },
  output: {
    type: 'object',
    required: ['passages', 'files_searched', 'complete', 'truncated', 'skipped'],
    properties: {
      passages: {
        type: 'array',
        description: 'The best first, at most three of one file.',
        items: {
          type: 'object',
          required: ['path', 'line', 'end_line', 'score', 'text'],
          properties: {
            path: { type: 'string', description: 'From the workspace.' },
            line: { type: 'integer', description: 'Its first line.' },
            end_line: { type: 'integer' },
            score: { type: 'number', description: 'BM25: more is better. Comparable within one reply alone.' },
            text: { type: 'string', description: 'Its lines; very long ones are cut.' },
          },
        },
      },
      files_searched: { type: 'integer' },
      complete: {
        type: 'boolean',
        description:
          'False when not all files could be indexed, for their number, size or the time. After a limit of time the next search continues.',
      },
      truncated,
      skipped: {
        type: 'object',
        required: ['binary', 'too_large', 'unreadable'],
        properties: {
          binary: { type: 'integer' },
          too_large: { type: 'integer' },
          unreadable: { type: 'integer' },
        },
      },
    },
  },
  kind: 'search',
  tags: ['file', 'search'],
  risks: ['reads'],
  idempotent: true,
  streaming: false,
  run: async (args: RankedArgs, context) => (await import('./search.ts')).searchPassages(args, context),
});
