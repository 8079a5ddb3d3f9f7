/**
 * Sessions that act for a principal with rights of their own: those of subagents. Knows what each was given, so that their
 * rights follow those of their owner.
 *
 * Used by `host.ts`; plugins reach it as `PluginContext.accept`.
 */
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import type { Link } from '../transport/link.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { DelegatedSession } from './plugin.ts';

/** What it needs of its host. */
export interface DelegationDeps {
  /** The principal of this name with the rights it has now; undefined when there is none. */
  current(owner: Principal): Principal | undefined;
  accept(link: Link, principal: Principal): void;
}

export class Delegations {
  readonly #deps: DelegationDeps;
  /** By the principal, which is a value of its own for each. */
  readonly #delegated = new WeakMap<Principal, DelegatedSession>();

  constructor(deps: DelegationDeps) {
    this.#deps = deps;
  }

  /** Accepts a link whose handshake opens such a session. */
  accept(link: Link, session: DelegatedSession): void {
    const principal = this.#rightsOf(session, this.#deps.current(session.owner));
    if (principal === undefined) throw fail('unauthorized', `${session.owner.name} has no rights to give`);
    this.#deps.accept(link, principal);
  }

  /** What the principal of a session may do now, by what the principal of its name may. */
  now(principal: Principal, current: Principal | undefined): Principal | undefined {
    const session = this.#delegated.get(principal);
    return session === undefined ? current : this.#rightsOf(session, current);
  }

  /** The agent id that a session of this principal has, not the one in its handshake. */
  agentId(principal: Principal): string | undefined {
    return this.#delegated.get(principal)?.agentId;
  }

  opened(session: Session): void {
    this.#delegated.get(session.principal)?.opened?.(session);
  }

  unread({ principal }: Session, error: HandfastError): void {
    this.#delegated.get(principal)?.unread?.(error);
  }

  /** The error that refuses a request of the session. */
  refusal({ principal }: Session, type: string): HandfastError | undefined {
    return principal.subagent === undefined ? undefined : this.#delegated.get(principal)?.admit?.(type);
  }

  #rightsOf(session: DelegatedSession, owner: Principal | undefined): Principal | undefined {
    const rights = owner && session.rights(owner);
    // Without these it would be a session of the owner itself.
    if (rights === undefined || rights.subagent === undefined || rights.name !== owner?.name) return undefined;
    if (may(rights, 'administer')) return undefined;
    const own: Principal = Object.freeze({ ...rights });
    this.#delegated.set(own, session);
    return own;
  }
}
