/** Schemas of tools in the forms of the providers: none is refused by a reader of the provider's rules, and arguments come back as the tool has them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Turns } from '../../../src/base/turns.ts';
import { toolNames, toolNamesInTurns } from '../../../src/control/backends/model/tool-names.ts';
import { type AdaptedSchema, adaptedSchema } from '../../../src/control/backends/model/tool-schemas.ts';
import type { ToolOffer } from '../../../src/control/rounds/toolbox.ts';
import { objectSchema } from '../../../src/control/rounds/toolbox.ts';
import fc from '../../support/properties.ts';
import { schemaRefusal } from '../../support/provider-rules.ts';

const RULES = {
  anthropic: 'anthropic',
  openai: 'openai',
  google: 'google',
  antigravity: 'google',
  openrouter: 'openai',
  compatible: 'openai',
} as const;
const PROVIDERS = Object.keys(RULES) as (keyof typeof RULES)[];

function adapted(schema: unknown, provider = 'anthropic'): AdaptedSchema {
  const made = adaptedSchema(schema, provider, 'm');
  assert.ok(typeof made !== 'string', String(made));
  return made;
}

/** Fails where a provider would refuse the schema. */
function taken(schema: unknown): void {
  for (const provider of PROVIDERS) {
    const made = adapted(schema, provider);
    const refusal = schemaRefusal(made.schema, RULES[provider]);
    assert.equal(
      refusal,
      undefined,
      `${provider}: ${refusal} ${JSON.stringify(schema)} → ${JSON.stringify(made.schema)}`,
    );
  }
}

// biome-ignore lint/suspicious/noExplicitAny: schemas of any shape
type Any = any;

test('a union at the root becomes one object: common names stay required, the note names the sets', () => {
  const schema = {
    type: 'object',
    properties: { project: { type: 'string' } },
    required: ['project'],
    anyOf: [
      { properties: { paths: { type: 'array', items: { type: 'string' } } }, required: ['paths'] },
      { properties: { scope: { type: 'string' } }, required: ['scope'] },
    ],
  };
  const { schema: made, note } = adapted(schema);
  assert.deepEqual(Object.keys(made.properties as object), ['project', 'paths', 'scope']);
  assert.deepEqual(made.required, ['project']);
  assert.match(note, /\(paths\) or \(scope\)/);
  taken(schema);
});

test('names that each branch of allOf requires, and names that all branches of oneOf require, stay required', () => {
  const all = adapted({
    allOf: [
      { properties: { a: {} }, required: ['a'] },
      { properties: { b: {} }, required: ['b'] },
    ],
  });
  assert.deepEqual(all.schema.required, ['a', 'b']);
  const some = adapted({
    oneOf: [{ required: ['a', 'b'] }, { required: ['a', 'c'] }],
    properties: { a: {}, b: {}, c: {} },
  });
  assert.deepEqual(some.schema.required, ['a']);
});

test('a property with two forms in two branches has both', () => {
  const { schema } = adapted({
    oneOf: [{ properties: { a: { type: 'string' } } }, { properties: { a: { type: 'number' } } }],
  });
  assert.deepEqual((schema.properties as Any).a, { anyOf: [{ type: 'string' }, { type: 'number' }] });
});

test('a property of a branch may have any name', () => {
  for (const list of ['allOf', 'anyOf', 'oneOf']) {
    for (const name of ['__proto__', 'constructor', 'toString']) {
      const branch = { properties: { [name]: { type: 'string' } }, required: [name] };
      for (const provider of PROVIDERS) {
        const { schema } = adapted({ type: 'object', [list]: [branch, branch] }, provider);
        assert.deepEqual(Object.entries(schema.properties as object), [[name, { type: 'string' }]], provider);
        assert.deepEqual(schema.required, [name], provider);
      }
    }
  }
});

test('the root may be a reference, a list of types, or have none', () => {
  const target = { type: 'object', properties: { deep: { type: 'string' } }, required: ['deep'] };
  for (const schema of [
    { $ref: '#/$defs/A', $defs: { A: target } },
    { $ref: '#/definitions/A', definitions: { A: target } },
    { type: ['object', 'null'], properties: target.properties, required: ['deep'] },
    { properties: target.properties, required: ['deep'] },
  ]) {
    const { schema: made } = adapted(schema);
    assert.equal(made.type, 'object');
    assert.deepEqual(made.properties, { deep: { type: 'string' } });
    assert.deepEqual(made.required, ['deep']);
    taken(schema);
  }
});

