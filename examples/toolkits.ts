/**
 * Toolkits: an agent sees the cost of tools, finds a deferred one by search, configures a custom toolkit with a secret
 * by its name, and disables it.
 *
 * Run it with `node -C handfast-source examples/toolkits.ts`.
 */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect, type HandfastError } from 'handfast';
import { createHost } from 'handfast/host';
import { defineToolkit, tool, toolkitsPlugins } from 'handfast/tools';

// A toolkit is a bundle of tools that share a configuration. Each session has its own.
const tracker = defineToolkit<{ project: string; token?: string }>({
  name: 'tracker',
  description: 'Issues of a project',
  config: {
    type: 'object',
    additionalProperties: false,
    required: ['project'],
    properties: {
      project: { type: 'string', minLength: 1, description: 'Whose issues.' },
      token: { type: 'string', format: 'secret', description: 'The name of the secret to sign in with.' },
    },
  },
  tools: ({ config, secret }) => [
    tool({
      name: 'list_issues',
      description: 'Lists the open issues of the project',
      risks: ['reads'],
      run(_, context) {
        const { project } = config(context);
        // The value stays on the host: it is sent to the tracker only.
        return { issues: [`${project}-1: the door squeaks`], signed_in: secret(context, 'token')?.value.length === 12 };
      },
    }),
  ],
});

const converters = defineToolkit({
  name: 'converters',
  description: 'Conversions of units',
  enabled: true,
  deferred: true,
  tools: ['metre', 'litre', 'gram', 'kelvin'].map((unit) =>
    tool({ name: `to_${unit}`, description: `Converts a quantity to ${unit}`, run: () => ({ unit }) }),
  ),
});

const folder = await mkdtemp(join(tmpdir(), 'handfast-'));
await writeFile(join(folder, 'token'), 'twelve chars\n');
const plugins = toolkitsPlugins({
  toolkits: [tracker, converters],
  secrets: [{ name: 'tracker-token', file: join(folder, 'token') }],
});
const host = createHost({ plugins: [...plugins] });
await host.start();
const agent = await connect(host, { capabilities: ['toolkits', 'tools'], agentId: 'ana' });
const names = async () => (await agent.tools.list()).map(({ name }) => name).join(', ');

for (const { name, enabled, deferred, tokens } of await agent.toolkits.list())
  console.log(`${name}: ${enabled ? 'on' : 'off'}${deferred ? ', deferred' : ''}, about ${tokens} tokens`);
console.log(`listed: ${(await names()) || 'nothing'}`);

const { loaded } = await agent.toolkits.search('convert to litre');
console.log(`found: ${loaded}`);
console.log(`listed: ${await names()}`);

const refused = await agent.toolkits.configure('tracker', { token: 'a secret, not its name' }).then(
  () => assert.fail('it must be refused'),
  (error: unknown) => error as HandfastError,
);
console.log(`${refused.code}: ${refused.message}`);
await agent.toolkits.configure('tracker', { project: 'DOOR', token: 'tracker-token' });
console.log(JSON.stringify((await agent.tools.call('list_issues')).data));

await agent.toolkits.disable('tracker');
const off = await agent.tools.call('list_issues').then(
  () => assert.fail('it must not be called'),
  (error: unknown) => error as HandfastError,
);
console.log(`${off.code}: ${off.message}`);

await agent.close();
await host.close();
await rm(folder, { recursive: true });
