/**
 * The A2E session that a control session has for its subagents, chains and processes: they end, or are interrupted, with the
 * session they were begun in, so it lasts as long as the control session, beyond turns and idle times.
 *
 * It is opened when the first such tool is called. It belongs to a separate agent, named after the control session: stored data
 * of its subagents is found again after a restart.
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { CapabilityTool, LastingHost } from '../../control/rounds/environment.ts';
import type { WorkKeeper } from '../../control/rounds/work.ts';
import { fail } from '../../wire/errors.ts';
import { agentOffers, SessionAgents } from './session-agents.ts';
import { chainOffers, SessionChains } from './session-chains.ts';
import { SessionProcesses } from './session-processes.ts';

/** Returns the name of the agent of a control session. */
export const workAgentId = (session: string): string => `handfast-session-${session}`;

const has = (agent: AgentSession, name: string): boolean => agent.capabilities.get(name)?.enabled === true;

/** True where subagents can be made: this host says which kinds it has, others do not. */
function makesSubagents(agent: AgentSession): boolean {
  if (!has(agent, 'multi_agent')) return false;
  const { messages, kinds } = agent.capabilities.get('multi_agent')?.metadata ?? {};
  return messages === undefined || (Array.isArray(kinds) && kinds.length > 0);
}

/** Tools whose calls the host must list before they run. */
const FORESEEN: ReadonlySet<string> = new Set(['chain_run', 'chain_control']);

/**
 * Returns the tools for subagents and chains of the granted capabilities; each uses the lasting session of its control session.
 */
export function workTools(agent: AgentSession): CapabilityTool[] {
  const offers = [
    ...(makesSubagents(agent) ? agentOffers : []),
    // Plain hosts store no chains.
    ...(has(agent, 'chains') && agent.capabilities.get('chains')?.metadata.messages !== undefined ? chainOffers : []),
  ];
  return offers.map((offer) => ({
    offer,
    run: async (input, call) => (await call.lasting()).call(offer.name, input, call),
    ...(FORESEEN.has(offer.name) && {
      foresee: async (input, { signal, lasting }) => (await lasting()).foresee(offer.name, input, signal),
    }),
  }));
}

/** Runs the work of a control session in a separate A2E session. */
export function lastingHost(agent: AgentSession, keeper: WorkKeeper): LastingHost {
  const agents = has(agent, 'multi_agent') ? new SessionAgents(agent, keeper) : undefined;
  const chains = has(agent, 'chains') ? new SessionChains(agent, keeper) : undefined;
  const processes = has(agent, 'proc') ? new SessionProcesses(agent, keeper) : undefined;
  const calls: SessionProcesses['calls'] = { ...agents?.calls, ...chains?.calls, ...processes?.calls };
  const hosts = { subagent: agents, chain: chains, process: processes };
  const offers = [...agentOffers, ...chainOffers];
  return {
    get state() {
      return agent.state;
    },
    async call(name, input, { signal, onEvent }) {
      const call = calls[name];
      // The rights may have changed since the tool was listed.
      if (call === undefined) throw fail('capability_missing', `${name} is not granted here any more`);
      return call(input, signal, onEvent);
    },
    async foresee(name, input, signal) {
      const risks = offers.find((offer) => offer.name === name)?.risks ?? [];
      return (await chains?.foresee(name, input, signal)) ?? { input, risks, includes: [] };
    },
    async follow(work) {
      const host = hosts[work.kind];
      if (host === undefined) throw fail('capability_missing', 'the host does not have it any more');
      return host.follow(work);
    },
    // Runs are stored by the host, and those that run are watched.
    holds: () => agents?.holds === true || processes?.holds === true,
    close: () => agent.close(),
  };
}