test('references: written out for providers without them, under one name for the others, and cut where they have no end', () => {
  const schema = {
    type: 'object',
    properties: {
      node: { $ref: '#/$defs/N' },
      same: { $ref: '#/properties/node' },
      gone: { $ref: 'https://else.test/x.json' },
    },
    $defs: {
      N: {
        type: 'object',
        properties: { deep: { type: 'string', description: 'deepest' }, next: { $ref: '#/$defs/N' } },
      },
    },
  };
  const google = JSON.stringify(adapted(schema, 'google').schema);
  assert.match(google, /deepest/);
  assert.doesNotMatch(google, /\$ref|\$defs/);
  const { $defs, properties } = adapted(schema).schema as Any;
  assert.equal(properties.node.$ref, '#/$defs/N');
  assert.equal($defs.N.properties.next.$ref, '#/$defs/N');
  taken(schema);
});

test('references that double are not written out without end', () => {
  const $defs = Object.fromEntries(
    Array.from({ length: 30 }, (_, at) => [
      `D${at}`,
      { type: 'object', properties: { a: { $ref: `#/$defs/D${at + 1}` }, b: { $ref: `#/$defs/D${at + 1}` } } },
    ]),
  );
  const schema = {
    type: 'object',
    properties: { a: { $ref: '#/$defs/D0' } },
    $defs: { ...$defs, D30: { type: 'string' } },
  };
  const made = adapted(schema, 'google');
  assert.ok(made.work <= 4_000);
  taken(schema);
});

test('the length of a target counts each time that it is written out', () => {
  const words = Array.from({ length: 5_000 }, (_, at) => `word ${at}`);
  const references = Array.from({ length: 1_000 }, () => ({ $ref: '#/$defs/long' }));
  const properties = Object.fromEntries(references.map((each, at) => [`p${at}`, each]));
  for (const long of [{ enum: words }, { default: words }, { description: words.join() }, { type: words, title: '' }]) {
    const schema = { type: 'object', properties, $defs: { long } };
    for (const provider of PROVIDERS) {
      const length = JSON.stringify(adapted(schema, provider).schema).length;
      assert.ok(length < 2 * 1024 * 1024, `${provider}: ${length} characters`);
    }
  }
  for (const list of ['allOf', 'anyOf', 'oneOf']) {
    const schema = { type: 'object', [list]: references, $defs: { long: { required: words } } };
    assert.equal(adaptedSchema(schema, 'openai', 'm'), 'its schema has more than 4000 parts');
  }
});

test('names that all of many alternatives require are found in one pass', () => {
  const names = Array.from({ length: 15_000 }, (_, at) => `name ${at}`);
  const schema = { type: 'object', anyOf: [{ required: names }, { required: names.slice(1).toReversed() }] };
  assert.deepEqual(adapted(schema, 'openai').schema.required, names.slice(1));
});

test('forms of earlier drafts, and words outside JSON Schema', () => {
  const { properties } = adapted({
    $schema: 'http://json-schema.org/draft-04/schema#',
    type: 'object',
    properties: {
      tuple: { type: 'array', items: [{ type: 'string' }, { type: 'number' }], additionalItems: false },
      above: { type: 'number', minimum: 0, exclusiveMinimum: true },
      word: { type: 'str', nullable: true, 'x-order': 3 },
      flag: { type: 'bool', required: true },
      none: { type: null, description: null, enum: [] },
    },
    required: null,
  }).schema as Any;
  assert.deepEqual(properties.tuple.prefixItems, [{ type: 'string' }, { type: 'number' }]);
  assert.deepEqual(properties.above, { type: 'number', exclusiveMinimum: 0 });
  assert.deepEqual(properties.word, { type: ['string', 'null'] });
  assert.deepEqual(properties.flag, { type: 'boolean' });
  assert.deepEqual(properties.none, {});
});

