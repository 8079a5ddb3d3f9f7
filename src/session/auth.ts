/**
 * Finds the owner of a token. Created once from the configuration; every handshake uses it; the only place where tokens
 * are compared.
 *
 * Tokens are held as SHA-256 digests only, so that neither the configuration nor a crash dump shows them, and every
 * comparison takes the same time for every token: its digest is compared with each stored digest. The token that a
 * client sent last is held as long as its connection if {@link ConnectionTokens} saves the digests of repeated tokens
 * (`bearer.ts`).
 */
import type { Principal } from './principal.ts';
import { may } from './rights.ts';

/** A principal and the digests of its live tokens; several at a time is how a token is rotated. */
export interface PrincipalTokens {
  readonly principal: Principal;
  /** SHA-256 of each token's UTF-8, as made by {@link tokenDigest}. */
  readonly digests: readonly Uint8Array[];
}

/** Finds the principal of a token. */
export interface Authenticator {
  /** False when no token is configured: then every peer is {@link LOCAL_PRINCIPAL}. */
  readonly hasTokens: boolean;
  /**
   * Returns the owner of a token, or undefined: refuse with `auth_failed`. `token` is the unchecked value that the peer
   * sent.
   */
  authenticate(token: unknown): Principal | undefined;
  /**
   * Returns the principal of this name with its present rights; undefined when none has the name. Absent: rights never
   * change.
   */
  current?(name: string): Principal | undefined;
  /** Calls `listener` after rights have changed. */
  onChange?(listener: () => void): void;
}

/** An authenticator whose principals can be replaced while it is in use. */
export interface ConfiguredAuthenticator extends Required<Authenticator> {
  /** Replaces all tokens and principals. Sessions and connections that are open get the rights of now. */
  replace(grants: readonly PrincipalTokens[]): void;
}

/**
 * The principal of every peer when no token is configured, and the owner of the token created for the command line of
 * this user.
 */
export const LOCAL_PRINCIPAL: Principal = Object.freeze({ name: 'local', admin: true });

/** Bound on the length of a principal's token: the cost of a guess must not grow with its length. */
export const MAX_TOKEN_CHARACTERS = 4_096;

/** Loading it costs milliseconds, and a host without tokens never needs it. */
let loaded: typeof import('node:crypto') | undefined;
const crypto = () => {
  loaded ??= process.getBuiltinModule('node:crypto');
  return loaded;
};

/** Returns the stored digest of a token; the token itself is not stored. */
export function tokenDigest(token: string): Uint8Array {
  return crypto().hash('sha256', token, 'buffer');
}

/** Returns the grant for the token of this user's own command line. */
export function localGrant(token: string): PrincipalTokens {
  return { principal: LOCAL_PRINCIPAL, digests: [tokenDigest(token)] };
}

/**
 * Makes the authenticator of a host. Without grants every peer is {@link LOCAL_PRINCIPAL}; whether that may be is
 * decided by `checkBind` and the setting `auth.required` before this is called.
 */
export function createAuthenticator(grants: readonly PrincipalTokens[]): ConfiguredAuthenticator {
  const hasTokens = grants.length > 0;
  const listeners: (() => void)[] = [];
  let principals = principalsOf(grants);
  let known = digestsOf(grants);
  return {
    hasTokens,
    current: (name) => (hasTokens ? principals.get(name) : name === LOCAL_PRINCIPAL.name ? LOCAL_PRINCIPAL : undefined),
    onChange: (listener) => void listeners.push(listener),
    replace(next) {
      principals = principalsOf(next);
      known = digestsOf(next);
      for (const listener of listeners) listener();
    },
    authenticate(token) {
      if (!hasTokens) return LOCAL_PRINCIPAL;
      // Ill-formed text would be encoded with replacement characters, so different texts could have one digest.
      const usable = typeof token === 'string' && token.length <= MAX_TOKEN_CHARACTERS && token.isWellFormed();
      const sent = tokenDigest(usable ? token : '');
      const { timingSafeEqual } = crypto();
      let owner: Principal | undefined;
      // Every digest is compared, also after a match: the time must show neither the matching one nor their number.
      for (const { principal, digest } of known) {
        if (timingSafeEqual(sent, digest)) owner = principal;
      }
      return usable ? owner : undefined;
    },
  };
}

/** Returns the principals that are no administrators: their tools and images have no access to protected paths. */
export const restricted = (grants: readonly PrincipalTokens[]): Principal[] =>
  grants.map(({ principal }) => principal).filter((principal) => !may(principal, 'administer'));

const principalsOf = (grants: readonly PrincipalTokens[]) =>
  new Map(grants.map(({ principal }) => [principal.name, principal]));

const digestsOf = (grants: readonly PrincipalTokens[]) =>
  grants.flatMap(({ principal, digests }) => digests.map((digest) => ({ principal, digest })));
