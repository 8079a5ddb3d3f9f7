/**
 * Writes what follows from the schemas of the fleet messages: `schema/fleet.json`, and the tables of
 * `docs/protocol/fleet.md` between their marks.
 *
 * Called by `scripts/generate.ts`. No validators are made: the decoder of the fleet edge reports more than a schema can say.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as schemas from '../src/protocol/fleet.schema.ts';
import { FEATURE_OF, type FleetMessage } from '../src/protocol/fleet.ts';

const page = 'docs/protocol/fleet.md';

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly enum?: readonly string[];
  readonly description?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

type MessageType = FleetMessage['type'];

/** Who sends a message. */
const directions: Readonly<Record<MessageType, string>> = {
  SESSION_ANNOUNCE: 'worker → orchestrator',
  TASK_DISPATCH: 'orchestrator → worker',
  TASK_RESULT: 'worker → orchestrator',
  TASK_ACK: 'both ways',
  TASK_PROGRESS: 'worker → orchestrator',
  TASK_CANCEL: 'orchestrator → worker',
  TASK_STEER: 'orchestrator → worker',
  TASK_POLL: 'orchestrator → worker',
  TASK_QUESTION: 'worker → orchestrator',
  TASK_ANSWER: 'orchestrator → worker',
  SESSION_HEARTBEAT: 'both ways',
  SESSION_BYE: 'both ways',
  SESSION_ACCEPT: 'orchestrator → worker',
  ANNOUNCE_REQUEST: 'orchestrator → worker',
};

/** Members every message has; they are told once. */
const baseFields = ['type', 'protocol_version', 'envelope'];

// JSON text drops TypeBox's hidden marks.
const definitions = Object.fromEntries(
  Object.entries(schemas).map(([name, schema]) => [name, JSON.parse(JSON.stringify(schema)) as Schema]),
);

const typeOf = (schema: Schema): unknown => schema.properties?.type?.const;
const messages = new Map(
  Object.entries(definitions)
    .filter(([, schema]) => typeOf(schema) !== undefined)
    .map(([name, schema]) => [typeOf(schema) as MessageType, { name, schema }]),
);

export function fleetSchema(): string {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Fleet handshake 2.0 messages',
    oneOf: [...messages.values()].map(({ name }) => ({ $ref: `#/$defs/${name}` })),
    $defs: definitions,
  };
  return `${JSON.stringify(schema, null, 2)}\n`;
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** The schema without the null it may be beside it. */
const withoutNull = (schema: Schema): Schema => {
  const others = schema.anyOf?.filter(({ type }) => type !== 'null');
  return others?.length === 1 ? { ...others[0], description: schema.description ?? others[0]?.description } : schema;
};

function kindOf(schema: Schema): string {
  if (schema.enum !== undefined) return schema.enum.map((word) => `\`${word}\``).join(', ');
  if (schema.type === 'array') return `${kindOf(schema.items ?? {})}[]`;
  return schema.type ?? 'any';
}

/** Rows of the members of an object; those of objects inside it follow with their path. */
function rows(schema: Schema, names: readonly string[], path = ''): string[] {
  return names.flatMap((name) => {
    const stated = schema.properties?.[name] ?? {};
    const field = withoutNull(stated);
    const nullable = field !== stated && !schema.required?.includes(name);
    const needed = schema.required?.includes(name) ? 'yes' : nullable ? 'or null' : '';
    const inner = field.properties === undefined ? [] : Object.keys(field.properties);
    const row = `| \`${path}${name}\` | ${kindOf(field)} | ${needed} | ${cell(field.description ?? '')} |`;
    return [row, ...rows(field, inner, `${path}${name}.`)];
  });
}

const head = ['| Member | JSON type | Needed | Meaning |', '| --- | --- | --- | --- |'];
const table = (schema: Schema, names: readonly string[]): string => [...head, ...rows(schema, names)].join('\n');

function section(type: MessageType): string {
  const { schema } = messages.get(type) as { schema: Schema };
  const feature = FEATURE_OF[type];
  const when = feature === undefined ? '' : ` Feature \`${feature}\`.`;
  const own = Object.keys(schema.properties ?? {}).filter((name) => !baseFields.includes(name));
  return `### ${type}\n\n*${directions[type]}.* ${schema.description}${when}\n\n${table(schema, own)}`;
}

/** What stands between the marks of each name. */
const parts: Readonly<Record<string, () => string>> = {
  envelope: () => table({ properties: { ...messages.get('TASK_POLL')?.schema.properties } }, ['envelope']),
  protocol: () => (['SESSION_ANNOUNCE', 'TASK_DISPATCH', 'TASK_RESULT'] as const).map(section).join('\n\n'),
  additions: () =>
    (Object.keys(FEATURE_OF) as MessageType[])
      .filter((type) => FEATURE_OF[type] !== undefined)
      .map(section)
      .join('\n\n'),
};

/** The whole page with its tables renewed; everything outside the marks stays as it is. */
export function fleetPage(root: string): string {
  let text = readFileSync(join(root, page), 'utf8');
  for (const [name, make] of Object.entries(parts)) {
    const [start, end] = [`<!-- messages ${name} -->\n`, `<!-- /messages ${name} -->`];
    const from = text.indexOf(start);
    const to = text.indexOf(end);
    if (from === -1 || to < from) throw new Error(`${page} has lost the marks around its ${name} messages`);
    text = `${text.slice(0, from + start.length)}\n${make()}\n\n${text.slice(to)}`;
  }
  return text;
}
