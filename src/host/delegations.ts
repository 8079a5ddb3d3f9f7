/**
 * Sessions that act for a principal with separate rights: those of subagents. Knows the rights given to each, so that
 * they follow the rights of the owner.
 *
 * Plugins reach it as `PluginContext.accept`.
 */
import type { Principal } from '../session/principal.ts';
import { may } from '../session/rights.ts';
import type { Session } from '../session/session.ts';
import type { Link } from '../transport/link.ts';
import { fail, type HandfastError } from '../wire/errors.ts';
import type { DelegatedSession } from './plugin.ts';

/** Functions of the host that it uses. */
export interface DelegationDeps {
  /** Returns the principal of this name with its present rights; undefined when none has the name. */
  current(owner: Principal): Principal | undefined;
  accept(link: Link, principal: Principal): void;
}

export class Delegations {
  readonly #deps: DelegationDeps;
  /** Delegated sessions by principal; each has a separate principal object. */
  readonly #delegated = new WeakMap<Principal, DelegatedSession>();

  constructor(deps: DelegationDeps) {
    this.#deps = deps;
  }

  /** Accepts a link whose handshake opens this session. */
  accept(link: Link, session: DelegatedSession): void {
    const principal = this.#rightsOf(session, this.#deps.current(session.owner));
    if (principal === undefined) throw fail('unauthorized', `${session.owner.name} has no rights to give`);
    this.#deps.accept(link, principal);
  }

  /** Returns the present rights of a session's principal, computed from those of the principal with its name. */
  now(principal: Principal, current: Principal | undefined): Principal | undefined {
    const session = this.#delegated.get(principal);
    return session === undefined ? current : this.#rightsOf(session, current);
  }

  /** Returns the agent id that a session of this principal has, not the one in its handshake. */
  agentId(principal: Principal): string | undefined {
    return this.#delegated.get(principal)?.agentId;
  }

  opened(session: Session): void {
    this.#delegated.get(session.principal)?.opened?.(session);
  }

  unread({ principal }: Session, error: HandfastError): void {
    this.#delegated.get(principal)?.unread?.(error);
  }

  /** Returns the error that refuses a request of the session. */
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
