/** The checks of messages accept and refuse the values that Ajv accepts and refuses, with the issues of Ajv. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv } from 'ajv';
import { checkedSchema, senderOf, units } from '../../scripts/generate-validators.ts';
import { published, type Schema } from '../../scripts/members.ts';
import type { Check, Issue } from '../../src/wire/check.ts';
import fc from '../support/properties.ts';

/** Values of a schema, most of them with something wrong in a few places. */
function values(schema: Schema, depth = 0): fc.Arbitrary<unknown> {
  const wrong = fc.constantFrom<unknown>(
    null,
    '',
    'x',
    0,
    -1,
    1.5,
    1e308,
    Number.NaN,
    true,
    [],
    {},
    ['a'],
    { a: 1 },
    '\u0000',
  );
  const fitting = valuesOf(schema, depth);
  return fc.oneof({ weight: 30, arbitrary: fitting }, { weight: 1, arbitrary: wrong });
}

function valuesOf(schema: Schema, depth: number): fc.Arbitrary<unknown> {
  const { anyOf, items, properties, required = [], additionalProperties, minimum = -3, maximum } = schema;
  if (schema.const !== undefined) return fc.constant(schema.const);
  if (schema.enum !== undefined) return fc.constantFrom(...schema.enum);
  if (anyOf !== undefined) return fc.oneof(...anyOf.map((each) => values(each, depth + 1)));
  const [type] = fc.sample(fc.constantFrom(...[schema.type ?? 'string'].flat()), { numRuns: 1, seed: depth });
  switch (type) {
    case 'string':
      return schema.pattern === undefined
        ? fc.string({ maxLength: 3 })
        : fc.constantFrom('a', 'a-b', 'abc/def', '0'.repeat(64));
    case 'number':
    case 'integer':
      return fc.integer({
        min: Math.floor(minimum) - 1,
        max: Math.ceil(Math.max(minimum, Math.min(maximum ?? 9, 1_000_000))) + 1,
      });
    case 'boolean':
      return fc.boolean();
    case 'null':
      return fc.constant(null);
    case 'array':
      return fc.array(items === undefined || depth > 6 ? fc.constant(1) : values(items, depth + 1), { maxLength: 3 });
  }
  if (additionalProperties !== undefined)
    return fc.dictionary(fc.constantFrom('a', 'b/c', '~'), values(additionalProperties, depth + 1));
  const members = Object.entries(properties ?? {}).map(
    ([name, member]) => [name, depth > 6 ? fc.constant(undefined) : values(member, depth + 1)] as const,
  );
  return fc.record(Object.fromEntries(members), { requiredKeys: [...required.slice(depth % 2)] });
}

const short = (issues: readonly Issue[] | null | undefined) =>
  (issues ?? []).map(({ instancePath, keyword, params, message }) => ({ instancePath, keyword, params, message }));

for (const { name: unit, source, schemas } of units) {
  test(`the checks of ${unit} find what Ajv finds`, async () => {
    const base = new URL(`../../${source.replace('.schema.ts', '')}`, import.meta.url).href;
    const checks = {
      ...(await import(`${base}.generated.ts`)),
      ...(await import(`${base}.replies.generated.ts`)),
    } as Record<string, Check>;
    const ajv = new Ajv({ strict: true, allowUnionTypes: true });
    let refused = 0;
    let accepted = 0;
    for (const [name, message] of Object.entries(schemas)) {
      if (senderOf(message) === undefined) continue;
      const schema = checkedSchema(published(message));
      const ours = checks[name] as Check;
      const theirs = ajv.compile(schema as object);
      fc.assert(
        fc.property(values(schema), (value) => {
          const fits = theirs(value);
          assert.equal(ours(value), fits, `${name}: ${JSON.stringify(value)}`);
          if (fits) accepted++;
          else {
            refused++;
            assert.deepEqual(short(ours.errors), short(theirs.errors as readonly Issue[]), name);
          }
        }),
        { numRuns: 60 },
      );
    }
    assert.ok(refused > 20 && accepted > 20, `${unit}: ${refused} refused, ${accepted} accepted`);
  });
}
