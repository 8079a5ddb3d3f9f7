/** Hosts with the proc capability for its tests, in this process, in separate workspaces. */
import type { TestContext } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { type ProcPluginOptions, procPlugin } from '../../../src/capabilities/proc/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

/** Programs that the tests run. */
export const PROGRAMS = ['sh', 'cat', 'sleep', process.execPath];

export interface ProcHost {
  readonly host: Host;
  readonly workspace: string;
}

/** Returns a host for principals whose token is their name and `-token`; without principals, for `local`. */
export async function procHost(
  t: TestContext,
  {
    principals,
    proc,
    ...options
  }: { principals?: readonly Principal[]; proc?: ProcPluginOptions } & Partial<HostOptions> = {},
): Promise<ProcHost> {
  const auth = principals && {
    auth: createAuthenticator(
      principals.map((principal) => ({ principal, digests: [tokenDigest(`${principal.name}-token`)] })),
    ),
  };
  const workspace = temporaryFolder(t);
  const host = createHost({ plugins: [procPlugin({ programs: PROGRAMS, ...proc })], workspace, ...auth, ...options });
  await host.start();
  t.after(() => host.close(0));
  return { host, workspace };
}

/** Connects an agent to a host. */
export async function agentOf(t: TestContext, { host }: ProcHost, agentId = 'ana', principal?: string) {
  const agent = await connect(host, {
    capabilities: ['proc'],
    agentId,
    ...(principal !== undefined && { token: `${principal}-token` }),
  });
  t.after(() => agent.close());
  return agent;
}

/** Returns true while a process of this id runs. */
export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

/** Waits until a condition holds; fails after a minute. */
export async function until(holds: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (let waited = 0; waited < 60_000; waited += 20) {
    if (await holds()) return;
    await pause(20);
  }
  throw new Error(`did not come: ${what}`);
}
