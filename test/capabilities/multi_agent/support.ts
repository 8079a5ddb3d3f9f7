/** A host with subagents, and agents of it. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type MultiAgentPluginOptions, multiAgentPlugin } from '../../../src/capabilities/multi_agent/plugin.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { connect } from '../../../src/connect.ts';
import { createHost, type Host, type HostOptions } from '../../../src/host/host.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import { createAuthenticator, type PrincipalTokens, tokenDigest } from '../../../src/session/auth.ts';
import type { Grants } from '../../../src/session/principal.ts';
import { principalWith } from '../../../src/session/roles.ts';

/** Tools of three kinds of risk; each reports its caller. */
const echoes = (['reads', 'exec', 'writes'] as const).map((risk) =>
  tool({
    name: { reads: 'look', exec: 'run', writes: 'write' }[risk],
    description: `A tool that ${risk}`,
    risks: [risk],
    run: (_args, { session }) => ({ by: session.agentId, risk }),
  }),
);

/** Polls a condition until it holds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = Date.now() + 60_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, 'the condition never held');
    await sleep(5);
  }
}

/** The work of a subagent that does nothing until it is stopped. */
export const forever = ({ signal }: { readonly signal: AbortSignal }): Promise<never> =>
  new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason), { once: true }));

/** A tool that merges: returns the number of results, and their highest score. */
const counter = tool<{ results: readonly { score?: number }[] }>({
  name: 'count_results',
  description: 'Counts results',
  risks: ['reads'],
  input: { type: 'object', properties: { results: { type: 'array' } }, required: ['results'] },
  run: ({ results }) => ({ count: results.length, best: Math.max(...results.map(({ score = 0 }) => score)) }),
});

export interface Site {
  readonly host: Host;
  agent(agentId?: string, token?: string): ReturnType<typeof open>;
  /** Gives the principals other rights, as a reload of the configuration does. */
  regrant(grants: Readonly<Record<string, Grants>>): void;
}

const tokensOf = (grants: Readonly<Record<string, Grants>>): PrincipalTokens[] =>
  Object.entries(grants).map(([name, own]) => ({
    principal: principalWith(name, [], own),
    digests: [tokenDigest(name)],
  }));

const open = (host: Host, agentId: string, token: string | undefined) =>
  connect(host, { capabilities: ['multi_agent', 'tools'], agentId, ...(token !== undefined && { token }) });

/** Starts a host; with `grants`, each name is a principal whose token is its name. */
export async function siteOf(
  t: TestContext,
  options: MultiAgentPluginOptions,
  grants?: Readonly<Record<string, Grants>>,
  more: Partial<HostOptions> = {},
): Promise<Site> {
  const auth = grants && createAuthenticator(tokensOf(grants));
  const host = createHost({
    plugins: [multiAgentPlugin(options), toolsPlugin({ tools: [...echoes, counter] })],
    journal: memoryJournal(),
    ...(auth && { auth }),
    ...more,
  });
  await host.start();
  t.after(() => host.close(0));
  return {
    host,
    async agent(agentId = 'lead', token) {
      const agent = await open(host, agentId, token);
      t.after(() => agent.close());
      return agent;
    },
    regrant: (next) => auth?.replace(tokensOf(next)),
  };
}
