/** Hosts with the planning capability for its tests, in this process. */
import type { TestContext } from 'node:test';
import { atOnce } from '../../../src/base/turns.ts';
import { parsingMarkdown, renderingMarkdown } from '../../../src/capabilities/planning/markdown.ts';
import { type PlanningOptions, planningPlugin } from '../../../src/capabilities/planning/plugin.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import type { Principal } from '../../../src/session/principal.ts';

/** Returns a host for principals whose token is their name and `-token`; without principals, for `local`. */
export async function planningHost(
  t: TestContext,
  {
    principals,
    planning,
    ...options
  }: { principals?: readonly Principal[]; planning?: PlanningOptions } & Partial<HostOptions> = {},
): Promise<Host> {
  const auth = principals && {
    auth: createAuthenticator(
      principals.map((principal) => ({ principal, digests: [tokenDigest(`${principal.name}-token`)] })),
    ),
  };
  const host = createHost({ plugins: [planningPlugin(planning)], ...auth, ...options });
  await host.start();
  t.after(() => host.close(0));
  return host;
}

/** Parses a document without turns. */
export const parseMarkdown = (text: string, planId = '') => atOnce(parsingMarkdown(text, planId));

/** Renders a document without turns. */
export const renderMarkdown = (...given: Parameters<typeof renderingMarkdown>): string =>
  atOnce(renderingMarkdown(...given));

/** Connects an agent to a host. */
export async function agentOf(t: TestContext, host: Host, agentId = 'ana', principal?: string) {
  const agent = await connect(host, {
    capabilities: ['planning'],
    agentId,
    ...(principal !== undefined && { token: `${principal}-token` }),
  });
  t.after(() => agent.close());
  return agent;
}
