/** `handfast caps`: what the host grants to this token, and why it refuses the rest. */
import { capabilityNames } from '../../protocol/a2e.ts';
import type { ConnectFlags } from '../connect/find-host.ts';
import { withAgent } from '../connect/open-agent.ts';
import type { Terminal } from '../output/terminal.ts';

/** Asks for every capability of the protocol, or for those of `--cap`. */
export async function caps(flags: ConnectFlags, terminal: Terminal): Promise<void> {
  await withAgent(flags, capabilityNames, terminal, async ({ agent, address }) => {
    const capabilities = [...agent.capabilities].map(([capability, { enabled, metadata }]) => ({
      capability,
      enabled,
      metadata,
    }));
    if (terminal.json) {
      return terminal.document({
        address,
        session_id: agent.sessionId,
        max_parallel: agent.maxParallel,
        extensions: [...agent.extensions],
        capabilities,
      });
    }
    terminal.table(
      ['CAPABILITY', 'GRANTED', 'ABOUT'],
      capabilities.map(({ capability, enabled, metadata }) => [capability, enabled ? 'yes' : 'no', about(metadata)]),
    );
    terminal.line();
    terminal.line(`requests at once: ${agent.maxParallel}`);
    terminal.line(`extensions:       ${[...agent.extensions].join(', ') || 'none'}`);
  });
}

/** The reason of a refusal, or the facts of the plugin that leads the capability. */
function about({ reason, type, ...facts }: Readonly<Record<string, unknown>>): string {
  if (typeof reason === 'string') return reason;
  return Object.entries(facts)
    .filter(([name, value]) => !((name === 'priority' && value === 0) || (name === 'exclusive' && value === false)))
    .map(
      ([name, value]) =>
        `${name === 'name' ? 'plugin' : name} ${typeof value === 'string' ? value : JSON.stringify(value)}`,
    )
    .join(', ');
}
