/**
 * Tokens that this process makes for itself: sessions of the control edge are agents of the host beside them, with the
 * rights of their owners, and have no token of those.
 *
 * Used by `server/serve.ts`. A token is random, never written down, and gone with the process.
 */
import type { Authenticator } from '../../session/auth.ts';
import type { Principal } from '../../session/principal.ts';

export class InternalTokens implements Authenticator {
  readonly #others: Authenticator;
  readonly #owners = new Map<string, Principal>();
  readonly #tokens = new Map<Principal, string>();

  constructor(others: Authenticator) {
    this.#others = others;
  }

  get hasTokens(): boolean {
    return this.#others.hasTokens;
  }

  authenticate(token: unknown): Principal | undefined {
    return (typeof token === 'string' ? this.#owners.get(token) : undefined) ?? this.#others.authenticate(token);
  }

  /** The token with which this process comes in as `principal`. */
  tokenFor(principal: Principal): string {
    let token = this.#tokens.get(principal);
    if (token === undefined) {
      token = `inside-${crypto.randomUUID()}${crypto.randomUUID()}`;
      this.#tokens.set(principal, token);
      this.#owners.set(token, principal);
    }
    return token;
  }
}
