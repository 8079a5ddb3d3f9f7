/**
 * Capability negotiation of A2E: a pure function from the requested and the loaded capabilities to the granted ones.
 *
 * A property test checks its rules.
 * @see docs/protocol/a2e.md#negotiation
 */
import { type CapabilityGrant, type CapabilityName, capabilityOf, isAdditionalCapability } from '../protocol/a2e.ts';

/** Facts about the plugin that leads a capability; sent as its metadata. */
export interface CapabilityOffer {
  readonly name: string;
  readonly type: string;
  readonly priority: number;
  readonly exclusive: boolean;
  /** More facts of the plugin for the agent, e.g. the sandbox tier. */
  readonly [extra: string]: unknown;
}

export interface NegotiationPolicy {
  /** Capabilities with a loaded plugin. */
  readonly available: ReadonlyMap<string, CapabilityOffer>;
  /** Returns true when this principal may have a capability. Default: all. */
  readonly mayUse?: (capability: string) => boolean;
}

/** Names asked for at most that the protocol does not have; more are ignored. */
const MAX_ADDITIONAL = 64;

/**
 * Decides about capabilities beside those of the protocol (extension handfast/capabilities, `wanted`): one line for each
 * that was asked for.
 */
export function negotiateAdditional(asked: unknown, policy: NegotiationPolicy): CapabilityGrant[] {
  const { wanted } = (asked ?? {}) as { wanted?: unknown };
  if (!Array.isArray(wanted)) return [];
  const names = new Set(wanted.filter(isAdditionalCapability).slice(0, MAX_ADDITIONAL));
  return [...names].map((name) => decide(name, policy));
}

/** Reason of the refusal of an available capability. */
export const NOT_ALLOWED = 'not allowed for this principal';

function decide(capability: string, { available, mayUse }: NegotiationPolicy): CapabilityGrant {
  const offer = available.get(capability);
  if (offer === undefined) return { capability, enabled: false, metadata: { reason: 'no plugin loaded' } };
  if (mayUse?.(capability) === false) {
    return { capability, enabled: false, metadata: { reason: NOT_ALLOWED } };
  }
  return { capability, enabled: true, metadata: { ...offer } };
}

export interface Negotiated {
  /** One line per requested standard capability, in the requested order. */
  readonly accepted: CapabilityGrant[];
  readonly granted: ReadonlySet<CapabilityName>;
  /** `no_caps` when standard capabilities were asked for and none is available. */
  readonly refused?: 'no_caps';
}

/**
 * Decides which of the `asked` capabilities are granted. Names outside the protocol are ignored (existing clients ask
 * for feature flags such as `streaming`, and fail on answers that hold unknown names); for aliases, the reply has the
 * standard name.
 */
export function negotiate(asked: readonly string[], policy: NegotiationPolicy): Negotiated {
  const accepted = new Map<CapabilityName, CapabilityGrant>();
  const granted = new Set<CapabilityName>();
  for (const name of asked) {
    const capability = capabilityOf(name);
    if (capability === undefined || accepted.has(capability)) continue;
    const grant = decide(capability, policy);
    if (grant.enabled) granted.add(capability);
    accepted.set(capability, grant);
  }
  return {
    accepted: [...accepted.values()],
    granted,
    ...(accepted.size > 0 && granted.size === 0 && { refused: 'no_caps' as const }),
  };
}
