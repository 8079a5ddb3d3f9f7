/**
 * The vocabulary of A2E 1.0: version, capability names, handshake reasons, limits, and the core methods.
 *
 * @see docs/protocol/a2e.md#base-fields and docs/protocol/a2e.md#negotiation
 */
import * as checks from './a2e.generated.ts';
import type {
  CapabilitiesChanged,
  CapabilityGrant,
  ErrorMessage,
  HandshakeReq,
  HandshakeResp,
  JournalFollowReq,
  JournalFollowResp,
  Ping,
  Pong,
  Shutdown,
} from './a2e.schema.ts';
import { type Envelope, method, push } from './method.ts';

export type {
  CapabilitiesChanged,
  CapabilityGrant,
  ErrorMessage,
  HandshakeReq,
  HandshakeResp,
  JournalFollowReq,
  JournalFollowResp,
  Shutdown,
};

/** The version that both stamps carry. A peer whose major number differs is refused. */
export const A2E_VERSION = '1.0';

/**
 * The capability names of the protocol. Nothing else may enter `accepted_caps`: existing clients decode the list into an
 * enumeration and fail on the whole answer otherwise.
 */
export const capabilityNames = [
  'skill',
  'tools',
  'toolkits',
  'env',
  'proc',
  'memory',
  'learning',
  'chains',
  'mcp',
  'multi_agent',
  'planning',
  'test',
] as const;

export type CapabilityName = (typeof capabilityNames)[number];

const known: ReadonlySet<string> = new Set(capabilityNames);

/** Other spellings seen in the field, with their meanings. The reply always has the standard name. */
const aliases: ReadonlyMap<string, CapabilityName> = new Map([
  ['skills', 'skill'],
  ['learn', 'learning'],
  ['procs', 'proc'],
  ['subagents', 'multi_agent'],
  ['chain', 'chains'],
]);

/** Returns the standard name for a requested one, or undefined when it is no capability. */
export function capabilityOf(name: string): CapabilityName | undefined {
  return known.has(name) ? (name as CapabilityName) : aliases.get(name);
}

/** Reasons of a refused handshake. */
export type HandshakeReason = 'auth_failed' | 'version_mismatch' | 'no_caps' | 'server_error';

/** Extensions of Handfast; offered only to peers that ask for them by name in the handshake. */
export const EXTENSION_CANCEL = 'handfast/cancel';
export const EXTENSION_RESUME = 'handfast/resume';
export const EXTENSION_JOURNAL = 'handfast/journal';
/**
 * Capabilities beside those of the protocol, `capabilities/changed/push`, requests of the host to the agent, the event `end` of a
 * stream that outlived its request, and `max_waiting`: open requests that may wait.
 */
export const EXTENSION_CAPABILITIES = 'handfast/capabilities';

/** Requests that hosts send to agents in plain A2E, without the extension. */
export const plainHostRequests: ReadonlySet<string> = new Set(['mcp/sample/req', 'mcp/root/list/req']);

/** Returns true for a name that a capability beside those of the protocol may have. */
export function isAdditionalCapability(name: unknown): name is string {
  return typeof name === 'string' && /^[a-z][a-z0-9_.-]{0,63}$/.test(name) && capabilityOf(name) === undefined;
}

/** An offer or a list changed (extension handfast/capabilities). */
export const capabilitiesChanged = push<Omit<CapabilitiesChanged, Envelope>>({
  push: 'capabilities/changed/push',
  capability: '',
});

export const checkHandshakeReq = checks.HandshakeReq;
export const checkShutdown = checks.Shutdown;
export const checkCancel = checks.Cancel;

/** Liveness; answered at any time, also before the handshake. */
export const ping = method<Ping, Pong>({
  request: 'ping',
  reply: 'pong',
  event: 'invoke/event',
  capability: '',
  checkRequest: checks.Ping,
});

/** The shape of a ping. It may go without an id, unlike a request. */
export const checkPing: typeof checks.Ping = (value) => {
  const message = value as Ping;
  const fits = checks.Ping(message.id === undefined ? { ...message, id: 'none' } : message);
  checkPing.errors = checks.Ping.errors;
  return fits;
};

/** Reads a session journal (extension handfast/journal). */
export const journalFollow = method<JournalFollowReq, JournalFollowResp>({
  request: 'journal/follow/req',
  idempotent: true,
  reply: 'journal/follow/resp',
  event: 'journal/event',
  capability: '',
  waits: ({ follow }) => follow === true,
  checkRequest: checks.JournalFollowReq,
});
