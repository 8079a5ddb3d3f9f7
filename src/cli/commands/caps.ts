/**
 * `handfast caps`: the capabilities that the host grants to this token, and the reasons why it refuses the rest.
 */
import { NOT_ALLOWED } from '../../host/negotiate.ts';
import { capabilityNames } from '../../protocol/a2e.ts';
import type { Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';
import type { ConnectFlags } from '../connect/find-host.ts';
import { withAgent } from '../connect/open-agent.ts';
import type { Terminal } from '../output/terminal.ts';

export interface CapsFlags extends ConnectFlags {
  /** A principal of the configuration: shows its capabilities, rather than those of this token's holder. */
  readonly as?: string;
  readonly config?: string;
}

/** Asks for every capability of the protocol, or for those of `--cap`. */
export async function caps(flags: CapsFlags, terminal: Terminal): Promise<void> {
  const principal = flags.as === undefined ? undefined : await principalOf(flags.as, flags.config);
  await withAgent(flags, capabilityNames, terminal, async ({ agent, address }) => {
    const capabilities = [...agent.capabilities].map(([capability, { enabled, metadata }]) =>
      !enabled || principal === undefined || may(principal, 'use', capability)
        ? { capability, enabled, metadata }
        : { capability, enabled: false, metadata: { reason: NOT_ALLOWED } },
    );
    const most = Math.min(agent.maxParallel, principal?.limits?.maxParallel ?? agent.maxParallel);
    if (terminal.json) {
      return terminal.document({
        address,
        session_id: agent.sessionId,
        max_parallel: most,
        extensions: [...agent.extensions],
        capabilities,
      });
    }
    terminal.table(
      ['CAPABILITY', 'GRANTED', 'ABOUT'],
      capabilities.map(({ capability, enabled, metadata }) => [capability, enabled ? 'yes' : 'no', about(metadata)]),
    );
    terminal.line();
    terminal.line(`requests at once: ${most}`);
    terminal.line(`extensions:       ${[...agent.extensions].join(', ') || 'none'}`);
  });
}

/** Reads the principal from the file, trusted or not: nothing in it is acted upon. */
async function principalOf(name: string, file: string | undefined): Promise<Principal> {
  const [{ configOf }, { principalNamed }] = await Promise.all([
    import('../config-file.ts'),
    import('./principals.ts'),
  ]);
  return principalNamed(await configOf(file, { unchecked: true }), name);
}

/** Returns the reason of a refusal, or the facts of the plugin that leads the capability. */
function about({ reason, type, ...facts }: Readonly<Record<string, unknown>>): string {
  if (typeof reason === 'string') return reason;
  return Object.entries(facts)
    .filter(([name, value]) => !((name === 'priority' && value === 0) || (name === 'exclusive' && value === false)))
    .map(([name, value]) => `${name === 'name' ? 'plugin' : name} ${said(value)}`)
    .join(', ');
}

/** Returns the text of a value. A list is counted: `--json` prints it whole. */
function said(value: unknown): string {
  if (Array.isArray(value)) return String(value.length);
  return typeof value === 'string' ? value : JSON.stringify(value);
}
