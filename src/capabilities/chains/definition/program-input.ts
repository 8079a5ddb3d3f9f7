/**
 * The members of the input of `proc` nodes. Pure.
 *
 * Definitions are checked against the schema when they are read, the values of their expressions when the node is called.
 */
import { type JsonSchema, lazyCheck } from '../../../base/json-schema.ts';
import { issuePath, issueText } from '../../../wire/check.ts';
import { fail } from '../../../wire/errors.ts';
import { withoutNulls } from '../../../wire/json.ts';

const text = { type: 'string' } as const;
const command = {
  type: ['string', 'array'],
  items: { type: ['string', 'number', 'boolean'] },
  description: 'The program and its arguments: a list, or a text that is split at white space. Default: the name.',
} as const;

/** JSON Schema of the input. */
export const PROGRAM_INPUT: JsonSchema = {
  type: 'object',
  additionalProperties: false,
  properties: {
    command,
    cmd: command,
    timeout: { type: 'number', minimum: 0, description: 'Longest run, in seconds.' },
    cwd: { type: 'string', description: 'The folder it runs in.' },
    env: { type: 'object', additionalProperties: text, description: 'Variables of its environment.' },
    exit_codes: {
      type: 'array',
      items: { type: 'integer' },
      description: 'The codes with which it has done its work. Default: all.',
    },
    item: { description: 'The item of a map, where the node has no input.' },
  },
};

/** The parsed input of a node. */
export interface ProgramInput {
  readonly command?: string | readonly unknown[];
  readonly cmd?: string | readonly unknown[];
  readonly timeout?: number;
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly exit_codes?: readonly number[];
}

const check = lazyCheck(PROGRAM_INPUT);

/**
 * Reads the input of a node. Null, the value of a path that leads nowhere, stands for an absent member. Throws
 * `schema_violation`.
 */
export function programInput(given: Readonly<Record<string, unknown>>): ProgramInput {
  const input = withoutNulls(given);
  if (check(input)) return input;
  const [issue] = check.errors ?? [];
  const what = issue === undefined ? '' : `: ${issuePath(issue) || 'it'} ${issueText(issue)}`;
  throw fail('schema_violation', `the input does not fit a node of the kind proc${what}`, {
    ...(issue !== undefined && { path: issuePath(issue) }),
  });
}