test('a server that makes a grammar of schemas gets no patterns and no long repetitions, but reads of them', () => {
  const schema = {
    type: 'object',
    properties: {
      to: { type: 'string', description: 'Address', pattern: '^(?!\\.).+@.+$', maxLength: 10_000 },
      list: { type: 'array', items: { type: 'string', pattern: 'a|b', maxLength: 20 }, maxItems: 500, minItems: 1 },
    },
  };
  for (const [provider, model] of [
    ['compatible', 'any'],
    ['openrouter', 'mistralai/any'],
  ] as const) {
    const { properties } = (adaptedSchema(schema, provider, model) as AdaptedSchema).schema as Any;
    assert.deepEqual(properties.to, {
      type: 'string',
      description: 'Address (pattern: "^(?!\\\\.).+@.+$"; maxLength: 10000)',
    });
    assert.deepEqual(properties.list, {
      type: 'array',
      items: { type: 'string', description: '(pattern: "a|b")', maxLength: 20 },
      description: '(maxItems: 500)',
      minItems: 1,
    });
  }
  const { properties } = (adaptedSchema(schema, 'openai', 'any') as AdaptedSchema).schema as Any;
  assert.equal(properties.to.maxLength, 10_000);
});

test('names that a provider does not take are replaced at their place alone, and arguments are translated both ways', () => {
  const schema = {
    type: 'object',
    properties: {
      $filter: { type: 'string' },
      filter: { type: 'string' },
      'filter[status]': {
        type: 'array',
        items: { type: 'object', properties: { 'a b': { type: 'string' } }, required: ['a b'] },
      },
      free: { type: 'object', additionalProperties: true },
    },
    required: ['$filter'],
  };
  const { schema: made, names } = adapted(schema);
  const given = Object.keys(made.properties as object);
  assert.deepEqual(given, ['filter_2', 'filter', 'filter_status', 'free']);
  assert.deepEqual(made.required, ['filter_2']);
  const own = {
    $filter: 'x',
    filter: 'y',
    'filter[status]': [{ 'a b': '1', other: 2 }],
    free: { a_b: 1, filter_2: 3, $filter: 4 },
  };
  const sent = names!.toProvider(own);
  assert.deepEqual(sent, { filter_2: 'x', filter: 'y', filter_status: [{ a_b: '1', other: 2 }], free: own.free });
  assert.deepEqual(names!.fromProvider(sent), own);
  taken(schema);
});

test('names are translated behind references and alternatives, too', () => {
  const schema = {
    type: 'object',
    properties: { list: { anyOf: [{ type: 'array', items: { $ref: '#/$defs/A' } }, { type: 'null' }] } },
    allOf: [{ properties: { 'x y': { type: 'string' } } }],
    $defs: { A: { type: 'object', properties: { ä: { $ref: '#/$defs/A' } } } },
  };
  const { names } = adapted(schema);
  const own = { list: [{ ä: { ä: {} } }], 'x y': '1' };
  const sent = names!.toProvider(own);
  assert.doesNotMatch(JSON.stringify(sent), /ä|x y/);
  assert.deepEqual(names!.fromProvider(sent), own);
});

test('a definition behind a name is found in a long schema, and words of objects are not types', () => {
  const long = Array.from({ length: 35_000 }, (_, at) => `word ${at}`);
  const schema = {
    type: 'object',
    properties: {
      long: { enum: long },
      named: { $ref: '#here' },
      odd: { type: 'constructor' },
      proto: { type: '__proto__' },
    },
    $defs: { A: { $anchor: 'here', type: 'string' } },
  };
  const google = adapted(schema, 'google').schema.properties as Any;
  assert.equal(google.named.type, 'string');
  assert.equal(google.odd.type, undefined);
  assert.equal(google.proto.type, undefined);
  taken({ ...schema, properties: { ...schema.properties, long: {} } });
});

test('names that look alike get numbers, however long they are', () => {
  const names = ['ä', 'ö', 'ü', `${'_'.repeat(200_000)}é`];
  const schema = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) };
  const given = Object.keys(adapted(schema).schema.properties as object);
  assert.deepEqual(given, ['p_', 'p__2', 'p__3', 'p__4']);
});

const offer = (name: string, inputSchema: unknown, kind?: string): ToolOffer => ({
  name,
  description: name,
  inputSchema: inputSchema as ToolOffer['inputSchema'],
  risks: [],
  ...(kind && { kind }),
});

