/**
 * The library's errors for a program in plain JavaScript that misuses it: each error names the mistake and the next
 * step, at the place of the mistake, and no host starts without the plugins it was created for.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { connect, createHost, definePlugin, handle, listen, method, serve, tool, toolsPlugin } from '../src/index.ts';
import { createAuthenticator, tokenDigest } from '../src/session/auth.ts';
import { echo } from './support/tools.ts';

/** The library as plain JavaScript sees it: without types. */
// biome-ignore lint/suspicious/noExplicitAny: what a compiler would refuse is what is tested
const js = { connect, createHost, definePlugin, handle, listen, method, serve, tool, toolsPlugin } as any;

const run = (): number => 1;
const described = (more: object) => ({ name: 'x', description: 'A tool', run, ...more });
const schema = (properties: object) => ({ input: { type: 'object', properties } });
const startWith = (...plugins: unknown[]) => js.createHost({ plugins }).start();

async function started() {
  const host = createHost({ plugins: [toolsPlugin({ tools: [echo] })] });
  await host.start();
  return host;
}

/** A mistake, the code it fails with, and the required text of the message. */
type Mistake = readonly [what: string, make: () => unknown, code: string, says: RegExp];

const plugins: readonly Mistake[] = [
  ['no plugin at all', () => js.definePlugin(), 'config_invalid', /object \{ name, type, methods \}, got undefined/],
  ['a plugin without a name', () => js.definePlugin({}), 'config_invalid', /needs a name/],
  ['no type', () => js.definePlugin({ name: 'x', methods: [] }), 'config_invalid', /"x": type .* one of skill, tools,/],
  [
    'a type in capitals',
    () => js.definePlugin({ name: 'x', type: 'Tools', methods: [] }),
    'config_invalid',
    /mean "tools"\?/,
  ],
  [
    'an alias as type',
    () => js.definePlugin({ name: 'x', type: 'skills', methods: [] }),
    'config_invalid',
    /mean "skill"\?/,
  ],
  [
    'no methods',
    () => js.definePlugin({ name: 'x', type: 'tools' }),
    'config_invalid',
    /"x": methods .*handle\(method, run\)/,
  ],
  [
    'a function as method',
    () => js.definePlugin({ name: 'x', type: 'tools', methods: [run] }),
    'config_invalid',
    /methods\[0\] must come from handle\(method, run\), got a function/,
  ],
  [
    'a hook that is no function',
    () => js.definePlugin({ name: 'x', type: 'notes', methods: [], start: 5 }),
    'config_invalid',
    /start must be a function, got 5/,
  ],
  [
    'a misspelt hook',
    () => js.definePlugin({ name: 'x', type: 'notes', methods: [], strat: run }),
    'config_invalid',
    /has "strat"; did you mean "start"\?/,
  ],
  [
    'methods of another capability',
    () => js.definePlugin({ ...toolsPlugin({ tools: [] }), name: 'x', type: 'tool' }),
    'config_invalid',
    /type is "tool", but "tool\/list\/req" belongs to "tools"/,
  ],
  [
    'handle with a text',
    () => js.handle('tool/call/req', run),
    'usage',
    /method made by method\(\).*got "tool\/call\/req"/,
  ],
  ['method with a text', () => js.method('a/b/req'), 'usage', /expected method\(\{ request:/],
  ['a host of nothing', () => js.createHost(), 'config_invalid', /expected createHost\(\{ plugins: \[plugin\] \}\)/],
  [
    'one plugin, no list',
    () => js.createHost({ plugins: toolsPlugin({ tools: [] }) }),
    'config_invalid',
    /got an object/,
  ],
  ['auth of its own shape', () => js.createHost({ plugins: [], auth: {} }), 'config_invalid', /createAuthenticator/],
  ['a plugin that is undefined', () => startWith(undefined), 'config_invalid', /got undefined/],
  ['a tool as plugin', () => startWith(echo), 'config_invalid', /"echo" is a tool.*toolsPlugin\(\{ tools: \[it\] \}\)/],
];

const tools: readonly Mistake[] = [
  [
    'toolsPlugin with a list',
    () => js.toolsPlugin([echo]),
    'config_invalid',
    /expected toolsPlugin\(\{ tools: \[tool\] \}\), got a list/,
  ],
  ['no tool', () => js.tool(), 'config_invalid', /object \{ name, description, run \}, got undefined/],
  ['a name with a blank', () => js.tool(described({ name: 'x y' })), 'config_invalid', /tool name "x y" must be/],
  ['no run', () => js.tool({ name: 'x', description: 'A tool' }), 'config_invalid', /"x": run must be a function/],
  ['no description', () => js.tool({ name: 'x', run }), 'config_invalid', /"x" needs a description/],
  [
    'a text as input',
    () => js.tool(described({ input: 'string' })),
    'config_invalid',
    /"x": input must be a JSON Schema/,
  ],
  [
    'no object as input',
    () => js.tool(described({ input: { type: 'string' } })),
    'config_invalid',
    /\/type must be "object"/,
  ],
  [
    'an unknown type in a schema',
    () => startWith(js.toolsPlugin({ tools: [described(schema({ n: { type: 'nubmer' } }))] })),
    'config_invalid',
    /arguments of x is invalid: \/properties\/n\/type .*: array, boolean, integer,/,
  ],
  [
    'a broken pattern',
    () => startWith(js.toolsPlugin({ tools: [described(schema({ n: { pattern: '(' } }))] })),
    'config_invalid',
    /arguments of x is invalid: \/properties\/n\/pattern .*Unterminated group/,
  ],
  [
    'a reference to nothing',
    () => startWith(js.toolsPlugin({ tools: [described(schema({ n: { $ref: '#/$defs/none' } }))] })),
    'config_invalid',
    /arguments of x is invalid: \/properties\/n\/\$ref /,
  ],
  [
    'a broken schema of a result',
    () => startWith(js.toolsPlugin({ tools: [described({ output: { required: 'n' } })] })),
    'config_invalid',
    /result of x is invalid: \/required must be array/,
  ],
];

const callers: readonly Mistake[] = [
  ['no address', () => js.connect(), 'usage', /expected an address .* or a host of this process, got undefined/],
  [
    'an address without its scheme',
    () => js.connect('localhost:4700'),
    'usage',
    /tcp:\/\/host:port.*got "localhost:4700"/,
  ],
  [
    'a host that was not started',
    () => js.connect(createHost({ plugins: [] })),
    'usage',
    /not started; await host\.start\(\)/,
  ],
  [
    'an address for a host that was not started',
    () => js.listen(createHost({ plugins: [] }), 'tcp://127.0.0.1:0'),
    'usage',
    /not started; await host\.start\(\)/,
  ],
  [
    'a port instead of an address',
    async () => js.listen(await started(), 4700),
    'usage',
    /tcp:\/\/host:port.*got 4700/,
  ],
  ['listening without a host', () => js.listen('tcp://127.0.0.1:0'), 'usage', /expected listen\(host, address\)/],
  [
    'serving what is no configuration',
    () => js.serve({ listen: 'tcp://127.0.0.1:0' }),
    'usage',
    /path of a handfast\.yaml/,
  ],
  [
    'a text as capabilities',
    async () => js.connect(await started(), { capabilities: 'tools' }),
    'usage',
    /must be a list of names, e\.g\. \['tools'\], got "tools"/,
  ],
  [
    'a misspelt capability',
    async () => js.connect(await started(), { capabilities: ['tool'] }),
    'usage',
    /no capability "tool"; did you mean "tools"\?/,
  ],
  [
    'a client that was not asked for',
    async () => (await js.connect(await started())).tools.call('echo'),
    'capability_missing',
    /tools was not granted: the agent did not ask for it; connect with capabilities: \['tools'\]/,
  ],
  [
    'a client that does not exist',
    async () => (await js.connect(await started(), { capabilities: ['tools', 'chains'] })).chains.run(),
    'capability_missing',
    /chains was not granted: no plugin loaded/,
  ],
];

for (const [subject, mistakes] of Object.entries({ plugins, tools, callers })) {
  describe(`mistakes in plain JavaScript: ${subject}`, () => {
    for (const [what, make, code, says] of mistakes) {
      test(what, async () => {
        await assert.rejects(
          async () => make(),
          (error: { code?: string; message: string }) => {
            assert.equal(error.code, code, error.message);
            assert.match(error.message, says);
            return true;
          },
        );
      });
    }
  });
}

test('a missing token and a wrong one have different messages', async (t) => {
  const auth = createAuthenticator([{ principal: { name: 'me' }, digests: [tokenDigest('right')] }]);
  const host = createHost({ plugins: [toolsPlugin({ tools: [echo] })], auth });
  await host.start();
  t.after(() => host.close());
  await assert.rejects(connect(host), {
    code: 'auth_failed',
    message: /demands a token and none was sent; pass it as `token`/,
  });
  await assert.rejects(connect(host, { token: 'wrong' }), { code: 'auth_failed', message: /refused the token/ });
});

test('a host that refuses to start has stopped the plugins that had started, and stored nothing', async () => {
  const seen: string[] = [];
  const first = definePlugin({
    name: 'first',
    type: 'notes',
    methods: [],
    start: () => void seen.push('start'),
    stop: () => void seen.push('stop'),
    snapshot: () => seen.push('snapshot'),
  });
  const broken = toolsPlugin({
    tools: [tool({ ...described({ input: { type: 'object', required: 'n' } }), name: 'broken' })],
  });
  const host = createHost({ plugins: [first, broken] });
  await assert.rejects(host.start(), { code: 'config_invalid', message: /arguments of broken is invalid: \/required/ });
  assert.deepEqual(seen, ['start', 'stop']);
});
