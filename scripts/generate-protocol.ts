/**
 * Writes the tables of `docs/protocol/a2e.md`, between their marks, from the schemas of A2E: every message with its fields,
 * and the shapes inside them. The prose around them is written by hand.
 */
import { a2eSchemas } from '../src/protocol/a2e.schema.ts';
import { senderOf, units } from './generate-validators.ts';
import { published, type Schema } from './members.ts';
import { cell, kindOf, linksTo, NO_SHAPES, pageWith, type Shapes, table } from './schema-tables.ts';

const page = 'docs/protocol/a2e.md';

/** Fields every message has; one table shows them for all. */
const baseFields = ['type', 'id', 'a2e', 'version', 'ts'];
/** Fields every reply and event has beside those. */
const replyFields = ['req_id', 'cursor'];

const directions = { agent: 'agent → host', host: 'host → agent' } as const;

const fieldTable = (schema: Schema, names: readonly string[], shapes: Shapes): string =>
  table(
    ['Field', 'JSON type', 'Needed', 'Meaning'],
    names.map((name) => {
      const field = schema.properties?.[name] ?? {};
      const needed = schema.required?.includes(name) ? 'yes' : '';
      return [`\`${name}\``, kindOf(field, shapes), needed, cell(field.description)];
    }),
  );

/** Returns one message or shape: its name, its purpose, its fields. */
function section(name: string, schema: Schema, sender: 'agent' | 'host' | undefined, shapes: Shapes): string {
  const title = sender === undefined ? `### ${name}` : `### \`${schema.properties?.type?.const}\``;
  const isReply = schema.properties?.cursor !== undefined;
  const shown = sender === undefined ? [] : [...baseFields, ...(isReply ? replyFields : [])];
  const own = Object.keys(schema.properties ?? {}).filter((field) => !shown.includes(field));
  const text = [sender && `*${directions[sender]}.*`, schema.description].filter(Boolean).join(' ');
  return [title, text, own.length === 0 ? 'No fields of its own.' : fieldTable(schema, own, shapes)].join('\n\n');
}

/** Returns the sections of the messages and shapes of one unit. */
function sections(schemas: Readonly<Record<string, unknown>>): string {
  const plain = Object.entries(schemas).map(([name, schema]) => [name, published(schema), senderOf(schema)] as const);
  const shapes = linksTo(
    Object.fromEntries(plain.filter(([, , sender]) => sender === undefined).map(([name, schema]) => [name, schema])),
  );
  return plain.map(([name, schema, sender]) => section(name, schema, sender, shapes)).join('\n\n');
}

/** Returns the table of the fields that all messages have, and those that replies and events have beside them. */
function baseTable(): string {
  const request = published(a2eSchemas.Ping);
  const event = published(a2eSchemas.Event);
  const type: Schema = { type: 'string', description: 'Which message it is.' };
  const more = replyFields.map((name) => {
    const field = event.properties?.[name] as Schema;
    return [name, { ...field, description: `Answers and events: ${field.description}` }] as const;
  });
  const properties = { ...request.properties, type, ...Object.fromEntries(more) };
  return fieldTable({ required: request.required, properties }, [...baseFields, ...replyFields], NO_SHAPES);
}

/** Returns the whole page with its tables renewed; everything outside the marks stays unchanged. */
export const protocolPage = (root: string): string =>
  pageWith(root, page, 'messages', {
    base: baseTable(),
    ...Object.fromEntries(units.map(({ name, schemas }) => [name, sections(schemas)])),
  });
