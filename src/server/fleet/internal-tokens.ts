/**
 * Tokens that this process makes for itself. Sessions of the control edge connect as agents to the environment host of the same
 * process, with the rights of their owners and without the owners' tokens.
 *
 * A token is random, never stored, and invalid after the process ends.
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
    const owner = typeof token === 'string' ? this.#owners.get(token) : undefined;
    if (owner === undefined) return this.#others.authenticate(token);
    // The present rights: a token that was made before they changed has no others.
    return this.#others.current === undefined ? owner : this.#others.current(owner.name);
  }

  current(name: string): Principal | undefined {
    return this.#others.current?.(name);
  }

  onChange(listener: () => void): void {
    this.#others.onChange?.(listener);
  }

  /** Returns the token with which this process authenticates as `principal`. */
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
