/** Hosts with the skill capability for its tests, in this process, with separate skills. */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { programInPath } from '../../../src/base/program-file.ts';
import { type SkillPluginOptions, skillPlugin } from '../../../src/capabilities/skill/plugin.ts';
import type { Tier } from '../../../src/capabilities/skill/sandbox/sandbox.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { asError, type HandfastError } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

/** Writes a skill: its front matter as YAML lines, and the module that it runs. */
export function writeSkill(
  root: string,
  name: string,
  {
    front = '',
    code,
    text = 'Do it.',
    folder = name,
  }: { front?: string; code?: string; text?: string; folder?: string } = {},
): string {
  const entry = code === undefined ? '' : 'entry: main.js\n';
  put(
    join(root, folder, 'SKILL.md'),
    `---\nname: ${name}\ndescription: Skill ${name}\n${entry}${front}\n---\n${text}\n`,
  );
  if (code !== undefined) put(join(root, folder, 'main.js'), code);
  return join(root, folder);
}

/** Writes a file with its folders, which only this user can change. */
export function put(path: string, content: string | Uint8Array): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o755 });
  writeFileSync(path, content);
  chmodSync(path, 0o644);
}

export interface SkillHost {
  readonly host: Host;
  readonly root: string;
  /** The called tools, with their callers. */
  readonly called: string[];
}

/**
 * Returns a host for principals whose token is their name and `-token`; without principals, for `local`. It has the tools
 * `add`, `slow`, `secret`.
 */
export async function skillHost(
  t: TestContext,
  {
    principals,
    skill,
    root = temporaryFolder(t),
    ...options
  }: { principals?: readonly Principal[]; skill?: SkillPluginOptions; root?: string } & Partial<HostOptions> = {},
): Promise<SkillHost> {
  const auth = principals && {
    auth: createAuthenticator(
      principals.map((principal) => ({ principal, digests: [tokenDigest(`${principal.name}-token`)] })),
    ),
  };
  const called: string[] = [];
  const tools = toolsPlugin({
    tools: [
      tool({
        name: 'add',
        description: 'Adds',
        input: {
          type: 'object',
          properties: { a: { type: 'number' }, b: { type: 'number' } },
          required: ['a', 'b'],
        },
        run: ({ a, b }: { a: number; b: number }, { session }) => {
          called.push(`add by ${session.principal.name}`);
          return { sum: a + b };
        },
      }),
      tool({
        name: 'slow',
        description: 'Waits for its end',
        run: (_, { signal }) =>
          new Promise((_resolve, reject) => {
            called.push('slow');
            signal.addEventListener('abort', () => {
              called.push('slow ended');
              reject(signal.reason);
            });
          }),
      }),
      tool({
        name: 'secret',
        description: 'Secret',
        run: () => {
          called.push('secret');
          return 'the secret';
        },
      }),
    ],
  });
  const plugins = [skillPlugin({ roots: [root], freshMs: 0, ...skill }), tools];
  const host = createHost({ plugins, ...auth, ...options });
  await host.start();
  t.after(() => host.close(0));
  return { host, root, called };
}

/** Connects an agent to a host. */
export async function agentOf(t: TestContext, { host }: Pick<SkillHost, 'host'>, principal?: string) {
  const agent = await connect(host, {
    capabilities: ['skill'],
    agentId: 'ana',
    ...(principal !== undefined && { token: `${principal}-token` }),
  });
  t.after(() => agent.close());
  return agent;
}

export async function errorOf(promise: PromiseLike<unknown>): Promise<HandfastError> {
  try {
    await promise;
  } catch (thrown) {
    return asError(thrown);
  }
  throw new Error('it did not fail');
}

/** Waits until a condition holds; fails after a minute. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  for (let waited = 0; !(await holds()); waited += 10) {
    if (waited > 60_000) throw new Error('it did not come');
    await pause(10);
  }
}

/** Whether the permission model of this Node confines the network. */
const HOLDS_NETWORK = process.allowedNodeEnvironmentFlags.has('--allow-net');

/**
 * Skips a test of a tier that needs a program which is not installed; if tests must not be skipped, it fails and names the
 * program.
 */
export const skipTier = (tier: Tier): { skip?: string } =>
  tier === 'process' && !HOLDS_NETWORK
    ? { skip: 'this Node leaves the network open to a process, so the host runs no code in it' }
    : tier === 'bubblewrap' &&
        process.env.CI === undefined &&
        programInPath('bwrap', process.env.PATH ?? '') === undefined
      ? { skip: 'bubblewrap is not installed: apt-get install bubblewrap' }
      : {};

/** Returns the report of a host about its sandbox to a further agent, once it was tried. */
export async function tierFacts(
  t: TestContext,
  site: Pick<SkillHost, 'host'>,
): Promise<Readonly<Record<string, unknown>>> {
  for (;;) {
    const { capabilities } = await agentOf(t, site);
    const sandbox = capabilities.get('skill')?.metadata.sandbox as Record<string, unknown> | undefined;
    if (sandbox !== undefined && sandbox.in_force !== null) return sandbox;
    await pause(50);
  }
}
