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

const MEMBERS = Object.keys(PROGRAM_INPUT.properties as object);

/**
 * Reads the input of a node; null, as where a path leads nowhere, stands for a member that is not there. Throws `schema_violation`.
 * @param resumed of a run that continues: members that are not known are passed over, as they were when it began
 */
export function programInput(given: Readonly<Record<string, unknown>>, resumed = false): ProgramInput {
  const read = withoutNulls(given);
  const input = resumed ? Object.fromEntries(Object.entries(read).filter(([name]) => MEMBERS.includes(name))) : read;
  if (check(input)) return input;
  const [issue] = check.errors ?? [];
  const what = issue === undefined ? '' : `: ${issuePath(issue) || 'it'} ${issueText(issue)}`;
  throw fail('schema_violation', `the input does not fit a node of the kind proc${what}`, {
    ...(issue !== undefined && { path: issuePath(issue) }),
  });
}