test('a tool that cannot be adapted is left out with its reason, and so are those beyond the most that a provider takes', () => {
  const object = { type: 'object', properties: {} };
  const huge = {
    type: 'object',
    properties: Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`p${at}`, { type: 'string' }])),
  };
  const names = toolNames([offer('a', object), offer('huge', huge), offer('c', object)], {
    provider: 'openai',
    model: 'm',
  });
  assert.deepEqual(
    names.tools.map(({ name }) => name),
    ['a', 'c'],
  );
  assert.match(names.leftOut[0]!.reason, /more than 4000 parts/);
  const many = Array.from({ length: 130 }, (_, at) => offer(`t${at}`, object, at < 10 ? 'mcp' : undefined));
  const left = toolNames(many, { provider: 'openai', model: 'm' }).leftOut.map(({ name }) => name);
  assert.deepEqual(left, ['t8', 't9']);
});

const words = fc.constantFrom(
  'a',
  '$b',
  'c d',
  'filter[x]',
  'ü',
  '',
  'toString',
  '\ud83d',
  'x'.repeat(70),
  'constructor',
  '__proto__',
);
const { schema: anySchema } = fc.letrec<{ schema: unknown }>((tie) => ({
  schema: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(
      true,
      false,
      null,
      {},
      [],
      'x',
      { $ref: '#' },
      { $ref: '#/$defs/a' },
      { $ref: '#/nowhere' },
      { $ref: 'http://x.test/y#/z' },
    ),
    fc.record(
      {
        type: fc.constantFrom<unknown>(
          'object',
          'array',
          'string',
          'integer',
          'number',
          'boolean',
          'null',
          ['string', 'null'],
          ['array', 'object'],
          'any',
          'str',
          3,
          null,
        ),
        properties: fc.oneof(fc.dictionary(words, tie('schema'), { maxKeys: 3 }), fc.constantFrom<unknown>(null, [])),
        required: fc.oneof(fc.array(words, { maxLength: 3 }), fc.constantFrom<unknown>(true, null, 'a', [1])),
        items: fc.oneof(tie('schema'), fc.array(tie('schema'), { maxLength: 2 })),
        prefixItems: fc.array(tie('schema'), { maxLength: 2 }),
        additionalProperties: tie('schema'),
        anyOf: fc.array(tie('schema'), { maxLength: 3 }),
        oneOf: fc.array(tie('schema'), { maxLength: 3 }),
        allOf: fc.array(tie('schema'), { maxLength: 3 }),
        not: tie('schema'),
        if: tie('schema'),
        // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
        then: tie('schema'),
        $ref: fc.constantFrom('#', '#/$defs/a', '#/properties/a', '#/definitions/c%20d', '#here'),
        $anchor: fc.constant('here'),
        $defs: fc.dictionary(words, tie('schema'), { maxKeys: 2 }),
        definitions: fc.dictionary(words, tie('schema'), { maxKeys: 2 }),
        enum: fc.oneof(fc.array(fc.constantFrom<unknown>('x', 1, null, true, {}, '', 'x')), fc.constant<unknown>('x')),
        const: fc.constantFrom<unknown>('k', 1, null, {}),
        minimum: fc.constantFrom<unknown>(0, '1', null),
        exclusiveMinimum: fc.constantFrom<unknown>(true, 0),
        minLength: fc.constantFrom<unknown>(1, -1, 1.5),
        pattern: fc.constantFrom('^a', '(', '\\p{L}', '(?i)x', '(?<n>a)'),
        format: fc.constantFrom<unknown>('uri', 'date-time', '', 3),
        description: fc.constantFrom<unknown>('d', null, '\udc00', 3),
        nullable: fc.boolean(),
        default: fc.constantFrom<unknown>(null, '\ud83d', { a: 1 }),
        dependencies: fc.dictionary(words, fc.oneof(tie('schema'), fc.constant<unknown>(['a'])), { maxKeys: 1 }),
        $schema: fc.constantFrom('http://json-schema.org/draft-07/schema#', 'nonsense'),
        $id: fc.constantFrom('http://x.test/y', '#here'),
      },
      { requiredKeys: [] },
    ),
  ),
}));

