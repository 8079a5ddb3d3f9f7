/**
 * Authenticates call-backs: by the tokens of this server, and by the token that each peer is called with, which managed
 * receivers bring when they call back. A peer's own token is granted the name of that peer and nothing else.
 *
 * @see docs/fleet.md#receivers-that-call-back
 */
import type { TokenSource } from '../../../connection/token.ts';
import { type Authenticator, createAuthenticator, tokenDigest } from '../../../session/auth.ts';
import type { Principal } from '../../../session/principal.ts';

/** How long the read tokens of the peers are used, milliseconds: a token may be rotated at any time. */
const MAX_AGE_MS = 1_000;

export interface PeerTokensOptions {
  /** The tokens of this server. */
  readonly auth: Authenticator;
  readonly peers: readonly { readonly name: string; readonly token?: TokenSource }[];
  /** Monotonic milliseconds. */
  readonly monotonic: () => number;
}

export class PeerTokens implements Authenticator {
  readonly #options: PeerTokensOptions;
  #peers: Authenticator | undefined;
  #readAt = Number.NEGATIVE_INFINITY;
  #reading: Promise<void> | undefined;

  constructor(options: PeerTokensOptions) {
    this.#options = options;
  }

  /** False: this server asks for no token, and every caller is its user. */
  get hasTokens(): boolean {
    return this.#options.auth.hasTokens;
  }

  authenticate(token: unknown): Principal | undefined {
    return this.#options.auth.authenticate(token) ?? this.#peers?.authenticate(token);
  }

  /** Reads the tokens of the peers where that was not done just now. Never rejects: a token that cannot be read is none. */
  async refresh(): Promise<void> {
    const { monotonic } = this.#options;
    if (!this.hasTokens || monotonic() - this.#readAt < MAX_AGE_MS) return;
    this.#reading ??= this.#read().finally(() => {
      this.#readAt = monotonic();
      this.#reading = undefined;
    });
    await this.#reading;
  }

  async #read(): Promise<void> {
    const names = new Map<string, string[]>();
    await Promise.all(
      this.#options.peers.map(async ({ name, token }) => {
        const secret = await Promise.resolve(token?.()).catch(() => undefined);
        if (secret !== undefined && secret !== '') names.set(secret, [...(names.get(secret) ?? []), name]);
      }),
    );
    // Receivers that share a token may be each of them, and are distinguished by the task they reply to.
    const grants = Array.from(names, ([secret, worker]) => ({
      principal: { name: worker[0] as string, fleet: { worker } },
      digests: [tokenDigest(secret)],
    }));
    // Without a grant an authenticator would admit every caller.
    this.#peers = grants.length === 0 ? undefined : createAuthenticator(grants);
  }
}
