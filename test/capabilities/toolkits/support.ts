/** Hosts with toolkits for their tests, in this process. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { builtinToolkits, type KitOptions, type KitSettings } from '../../../src/capabilities/toolkits/kits/index.ts';
import { type ToolkitsPluginOptions, toolkitsPlugins } from '../../../src/capabilities/toolkits/plugin.ts';
import { defineToolkit } from '../../../src/capabilities/toolkits/toolkit.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import type { Plugin } from '../../../src/host/plugin.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { asError, type HandfastError } from '../../../src/wire/errors.ts';

/** Longest wait: far above the duration of any step on a busy machine. */
export const PATIENCE_MS = 60_000;

export function folder(t: TestContext): string {
  const path = realpathSync(mkdtempSync(join(tmpdir(), 'handfast-toolkits-')));
  t.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

export async function errorOf(promise: PromiseLike<unknown>): Promise<HandfastError> {
  try {
    await promise;
  } catch (thrown) {
    return asError(thrown);
  }
  throw new Error('it did not fail');
}

/** A toolkit that must be configured, with a secret. */
export const tracker = defineToolkit<{ project: string; limit: number; token?: string }>({
  name: 'tracker',
  description: 'Issues of a project',
  category: 'work',
  tags: ['issues'],
  config: {
    type: 'object',
    additionalProperties: false,
    required: ['project'],
    properties: {
      project: { type: 'string', minLength: 1 },
      limit: { type: 'integer', minimum: 1, default: 7 },
      token: { type: 'string', format: 'secret' },
    },
  },
  tools: ({ config, secret }) => [
    tool({
      name: 'issues',
      description: 'Lists the issues',
      run: (_, context) => ({ ...config(context), length: secret(context, 'token')?.value.length ?? 0 }),
    }),
  ],
});

/** Many tools that plain lists leave out. */
export const many = (count: number) =>
  defineToolkit({
    name: 'many',
    description: 'Many tools',
    enabled: true,
    deferred: true,
    tools: Array.from({ length: count }, (_, at) =>
      tool({ name: `many_${at}`, description: `Does the thing number ${at}`, run: () => ({ at }) }),
    ),
  });

interface ToolkitsHost extends Partial<HostOptions> {
  readonly principals?: readonly Principal[];
  readonly toolkits?: Partial<ToolkitsPluginOptions>;
  readonly builtin?: readonly KitSettings[];
  readonly kits?: KitOptions;
  /** Further plugins. */
  readonly more?: readonly Plugin[];
}

/** Returns code and reason of a failing call. */
export async function refusalOf(call: PromiseLike<unknown>): Promise<string> {
  const { code, detail } = await errorOf(call);
  return `${code} ${detail.reason}`;
}

/**
 * Returns a host for principals whose token is their name and `-token`; without principals, for `local`. It also has its own
 * tool.
 */
export async function toolkitsHost(
  t: TestContext,
  { principals, toolkits, builtin, kits, more = [], ...options }: ToolkitsHost = {},
): Promise<Host> {
  const auth = principals && {
    auth: createAuthenticator(
      principals.map((principal) => ({ principal, digests: [tokenDigest(`${principal.name}-token`)] })),
    ),
  };
  const own = toolsPlugin({ tools: [tool({ name: 'own', description: 'of the host', run: () => ({ own: true }) })] });
  const plugins = toolkitsPlugins({ toolkits: builtinToolkits(builtin, kits), ...toolkits });
  const host = createHost({ plugins: [own, ...plugins, ...more], ...auth, ...options });
  await host.start();
  t.after(() => host.close(0));
  return host;
}

/** Connects an agent to a host. */
export async function agentOf(
  t: TestContext,
  host: Host,
  {
    agentId = 'ana',
    principal,
    enable = [],
  }: { agentId?: string; principal?: string; enable?: readonly string[] } = {},
) {
  const agent = await connect(host, {
    capabilities: ['toolkits', 'tools'],
    agentId,
    timeoutMs: PATIENCE_MS,
    ...(principal !== undefined && { token: `${principal}-token` }),
  });
  t.after(() => agent.close());
  for (const name of enable) await agent.toolkits.enable(name);
  return agent;
}

export const namesOf = (tools: readonly { readonly name: string }[]): string[] => tools.map(({ name }) => name).sort();
