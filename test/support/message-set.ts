/**
 * The recorded messages of a capability (`test/vectors/a2e`), and the validators of the definitions in its published
 * schema.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Check } from '../../src/wire/check.ts';
import { root } from '../rules/scan.ts';
import type { Message } from './raw-agent.ts';

type Checks = Readonly<Record<string, unknown>>;

export interface MessageSet {
  /** The recorded lines. */
  readonly vectors: readonly Message[];
  /** The validator of each message type. */
  readonly checks: ReadonlyMap<string, Check>;
  /** Asserts the number of lines, and that each is valid, with unknown fields too. */
  mustBeValid(count: number): void;
}

/** Returns the set of a capability; `requests` and `replies` are its generated modules. */
export function messageSetOf(name: string, requests: Checks, replies: Checks): MessageSet {
  const lines = readFileSync(join(root, `test/vectors/a2e/${name}.ndjson`), 'utf8')
    .trim()
    .split('\n');
  const vectors = lines.map((line) => JSON.parse(line) as Message);
  const published = JSON.parse(readFileSync(join(root, `schema/${name}.json`), 'utf8')) as {
    $defs: Record<string, { properties: { type?: { const?: string } } }>;
  };
  const checks = new Map<string, Check>();
  for (const [type, { properties }] of Object.entries(published.$defs)) {
    const check = (requests[type] ?? replies[type]) as Check | undefined;
    if (properties.type?.const !== undefined && check !== undefined) checks.set(properties.type.const, check);
  }
  return {
    vectors,
    checks,
    mustBeValid(count) {
      assert.equal(vectors.length, count);
      for (const message of vectors) {
        const check = checks.get(message.type) ?? assert.fail(message.type);
        assert.ok(check(message), `${message.type}: ${JSON.stringify(check.errors)}`);
        assert.ok(check({ ...message, later: [1] }));
      }
    },
  };
}
