/**
 * The common part of the agent cards of both dialects: the path of a card, and the fleet extension in it.
 *
 * @see docs/protocol/fleet.md#http
 */
import { type Feature, FLEET_EXTENSION, FLEET_VERSION } from '../../../protocol/fleet.ts';
import { knownFeatures } from '../features.ts';

/** Path of a card, below the address of its agent. */
export const CARD_PATH = '/.well-known/agent-card.json';
/** Media types that tasks and replies have. */
export const MODES = ['text/plain', 'application/json'];
/** The one skill every worker has. */
export const TASK_SKILL = { id: 'task', name: 'Task', description: 'Does a task in its repository.', tags: ['task'] };

/** Returns the fleet extension as a card declares it. */
export function fleetExtension(description: string, features: readonly Feature[]) {
  return {
    uri: FLEET_EXTENSION,
    description,
    required: false,
    params: { protocol_versions: [FLEET_VERSION], features },
  };
}

/** The part of a card about the fleet protocol. */
export interface FleetReading {
  /** True when it declares the fleet extension. */
  readonly fleet: boolean;
  readonly features: ReadonlySet<Feature>;
}

/** Reads the `capabilities` of any card, which may hold anything. `carried`: the features this wire brings to a peer. */
export function readFleetExtension(capabilities: unknown, carried: ReadonlySet<Feature>): FleetReading {
  const listed = (capabilities as { readonly extensions?: unknown } | null | undefined)?.extensions;
  const found = (Array.isArray(listed) ? listed : []).find((one) => one?.uri === FLEET_EXTENSION);
  const features: unknown = found?.params?.features;
  const names = Array.isArray(features) ? features.filter((one): one is string => typeof one === 'string') : [];
  const known = [...knownFeatures(names)].filter((feature) => carried.has(feature));
  return { fleet: found !== undefined, features: new Set(known) };
}
