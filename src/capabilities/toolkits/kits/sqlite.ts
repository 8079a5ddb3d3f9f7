/**
 * The toolkit `sqlite`: databases in files of the workspace, read-only unless the host says otherwise.
 *
 * Only names, descriptions and shapes; a query runs in a separate process (`sqlite-run.ts`), which is ended at its timeout.
 */
import { pathProperty } from '../../tools/builtin/file-tools.ts';
import { type AnyTool, type Risk, tool } from '../../tools/tool.ts';
import { type AnyToolkit, defineToolkit, type ToolkitAccess } from '../toolkit.ts';
import type { QueryArgs } from './sqlite-run.ts';

export interface SqliteOptions {
  /** Offers `sqlite_execute`. Default false. */
  readonly write?: boolean | undefined;
}

interface SqliteConfig {
  readonly database?: string;
  readonly max_rows: number;
}

const database = {
  ...pathProperty('The file of the database. Left out: the one that the toolkit is configured with.'),
};
const seconds = {
  type: 'number',
  minimum: 0.1,
  maximum: 120,
  default: 20,
  description: 'Seconds after which it is ended and fails.',
};
const sql = { type: 'string', minLength: 1, maxLength: 65_536, description: 'One statement.' };
const parameters = {
  anyOf: [
    { type: 'array', maxItems: 1_000 },
    { type: 'object', maxProperties: 1_000 },
  ],
  default: [],
  description:
    'Values for ?, in order, or for names such as :id: texts, numbers, true, false, null, or {base64} for a blob.',
};

function sqliteTool(
  access: ToolkitAccess<SqliteConfig>,
  name: 'query' | 'schema' | 'execute',
  description: string,
  risks: readonly Risk[],
  properties: Readonly<Record<string, object>>,
  required: readonly string[],
): AnyTool {
  return tool<Omit<QueryArgs, 'max_rows'> & { readonly max_rows?: number }>({
    name: `sqlite_${name}`,
    description,
    input: {
      type: 'object',
      additionalProperties: false,
      required,
      properties: { database, ...properties, time_limit_seconds: seconds },
    },
    kind: 'sqlite',
    tags: ['sqlite', 'database'],
    risks,
    idempotent: name !== 'execute',
    run: async (args, context) => {
      const { database: configured, max_rows } = access.config(context);
      const { runQuery } = await import('./sqlite-run.ts');
      return runQuery(
        name,
        { ...args, database: args.database ?? configured, max_rows: args.max_rows ?? max_rows },
        context,
      );
    },
  });
}

/** Returns the toolkit; it includes writing only if the host allows it. */
export const sqlite = ({ write = false }: SqliteOptions = {}): AnyToolkit =>
  defineToolkit<SqliteConfig>({
    name: 'sqlite',
    description: 'SQLite databases of the workspace: schema and queries',
    category: 'data',
    tags: ['sqlite', 'database'],
    config: {
      type: 'object',
      additionalProperties: false,
      properties: {
        database: {
          type: 'string',
          minLength: 1,
          maxLength: 4096,
          description: 'The database of calls that name none.',
        },
        max_rows: {
          type: 'integer',
          minimum: 1,
          maximum: 10_000,
          default: 200,
          description: 'Most rows of calls that say none.',
        },
      },
    },
    tools: (access) => [
      sqliteTool(
        access,
        'schema',
        'The tables, views and indexes of an SQLite database with their SQL.',
        ['reads'],
        {},
        [],
      ),
      sqliteTool(
        access,
        'query',
        'Reads an SQLite database with one SELECT and returns rows by column name; of columns of one name the later are numbered: id, id_2. Integers beyond 2^53 and infinities come as text, blobs as {base64}.',
        ['reads'],
        {
          sql,
          parameters,
          max_rows: { type: 'integer', minimum: 1, maximum: 10_000, description: 'Most rows to return.' },
        },
        ['sql'],
      ),
      ...(write
        ? [
            sqliteTool(
              access,
              'execute',
              'Changes an SQLite database with one statement: INSERT, UPDATE, DELETE, CREATE, … A file that is missing is created.',
              ['reads', 'writes', 'destructive'],
              { sql, parameters },
              ['sql'],
            ),
          ]
        : []),
    ],
  });
