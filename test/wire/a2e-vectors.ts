/**
 * The shared part of the tests of the golden lines: the lines of `test/vectors/a2e/`, the published schema and the
 * validator of each message type, and a link whose every byte is recorded.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Transform } from 'node:stream';
import type { TestContext } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as toolChecks from '../../src/capabilities/tools/tools.generated.ts';
import * as toolReplyChecks from '../../src/capabilities/tools/tools.replies.generated.ts';
import * as coreChecks from '../../src/protocol/a2e.generated.ts';
import * as coreReplyChecks from '../../src/protocol/a2e.replies.generated.ts';
import type { Link } from '../../src/transport/link.ts';
import { StreamLink } from '../../src/transport/stream.ts';
import { toAscii } from '../../src/wire/ascii.ts';
import type { Check } from '../../src/wire/check.ts';
import type { Message } from '../support/raw-agent.ts';

const root = join(import.meta.dirname, '../..');
export const folder = join(root, 'test/vectors/a2e');

export interface Manifest {
  readonly files: Record<string, { readonly lines: number; readonly types: Record<string, number> }>;
  readonly total_lines: number;
}

export const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as Manifest;

/** One golden line and its position. */
export interface Vector {
  readonly at: string;
  readonly text: string;
  readonly message: Message;
}

export const vectors: readonly Vector[] = Object.keys(manifest.files).flatMap((file) =>
  readFileSync(join(folder, file), 'utf8')
    .split('\n')
    .filter((text) => text !== '')
    .map((text, index) => ({ at: `${file}:${index + 1}`, text, message: JSON.parse(text) as Message })),
);

/** The published schema and the validator of each message type that has them. */
export const schemas = new Map<string, { readonly schema: (message: unknown) => boolean; readonly check: Check }>();
for (const [file, checks] of [
  ['schema/a2e.json', { ...coreChecks, ...coreReplyChecks }],
  ['schema/tools.json', { ...toolChecks, ...toolReplyChecks }],
] as const) {
  const published = JSON.parse(readFileSync(join(root, file), 'utf8')) as {
    $defs: Record<string, { properties: { type?: { const?: string } } }>;
  };
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
  ajv.addSchema(published, file);
  for (const [name, definition] of Object.entries(published.$defs)) {
    const type = definition.properties.type?.const;
    if (type === undefined) continue;
    const validate = ajv.compile({ $ref: `${file}#/$defs/${name}` });
    const schema = (message: unknown): boolean => {
      assert.ok(validate(message), `${name}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(message)}`);
      return true;
    };
    schemas.set(type, { schema, check: (checks as Record<string, Check>)[name] as Check });
  }
}

/** Types that only a handshake extension of this library brings; other implementations have no lines of them. */
export const extensions = [
  'cancel',
  'capabilities/changed/push',
  'journal/follow/req',
  'journal/follow/resp',
  'journal/event',
];

/**
 * Returns the role of a message, by the form of its type: the few requests without `/req` are recognised by having no
 * other ending.
 */
export function roleOf(type: string): 'request' | 'answer' | 'event' {
  if (/\/(event|push)$|_EVENT$/.test(type)) return 'event';
  if (/\/resp$|_RESP$|^(error|pong)$/.test(type)) return 'answer';
  return 'request';
}

export const ascii = /^[\x20-\x7f]*$/;

/** Asserts the rules for every message on the wire. Returns it. */
export function proper(line: string): Message {
  assert.match(line, ascii);
  const message = JSON.parse(line) as Message;
  // Compact, and no member twice: nothing is lost on the way through JSON but the last zeros of a time.
  const canonical = line.replace(/("(?:ts|created_at)":)([\d.]+)/g, (_all, name, time) => name + Number(time));
  assert.equal(canonical, toAscii(JSON.stringify(message)));
  assert.equal(message.a2e, '1.0', line);
  assert.equal(message.version, '1.0', line);
  assert.equal(typeof message.ts, 'number', line);
  assert.ok(typeof message.id === 'string' && message.id !== '', line);
  schemas.get(message.type)?.schema(message);
  return message;
}

/** Returns both ends of a link over two byte streams, and every byte that crossed. */
export function wire(t: TestContext): {
  agent: Link;
  host: Link;
  sent: { agent: () => string[]; host: () => string[] };
} {
  const tap = () => {
    const chunks: Buffer[] = [];
    const stream = new Transform({
      transform(chunk: Buffer, _encoding, done) {
        chunks.push(chunk);
        done(null, chunk);
      },
    });
    const lines = () => {
      const text = Buffer.concat(chunks).toString('latin1');
      return text.split('\n').filter((line) => line !== '');
    };
    return { stream, lines };
  };
  const up = tap();
  const down = tap();
  const link = (readable: Transform, writable: Transform): Link =>
    new StreamLink({ transport: 'stdio', peer: 'test', readable, writable, closesAlone: true });
  const agent = link(down.stream, up.stream);
  const host = link(up.stream, down.stream);
  t.after(() => {
    agent.destroy();
    host.destroy();
  });
  return { agent, host, sent: { agent: up.lines, host: down.lines } };
}
