/**
 * The contents of a `SKILL.md`: the front matter of Agent Skills, and the keys that Handfast adds to run a skill: `entry`,
 * `parameters`, `version`. Unknown keys are ignored, because other programs have their own.
 *
 * @see docs/skill.md#the-folder
 */

import { foreignSchemas } from '../../../base/foreign-schemas.ts';
import { lazyCheck } from '../../../base/json-schema.ts';
import { within } from '../../../base/race.ts';
import { parted } from '../../../base/skills/text.ts';
import type { ConfigNode } from '../../../config/reader.ts';
import { parseTree } from '../../../config/yaml-tree.ts';
import { shortPath } from '../../../wire/check.ts';
import type { JsonSchema } from '../../tools/tool.ts';
import { cutTexts, quotingAdvice } from './front-text.ts';

export interface SkillFacts {
  readonly name: string;
  readonly description: string;
  /** `0.0.0` if the file has none. */
  readonly version: string;
  /** The text for the model, below the front matter. */
  readonly instructions: string;
  /** Path of the module that a call runs; undefined: none. */
  readonly entry: string | undefined;
  /** {@link ANY_ARGUMENTS} if the file has none. */
  readonly parameters: JsonSchema;
  readonly result: JsonSchema | undefined;
  /** Names of tools it may call; `*` stands for any letters. */
  readonly allowedTools: readonly string[];
  readonly timeoutSeconds: number | undefined;
  readonly tags: readonly string[];
  readonly triggers: readonly string[];
  readonly category: string | undefined;
  readonly whenToUse: string;
  readonly argumentHint: string;
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Problems that do not prevent reading the file. */
  readonly faults: readonly string[];
}

/** The schema of arguments of a skill without `parameters`. */
export const ANY_ARGUMENTS: JsonSchema = { type: 'object' };
/** Maximum time for checking the schemas of one skill, milliseconds. */
const MAX_SCHEMAS_MS = 2_000;
/** A longer front matter is no description of a skill. */
const MAX_FRONT_CHARS = 32 * 1024;
/** Lines, and signs of YAML that begin or end a value: a parser spends its time on them. */
const MARKS = /[\n,[\]{}&*]|[-:?] /g;
const MAX_MARKS = 5_000;

const words = { type: 'array', items: { type: 'string', minLength: 1, maxLength: 256 }, maxItems: 256 } as const;
const line = { type: 'string', minLength: 1, maxLength: 1024 } as const;

const checkFront = lazyCheck({
  type: 'object',
  properties: {
    name: { type: 'string', pattern: '^[a-z0-9]+(?:-[a-z0-9]+)*$', maxLength: 64 },
    description: line,
    version: { type: 'string', pattern: '^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$' },
    'allowed-tools': { anyOf: [{ type: 'string', maxLength: 8192 }, words] },
    entry: { type: 'string', pattern: '^[^/\\\\.][^\\\\]*\\.m?js$', maxLength: 256 },
    parameters: { type: 'object' },
    result: { type: 'object' },
    timeout_seconds: { type: 'integer', minimum: 1, maximum: 86_400 },
    tags: words,
    triggers: words,
    category: line,
    when_to_use: line,
    argument_hint: line,
    metadata: { type: 'object' },
  },
  required: ['name', 'description'],
});

/**
 * Reads a `SKILL.md`. Throws an error whose message names the problem of the text.
 *
 * @param schemasMs longest check of its schemas; the first call finds the problem of one that takes longer
 */
export async function readSkillFile(text: string, schemasMs = MAX_SCHEMAS_MS): Promise<SkillFacts> {
  const { front, body } = parted(text);
  if (front === undefined) throw new Error('has no front matter: it must begin with a line ---, name, description');
  if (front.length > MAX_FRONT_CHARS) throw new Error(`has a front matter of more than ${MAX_FRONT_CHARS} characters`);
  if (front.length > MAX_MARKS && (front.match(MARKS)?.length ?? 0) > MAX_MARKS)
    throw new Error(`has a front matter of more than ${MAX_MARKS} lines, commas, brackets and other signs of YAML`);
  const fields = await fieldsOf(front);
  const metadata = (fields.metadata ?? {}) as Record<string, unknown>;
  const version = fields.version ?? metadata.version;
  if (typeof version === 'number')
    throw new Error(`version: write it in quotes, "${version}": as a number 1.10 is 1.1`);
  const given = { ...fields, ...(version !== undefined && { version }) } as Record<string, unknown>;
  if (!checkFront(given)) {
    const [error] = checkFront.errors ?? [];
    const path = shortPath(error?.instancePath ?? '').slice(1);
    const advice = error?.keyword === 'type' ? quotingAdvice(front, path) : '';
    throw new Error(`${path === '' ? 'front matter' : path} ${error?.message ?? 'does not fit'}${advice}`);
  }
  const { parameters = ANY_ARGUMENTS, result } = given as { parameters?: JsonSchema; result?: JsonSchema };
  const until = performance.now() + schemasMs;
  for (const [key, schema] of Object.entries({ parameters, result })) {
    if (schema === undefined || schema === ANY_ARGUMENTS) continue;
    const what = whatOf(key as 'parameters' | 'result', given.name as string);
    const looking = foreignSchemas.problem(schema, { what }).catch(() => null);
    const problem = await within(looking, Math.max(0, until - performance.now()));
    if (typeof problem === 'string') throw new Error(`${key}: ${problem}`);
  }
  const optional = (key: string): string => (given[key] as string | undefined) ?? '';
  return {
    name: given.name as string,
    description: given.description as string,
    version: (given.version as string | undefined) ?? '0.0.0',
    instructions: body.trim(),
    entry: given.entry as string | undefined,
    parameters,
    result,
    allowedTools: toolsOf(given['allowed-tools']),
    timeoutSeconds: given.timeout_seconds as number | undefined,
    tags: (given.tags ?? []) as string[],
    triggers: (given.triggers ?? []) as string[],
    category: given.category as string | undefined,
    whenToUse: optional('when_to_use') || (given.description as string),
    argumentHint: optional('argument_hint'),
    metadata,
    faults: cutTexts(front, given),
  };
}

async function fieldsOf(front: string): Promise<Record<string, unknown>> {
  const problems: string[] = [];
  let advice = '';
  let tree: ConfigNode | undefined;
  try {
    // The line of the text, in which the front matter begins after the first line.
    tree = await parseTree(front, {
      problem: ({ line: at }, path, message) => {
        problems.push(`line ${at + 1}: ${path && `${path}: `}${message}`);
        advice ||= quotingAdvice(front, at);
      },
    });
  } catch (error) {
    // Brackets that are nested thousands deep.
    throw new Error(`has a front matter that cannot be read (${(error as Error).message})`);
  }
  if (problems.length > 0) throw new Error(`${problems.slice(0, 3).join('; ')}${advice}`);
  if (tree?.kind !== 'map') throw new Error('has a front matter that is no map of keys and values');
  return plain(tree) as Record<string, unknown>;
}

function plain(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(plain);
  return Object.fromEntries(node.entries.map(({ key, value }) => [key, plain(value)]));
}

/** Returns the subject of a schema of a skill, in messages. */
export const whatOf = (key: 'parameters' | 'result', name: string): string =>
  `${key === 'parameters' ? 'arguments' : 'result'} of ${name}`;

/** Reads the allowed tools: Agent Skills separates them by spaces; others write commas or a list. */
function toolsOf(given: unknown): string[] {
  if (given === undefined) return [];
  return typeof given === 'string' ? given.split(/[\s,]+/).filter((name) => name !== '') : (given as string[]);
}
