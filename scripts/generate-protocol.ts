/**
 * Writes the tables of `docs/protocol/a2e.md`, between their marks, from the published JSON Schema: every message with its
 * fields, and the shapes inside them. The prose around them is written by hand.
 *
 * Called by `scripts/generate.ts` after the validators, so that the schema files it reads are fresh.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const page = 'docs/protocol/a2e.md';

interface Schema {
  readonly type?: string;
  readonly const?: unknown;
  readonly description?: string;
  readonly required?: readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
}

type Direction = 'agent → host' | 'host → agent';

/** One table of messages: where its schemas are published, and in which order and direction its messages are told. */
interface Chapter {
  /** The name in the marks: `<!-- messages core -->` … `<!-- /messages core -->`. */
  readonly name: string;
  readonly published: string;
  /** Name in the schema file → direction; undefined for a shape that only occurs inside messages. */
  readonly shown: Readonly<Record<string, Direction | undefined>>;
}

const chapters: readonly Chapter[] = [
  {
    name: 'core',
    published: 'schema/a2e.json',
    shown: {
      HandshakeReq: 'agent → host',
      HandshakeResp: 'host → agent',
      Capability: undefined,
      Ping: 'agent → host',
      Pong: 'host → agent',
      ErrorMessage: 'host → agent',
      Event: 'host → agent',
      Shutdown: 'agent → host',
      Cancel: 'agent → host',
      JournalFollowReq: 'agent → host',
      JournalEvent: 'host → agent',
      JournalFollowResp: 'host → agent',
    },
  },
  {
    name: 'tools',
    published: 'schema/tools.json',
    shown: {
      ToolListReq: 'agent → host',
      ToolListResp: 'host → agent',
      ToolDescription: undefined,
      ToolParameter: undefined,
      ToolCallReq: 'agent → host',
      ToolEvent: 'host → agent',
      ToolCallResp: 'host → agent',
      ToolResult: undefined,
    },
  },
];

/** Fields every message has; they are told once, in a table of their own. */
const baseFields = ['type', 'id', 'a2e', 'version', 'ts'];
/** Fields every answer and event has beside those. */
const answerFields = ['req_id', 'cursor'];

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll('\n', ' ');

/** The JSON type of a field as people say it; shapes that have a table are named by it. */
function typeOf(schema: Schema, shapes: ReadonlyMap<string, string>): string {
  const shape = shapes.get(JSON.stringify(schema));
  if (shape !== undefined) return shape;
  if (schema.anyOf !== undefined) return schema.anyOf.map((each) => typeOf(each, shapes)).join(' or ');
  if (schema.type === 'array') return `array of ${typeOf(schema.items ?? {}, shapes)}`;
  return schema.type ?? 'any';
}

function fieldRows(schema: Schema, names: readonly string[], shapes: ReadonlyMap<string, string>): string[] {
  return names.map((name) => {
    const field = schema.properties?.[name] ?? {};
    const needed = schema.required?.includes(name) ? 'yes' : '';
    return `| \`${name}\` | ${typeOf(field, shapes)} | ${needed} | ${cell(field.description ?? '')} |`;
  });
}

const head = ['| Field | JSON type | Needed | Meaning |', '| --- | --- | --- | --- |'];

/** One message or shape: its name, what it is for, its own fields. */
function section(name: string, schema: Schema, direction: Direction | undefined, shapes: ReadonlyMap<string, string>) {
  const type = schema.properties?.type?.const;
  const title = direction === undefined ? `### ${name}` : `### \`${type}\``;
  const isAnswer = schema.properties?.cursor !== undefined;
  const told = direction === undefined ? [] : [...baseFields, ...(isAnswer ? answerFields : [])];
  const own = Object.keys(schema.properties ?? {}).filter((field) => !told.includes(field));
  const text = [direction && `*${direction}.*`, schema.description].filter(Boolean).join(' ');
  const fields = own.length === 0 ? 'No fields of its own.' : [...head, ...fieldRows(schema, own, shapes)].join('\n');
  return [title, text, fields].join('\n\n');
}

function read(root: string, { published, shown, name }: Chapter): Readonly<Record<string, Schema>> {
  const { $defs } = JSON.parse(readFileSync(join(root, published), 'utf8')) as { $defs: Record<string, Schema> };
  const missing = Object.keys($defs).filter((each) => !Object.hasOwn(shown, each));
  const unknown = Object.keys(shown).filter((each) => !Object.hasOwn($defs, each));
  if (missing.length + unknown.length > 0) {
    throw new Error(`${page}, ${name}: not told: ${missing.join(', ')}; not in ${published}: ${unknown.join(', ')}`);
  }
  return $defs;
}

/** The text between the marks of one chapter. */
function chapterText(root: string, chapter: Chapter): string {
  const defs = read(root, chapter);
  const names = Object.keys(chapter.shown);
  const shapes = new Map(
    names
      .filter((name) => chapter.shown[name] === undefined)
      .map((name) => [JSON.stringify(defs[name]), `[${name}](#${name.toLowerCase()})`]),
  );
  return names.map((name) => section(name, defs[name] as Schema, chapter.shown[name], shapes)).join('\n\n');
}

/** The table of the fields that all messages have, and those that answers and events have beside them. */
function baseText(root: string): string {
  const { $defs } = JSON.parse(readFileSync(join(root, 'schema/a2e.json'), 'utf8')) as {
    $defs: Record<string, Schema>;
  };
  const { Ping: request, Event: event } = $defs as Record<'Ping' | 'Event', Schema>;
  const type: Schema = { type: 'string', description: 'Which message it is.' };
  const answers = answerFields.map((name) => {
    const field = event.properties?.[name] as Schema;
    return [name, { ...field, description: `Answers and events: ${field.description}` }] as const;
  });
  const properties = { ...request.properties, type, ...Object.fromEntries(answers) };
  const rows = fieldRows({ required: request.required, properties }, [...baseFields, ...answerFields], new Map());
  return [...head, ...rows].join('\n');
}

/** Replaces what stands between `<!-- messages NAME -->` and its end mark. */
function between(text: string, name: string, generated: string): string {
  const [start, end] = [`<!-- messages ${name} -->\n`, `<!-- /messages ${name} -->`];
  const from = text.indexOf(start);
  const to = text.indexOf(end);
  if (from === -1 || to < from) throw new Error(`${page} has lost the marks around its ${name} messages`);
  return `${text.slice(0, from + start.length)}\n${generated}\n\n${text.slice(to)}`;
}

/** The whole page with its tables renewed; everything outside the marks stays as it is. */
export function protocolPage(root: string): string {
  let text = between(readFileSync(join(root, page), 'utf8'), 'base', baseText(root));
  for (const chapter of chapters) text = between(text, chapter.name, chapterText(root, chapter));
  return text;
}
