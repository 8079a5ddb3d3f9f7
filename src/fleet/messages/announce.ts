/**
 * Reads SESSION_ANNOUNCE: who a worker is, what it can do, and how it is.
 *
 * Called by `decode.ts`.
 * @see docs/protocol/fleet.md#session_announce
 */
import { type Envelope, FEATURES, type Feature, HEALTHS } from '../../protocol/fleet.ts';
import type { Announced, RepoState } from './decoded.ts';
import { ROOT_FIELDS } from './envelope.ts';
import type { Findings } from './findings.ts';
import {
  agentId,
  count,
  flag,
  id,
  name,
  names,
  object,
  optional,
  positive,
  required,
  seconds,
  text,
  texts,
} from './read.ts';
import type { Members } from './strict-json.ts';

const ROOT = new Set<string>([...ROOT_FIELDS, 'worker', 'capabilities', 'mcp_health', 'session']);
const WORKER = new Set([
  'agent_id',
  'model',
  'model_tier',
  'context_window',
  'protocol_versions',
  'features',
  'max_concurrent',
  'overhead_tokens',
  'pools',
]);
const CAPABILITIES = new Set(['tools', 'mcp_servers']);
const SESSION = new Set([
  'context_id',
  'active_tasks',
  'repo_state',
  'session_fresh',
  'incarnation',
  'seq',
  'ttl_s',
  'draining',
  'not_ready',
]);
const REPO_STATE = new Set(['branch', 'clean', 'head']);

/** Tiers whose order is known without configuration, and the word for not knowing. */
const TIERS = new Set(['haiku', 'sonnet', 'opus', 'unknown']);
const HEALTH_WORDS: ReadonlySet<string> = new Set(HEALTHS);
const FEATURE_WORDS: ReadonlySet<string> = new Set(FEATURES);

/** Stands for an object that is missing or cannot be read: its members are not asked for once more. */
const NOTHING: Members = Object.freeze({});

/** Health of each server that is configured. A server without an entry is `unknown`, an entry without a server is nothing. */
function readHealth(message: Members, servers: readonly string[], found: Findings): ReadonlyMap<string, string> {
  const listed = new Set(servers);
  const told = new Map<string, string>();
  const where = '/mcp_health';
  for (const [key, value] of Object.entries(optional(object, message, 'mcp_health', found, '') ?? NOTHING)) {
    if (value === null || value === undefined) continue;
    const server = name(key, found, where, key);
    const word = name(value, found, where, key);
    if (server === undefined || word === undefined) continue;
    if (!HEALTH_WORDS.has(word)) found.warn('W_UNKNOWN_ENUM', where, key);
    if (!listed.has(server)) found.warn('W_HEALTH_UNLISTED', where, key);
    // Of two spellings of one server, the one that is not ok wins.
    if ((told.get(server) ?? 'ok') === 'ok') told.set(server, word);
  }
  const health = new Map<string, string>();
  for (const server of servers) {
    const word = told.get(server);
    if (word === undefined) found.warn('W_HEALTH_MISSING', where, server);
    health.set(server, word ?? 'unknown');
  }
  return health;
}

function readRepoState(session: Members, found: Findings): RepoState | null {
  const state = optional(object, session, 'repo_state', found, '/session');
  if (state === null) return null;
  const where = '/session/repo_state';
  found.unknown(state, REPO_STATE, where);
  optional(text, state, 'head', found, where);
  const branch = optional(text, state, 'branch', found, where);
  const clean = required(flag, state, 'clean', found, where);
  return clean === undefined ? null : { branch, clean };
}

/** The announce, normalised. Of use only when nothing was found wrong. */
export function readAnnounce(message: Members, version: string, envelope: Envelope, found: Findings): Announced {
  found.unknown(message, ROOT, '');
  const stated = required(object, message, 'worker', found, '');
  const worker = stated ?? NOTHING;
  found.unknown(worker, WORKER, '/worker');
  const agent = stated && required(agentId, worker, 'agent_id', found, '/worker');
  const tier = optional(name, worker, 'model_tier', found, '/worker');
  if (tier !== null && !TIERS.has(tier)) found.warn('W_UNKNOWN_ENUM', '/worker', 'model_tier');
  const versions = optional(texts, worker, 'protocol_versions', found, '/worker');
  const features = optional(texts, worker, 'features', found, '/worker') ?? [];

  const offered = required(object, message, 'capabilities', found, '');
  const capabilities = offered ?? NOTHING;
  found.unknown(capabilities, CAPABILITIES, '/capabilities');
  const tools = offered && required(names, capabilities, 'tools', found, '/capabilities');
  const servers = offered && required(names, capabilities, 'mcp_servers', found, '/capabilities');

  const session = optional(object, message, 'session', found, '') ?? NOTHING;
  found.unknown(session, SESSION, '/session');
  return {
    type: 'SESSION_ANNOUNCE',
    protocol_version: version,
    agent_id: agent ?? '',
    model: optional(text, worker, 'model', found, '/worker'),
    model_tier: tier ?? 'unknown',
    context_window: optional(positive, worker, 'context_window', found, '/worker'),
    tools: tools ?? [],
    mcp_servers: servers ?? [],
    mcp_health: readHealth(message, servers ?? [], found),
    context_id: optional(id, session, 'context_id', found, '/session'),
    active_tasks: optional(count, session, 'active_tasks', found, '/session'),
    repo_state: readRepoState(session, found),
    session_fresh: optional(flag, session, 'session_fresh', found, '/session'),

    protocol_versions: versions === null || versions.length === 0 ? [version] : versions,
    features: features.filter((word): word is Feature => FEATURE_WORDS.has(word)),
    max_concurrent: optional(positive, worker, 'max_concurrent', found, '/worker'),
    overhead_tokens: optional(count, worker, 'overhead_tokens', found, '/worker'),
    pools: optional(names, worker, 'pools', found, '/worker') ?? [],
    incarnation: optional(id, session, 'incarnation', found, '/session'),
    seq: optional(count, session, 'seq', found, '/session'),
    ttl_s: optional(seconds, session, 'ttl_s', found, '/session'),
    draining: optional(flag, session, 'draining', found, '/session') ?? false,
    not_ready: optional(name, session, 'not_ready', found, '/session'),
    envelope,
  };
}
