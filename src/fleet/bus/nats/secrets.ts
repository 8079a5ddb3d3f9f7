/**
 * The secrets of a connection to NATS: read when the client asks for them, at every connection anew, so that a secret can be
 * replaced while a fleet runs.
 *
 * Used by `connection.ts`.
 */
import { readFileSync } from 'node:fs';
import type { Log } from '../../../host/context.ts';
import type { Authenticator, NatsPackages } from './client.ts';

/**
 * Where the secret for the server comes from; the first that is given. Files and variables are read again at every
 * connection, so that a secret can be replaced while the fleet runs.
 */
export interface NatsAuth {
  /** A `.creds` file with a JWT and its key. */
  readonly credentialsFile?: string;
  /** A file with an NKey seed. */
  readonly nkeyFile?: string;
  readonly tokenFile?: string;
  /** Name of an environment variable. */
  readonly tokenEnv?: string;
  readonly token?: string;
  /** With a password from the file, else the variable, else as given. */
  readonly user?: string;
  readonly passwordFile?: string;
  readonly passwordEnv?: string;
  readonly password?: string;
}

/** Reads secrets when the client asks for them. It must not throw there: the client would close the connection for good. */
export function authenticator(
  { transport }: NatsPackages,
  auth: NatsAuth,
  { env = process.env, log }: { readonly env?: Readonly<Record<string, string | undefined>>; readonly log?: Log },
): Authenticator {
  const read = (what: string, get: () => string): string => {
    try {
      const secret = get().trim();
      if (secret !== '') return secret;
      log?.error(`the ${what} for NATS is empty`);
    } catch (error) {
      log?.error(`the ${what} for NATS cannot be read`, { code: (error as { code?: unknown }).code });
    }
    return '';
  };
  const file = (path: string) => readFileSync(path, 'utf8');
  const { credentialsFile, nkeyFile, tokenFile, tokenEnv, token, user, passwordFile, passwordEnv, password } = auth;
  const guarded =
    (make: () => Authenticator): Authenticator =>
    (nonce) => {
      try {
        return make()(nonce);
      } catch (error) {
        log?.error('the secret for NATS cannot be used', { error: (error as Error).name });
        return undefined;
      }
    };
  if (credentialsFile !== undefined) {
    return guarded(() =>
      transport.credsAuthenticator(new TextEncoder().encode(read('credentials file', () => file(credentialsFile)))),
    );
  }
  if (nkeyFile !== undefined) {
    return guarded(() =>
      transport.nkeyAuthenticator(new TextEncoder().encode(read('NKey file', () => file(nkeyFile)))),
    );
  }
  if (user !== undefined) {
    const secret = () => {
      if (passwordFile !== undefined) return read('password file', () => file(passwordFile));
      if (passwordEnv !== undefined) return read(`variable ${passwordEnv}`, () => env[passwordEnv] ?? '');
      return password ?? '';
    };
    return guarded(() => transport.usernamePasswordAuthenticator(user, secret()));
  }
  const secret = () => {
    if (tokenFile !== undefined) return read('token file', () => file(tokenFile));
    if (tokenEnv !== undefined) return read(`variable ${tokenEnv}`, () => env[tokenEnv] ?? '');
    return token ?? '';
  };
  return guarded(() => transport.tokenAuthenticator(secret()));
}
