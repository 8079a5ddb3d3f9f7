/** The part of the chains plugin that handshakes need, apart from its code, which hosts load later. */
import type { PluginOffer } from '../../host/plugin.ts';

const MiB = 1024 * 1024;

/** The limits of chains and runs, where the options name none. */
export const CHAIN_DEFAULTS: Record<
  'maxNodes' | 'maxDepth' | 'maxParallel' | 'maxItems' | 'maxOutputChars' | 'maxRuns' | 'maxRunning' | 'maxChains',
  number
> & { readonly durable: boolean } = {
  maxNodes: 10_000,
  maxDepth: 10_000,
  maxParallel: 256,
  maxItems: 1_000_000,
  maxOutputChars: 64 * MiB,
  maxRuns: 1_000,
  maxRunning: 32,
  maxChains: 1_000,
  durable: true,
};

/** The requests that A2E 1.0 does not have. */
const MESSAGES = [
  ...['check', 'put', 'get', 'list', 'remove', 'runs', 'status', 'history', 'watch'],
  ...['pause', 'resume', 'retry', 'cancel', 'approve', 'deliver'],
].map((name) => `chain/${name}/req`);

/** The grants of a principal within the capability. */
export interface ChainsGrant {
  /** `read`: the principal reads runs and stored chains, and runs nothing. Default `write`. */
  readonly access?: 'read' | 'write';
  /** Maximum number of concurrent runs. */
  readonly max_running?: number;
}

/** @param options.quotaBytes of runs and stored chains of one principal; default 512 MiB */
export const chainsOffer = ({ quotaBytes = 512 * MiB }: { readonly quotaBytes?: number | undefined }): PluginOffer => ({
  store: { quotaBytes, opened: 'first-request' },
  grant: {
    type: 'object',
    properties: {
      access: { enum: ['read', 'write'], default: 'write' },
      max_running: { type: 'integer', minimum: 0, description: 'Runs at once. Default: as configured.' },
    },
    additionalProperties: false,
  },
  metadata: { messages: MESSAGES },
});