test('a schema is adapted once for each provider, in each round the same', () => {
  let reads = 0;
  const given = {
    get properties() {
      reads += 1;
      return { a: { type: 'string' } };
    },
  };
  const offers = () => [{ ...offer('a', {}), inputSchema: objectSchema(given) }];
  const first = toolNames(offers(), { provider: 'openai', model: 'm' });
  const second = toolNames(offers(), { provider: 'openai', model: 'm' });
  assert.equal(reads, 1);
  assert.equal(second.tools[0]?.inputSchema, first.tools[0]?.inputSchema);
  const other = toolNames(offers(), { provider: 'google', model: 'm' });
  assert.notEqual(other.tools[0]?.inputSchema, first.tools[0]?.inputSchema);
});

test('the tools of a request are adapted in several turns', async () => {
  let waits = 0;
  let isOver = false;
  const turns = {
    get over() {
      isOver = !isOver;
      return isOver;
    },
    next: async () => {
      waits += 1;
    },
  } as unknown as Turns;
  const offers = Array.from({ length: 20 }, (_, at) => offer(`t${at}`, { type: 'object' }));
  const names = await toolNamesInTurns(offers, { provider: 'openai', model: 'm' }, turns);
  assert.deepEqual([names.tools.length, waits], [20, 20]);
});

test('the length of a schema counts, and its parts are not written out again and again', (t) => {
  const texts = t.mock.method(JSON, 'stringify');
  const deep = (text: string, ...beside: object[]): object => {
    let schema: object = { type: 'string', description: text };
    for (let depth = 0; depth < 50; depth += 1) schema = { prefixItems: [schema, ...beside] };
    return { type: 'object', properties: { a: schema } };
  };
  const text = 'x'.repeat(500_000);
  assert.equal(typeof adaptedSchema(deep(text), 'openai', 'm'), 'object');
  assert.equal(typeof adaptedSchema(deep(text, { type: 'null' }), 'openai', 'm'), 'object');
  const many = ['null', 'string', 'number', 'boolean', 'object', 'array', 'integer'].flatMap((type) => [
    { type },
    { type, description: type },
  ]);
  assert.equal(adaptedSchema(deep(text, ...many), 'openai', 'm'), 'its schema has more than 4000 parts');
  const written = texts.mock.calls.reduce((sum, { result }) => sum + (result?.length ?? 0), 0);
  t.mock.restoreAll();
  assert.ok(written < 8_000_000, `${written} characters`);
  const long = 'its schema is longer than 1048576 characters';
  assert.equal(adaptedSchema(deep(text + text + text), 'openai', 'm'), long);
  const numbers = Array.from({ length: 70_000 }, (_, at) => at);
  assert.equal(adaptedSchema({ properties: { a: { enum: numbers } } }, 'openai', 'm'), long);
  const pattern = { type: 'object', properties: { a: { type: 'string', pattern: 'a'.repeat(5_000) } } };
  assert.deepEqual((adapted(pattern, 'openai').schema.properties as Any).a, { type: 'string' });
});

const conditional = (condition: object, schema: object): object =>
  Object.fromEntries([
    ['if', condition],
    ['then', schema],
  ]);

test('names of nested branches count each time that they are put into an object', () => {
  const nested = (list: 'allOf' | 'anyOf' | 'then', names: number, depth: number): object => {
    let schema: object = {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: names }, (_, at) => [`p${at}`, { type: 'string' }])),
    };
    for (let level = 0; level < depth; level += 1) {
      const more = { properties: { [`q${level}`]: { type: 'string' } } };
      schema = list === 'then' ? conditional(more, schema) : { [list]: [schema, more] };
    }
    return schema;
  };
  for (const list of ['allOf', 'anyOf', 'then'] as const) {
    for (const provider of PROVIDERS) {
      assert.equal(adaptedSchema(nested(list, 3_000, 60), provider, 'm'), 'its schema has more than 4000 parts');
      assert.equal(typeof adaptedSchema(nested(list, 200, 10), provider, 'm'), 'object');
    }
  }
});

