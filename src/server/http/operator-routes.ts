/**
 * Status for operators over HTTP: `GET /status` (health, audit, listeners) and `GET /sessions`. Both need
 * `Authorization: Bearer TOKEN`; `GET /health` of `http.ts` is public and reports only that the host responds.
 *
 * Every HTTP address of `handfast up` serves them.
 */

import type { ShareUsage } from '../../base/share-usage.ts';
import { openLosses } from '../../base/sqlite/losses.ts';
import type { Host } from '../../host/host.ts';
import type { Journal } from '../../journal/journal.ts';
import type { Principal } from '../../session/principal.ts';
import { may } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';
import type { DeferredAudit } from '../deferred-audit.ts';
import type { GuardedRoute, RouteAccess } from './server-route.ts';

/** The parts that the routes report about. */
export interface Operated extends RouteAccess {
  readonly host: Host;
  readonly journal: Journal;
  readonly audit: DeferredAudit | undefined;
  /** Returns the usage that principals have of each share of the process, by share. */
  readonly shares: () => Promise<Readonly<Record<string, ShareUsage>>>;
  /** Reads the rights of the configuration again; undefined where they cannot change. */
  readonly reload?: () => Promise<object>;
  /** Addresses, as far as they are known by now. */
  readonly listeners: () => readonly string[];
}

/** One session in the answer of `GET /sessions`. */
export interface SessionLine {
  readonly session_id: string;
  /** `ended`: only its journal is left. */
  readonly state: 'open' | 'detached' | 'draining' | 'closed' | 'ended';
  /** `''` for a session that has ended. */
  readonly agent_id: string;
  /** `''` for the journal of a session that named no owner. */
  readonly principal: string;
  /** Every cursor up to here counts as used; after a crash it may lie above the last stored entry. */
  readonly last: number;
}

/** Ended sessions listed at most. */
const MAX_ENDED = 200;

/** Returns the routes. */
export function operatorRoutes(operated: Operated): readonly GuardedRoute[] {
  return [
    { method: 'GET', path: '/status', needs: 'observe', whileClosing: true, answer: () => statusOf(operated) },
    { method: 'GET', path: '/sessions', needs: 'token', answer: (principal) => sessionsFor(principal, operated) },
    { method: 'POST', path: '/reload', needs: 'administer', answer: () => reloadOf(operated) },
  ];
}

function reloadOf({ reload }: Operated): Promise<object> {
  if (reload === undefined) throw fail('not_configured', 'this server has no configuration that it could read again');
  return reload();
}

async function statusOf({ host, audit, listeners, shares }: Operated): Promise<object> {
  const health = audit?.health;
  return {
    status: 'ok',
    ...host.health(),
    listeners: listeners(),
    shares: await shares(),
    losses: openLosses(),
    audit: health && {
      written: health.written,
      queued: health.queued,
      dropped: health.dropped,
      counted: health.counted,
      failures: health.failures,
      last_error: health.lastError,
      head: health.head,
    },
  };
}

/** Returns the sessions a principal may read, those that ended included: its own, or for an administrator all. */
async function sessionsFor(principal: Principal, { host, journal }: Operated): Promise<object> {
  const sessions: SessionLine[] = [];
  const living = new Set<string>();
  for (const session of host.sessions) {
    living.add(session.id);
    if (!may(principal, 'observe', session.principal.name)) continue;
    const { id, state, agentId, cursor } = session;
    sessions.push({
      session_id: id,
      state,
      agent_id: agentId,
      principal: session.principal.name,
      last: cursor,
    });
  }
  const owner = may(principal, 'observe') ? undefined : principal.name;
  for (const { session, last, owner: name = '' } of await journal.sessions(MAX_ENDED, owner)) {
    if (!living.has(session))
      sessions.push({ session_id: session, state: 'ended', agent_id: '', principal: name, last });
  }
  return { sessions };
}