test('branches that are compared as texts are not written again on each level', (t) => {
  const texts = t.mock.method(JSON, 'stringify');
  let schema: object = { properties: { a: { description: 'x'.repeat(500_000) } } };
  for (let level = 0; level < 60; level += 1) {
    const others = Array.from({ length: 8 }, (_, at) => ({ properties: { a: { minLength: 10 * level + at } } }));
    schema = { anyOf: [schema, ...others] };
  }
  assert.equal(adaptedSchema(schema, 'openai', 'm'), 'its schema has more than 4000 parts');
  const written = texts.mock.calls.reduce((sum, { result }) => sum + (result?.length ?? 0), 0);
  assert.ok(written < 4_000_000, `${written} characters`);
});

test('a condition is read as far as the note of the tool shows it', (t) => {
  const texts = t.mock.method(JSON, 'stringify');
  let schema: object = { properties: { end: { description: 'x'.repeat(500_000) } } };
  for (let level = 0; level < 50; level += 1) schema = conditional({ properties: { a: { const: level } } }, schema);
  const { note } = adapted(schema, 'openai');
  assert.match(note, /^Arguments depend on each other: \{"if":\{"properties":.{140}…\./);
  const written = texts.mock.calls.reduce((sum, { result }) => sum + (result?.length ?? 0), 0);
  assert.ok(written < 20_000, `${written} characters`);
  const short = conditional({ properties: { a: { const: 1 } } }, { properties: { b: { enum: ['x', null, 2.5] } } });
  assert.equal(adapted(short, 'openai').note, `Arguments depend on each other: ${JSON.stringify(short)}.`);
});

test('the members of a definition are not listed for each reference to it', () => {
  let listed = 0;
  const definition = new Proxy(
    { $ref: '#/$defs/end', 'x-a': 1 },
    {
      ownKeys: (target) => {
        listed += 1;
        return Reflect.ownKeys(target);
      },
    },
  );
  // Each reference is spelled in its own way.
  const spelled = (at: number): string =>
    [...at.toString(2).padStart(9, '0')]
      .map((bit, place) => (bit === '1' ? `%6${place + 1}` : 'abcdefghi'[place]))
      .join('');
  const properties = Object.fromEntries(
    Array.from({ length: 500 }, (_, at) => [`p${at}`, { $ref: `#/$defs/${spelled(at)}` }]),
  );
  const made = adapted(
    { type: 'object', properties, $defs: { abcdefghi: definition, end: { type: 'string' } } },
    'google',
  );
  assert.equal(made.schema.properties !== undefined, true);
  assert.ok(listed > 0 && listed < 10, `${listed} times`);
});

test('schemas are read once for each place of arguments, not for each argument', () => {
  let reads = 0;
  const alternatives = Array.from({ length: 200 }, (_, at) => ({
    get properties() {
      reads += 1;
      return { [`p${at}`]: {}, list: { items: { $ref: '#' } } };
    },
    additionalProperties: { $ref: '#' },
  }));
  const schema = { type: 'object', properties: { 'a b': { type: 'string' } }, anyOf: alternatives };
  const { names } = adapted(schema, 'anthropic');
  reads = 0;
  const input = Object.fromEntries(
    Array.from({ length: 1_000 }, (_, at) => [
      `k${at}`,
      { 'a b': '', list: Array.from({ length: 10 }, () => ({ 'a b': 1 })) },
    ]),
  );
  const given = names?.toProvider(input) as Record<string, { a_b: string; list: Any[] }>;
  assert.deepEqual([given.k0?.a_b, given.k999?.list[9]], ['', { a_b: 1 }]);
  assert.ok(reads < 20_000, `${reads} reads`);
  assert.deepEqual(names?.fromProvider(given), input);
  const plain = { k: [{ list: [1] }] };
  assert.equal(names?.toProvider(plain), plain);
});

test('any schema at all becomes one that each provider takes', () => {
  fc.assert(
    fc.property(anySchema, (schema) => {
      for (const provider of PROVIDERS) {
        const made = adaptedSchema(schema, provider, 'm');
        if (typeof made === 'string') continue;
        const refusal = schemaRefusal(made.schema, RULES[provider]);
        assert.equal(refusal, undefined, `${provider}: ${refusal} ${JSON.stringify(made.schema)}`);
        assert.ok(JSON.stringify(made.schema).isWellFormed());
      }
    }),
    { numRuns: 100 },
  );
});
