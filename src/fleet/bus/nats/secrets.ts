/**
 * The secrets of a connection to NATS: named by file or variable, read when the client asks for them, at every connection
 * again, so that a secret can be rotated while a fleet runs.
 *
 * @see docs/nats.md#authentication
 */

import type { Log } from '../../../base/log.ts';
import { readRegularSync } from '../../../base/regular-file.ts';
import { secretProblem } from '../../../base/secret-text.ts';
import { fail } from '../../../wire/errors.ts';
import type { Authenticator, NatsPackages } from './client.ts';

/** Source of the secret for the server; the first that is given. Without any, none is sent. */
export interface NatsAuth {
  /** A `.creds` file with a JWT and its key. */
  readonly credentialsFile?: string;
  /** A file with an NKey seed. */
  readonly nkeyFile?: string;
  /** With a password from the file, else the variable. */
  readonly user?: string;
  readonly passwordFile?: string;
  readonly passwordEnv?: string;
  readonly tokenFile?: string;
  /** Name of an environment variable. */
  readonly tokenEnv?: string;
}

export type Variables = Readonly<Record<string, string | undefined>>;

/** One secret: its name for messages, and how it is used. */
interface Secret {
  /** For messages; never the secret itself. */
  readonly what: string;
  readonly place: string;
  /** False for a file of several lines. Default true. */
  readonly isOneLine?: boolean;
  read(): string;
  authenticator(secret: string): Authenticator;
}

/** Returns the secret of a configuration; undefined where none is configured. */
function secretOf({ transport }: Pick<NatsPackages, 'transport'>, auth: NatsAuth, env: Variables): Secret | undefined {
  const { credentialsFile, nkeyFile, user, passwordFile, passwordEnv, tokenFile, tokenEnv } = auth;
  const from = (path: string | undefined, variable: string | undefined) =>
    path !== undefined
      ? { place: `the file ${path}`, read: () => readRegularSync(path).toString().trim() }
      : { place: `the environment variable ${variable}`, read: () => env[variable ?? '']?.trim() ?? '' };
  const bytes = (secret: string): Uint8Array => new TextEncoder().encode(secret);
  if (credentialsFile !== undefined) {
    return {
      what: 'credentials',
      isOneLine: false,
      ...from(credentialsFile, undefined),
      // The client wants the end of its last line.
      authenticator: (secret) => transport.credsAuthenticator(bytes(`${secret}\n`)),
    };
  }
  if (nkeyFile !== undefined) {
    return {
      what: 'NKey',
      isOneLine: false,
      ...from(nkeyFile, undefined),
      authenticator: (secret) => transport.nkeyAuthenticator(bytes(secret)),
    };
  }
  if (user !== undefined) {
    return {
      what: `password of user ${user}`,
      ...from(passwordFile, passwordEnv),
      authenticator: (secret) => transport.usernamePasswordAuthenticator(user, secret),
    };
  }
  if (tokenFile === undefined && tokenEnv === undefined) return undefined;
  return {
    what: 'token',
    ...from(tokenFile, tokenEnv),
    authenticator: (secret) => transport.tokenAuthenticator(secret),
  };
}

/** The proof of identity of one connection. */
export interface NatsIdentity {
  /** For the client. Reads the secret each time; undefined: the server is shown none. */
  readonly authenticator: Authenticator | undefined;
  /** Advice when a server refuses it. */
  readonly advice: string;
}

/** Fails with `not_configured` when the secret cannot be read, or is none of its kind. */
export function identityOf(
  packages: Pick<NatsPackages, 'transport'>,
  auth: NatsAuth | undefined,
  { env = process.env, log }: { readonly env?: Variables; readonly log?: Log },
): NatsIdentity {
  const secret = auth && secretOf(packages, auth, env);
  if (secret === undefined) {
    return {
      authenticator: undefined,
      advice: 'it asks who this is, and nothing is configured: name credentials_file, nkey_file, user or a token',
    };
  }
  const { what, place } = secret;
  prove(secret);
  return {
    // It must not throw there: the client would close the connection for good.
    authenticator: (nonce) => {
      try {
        return secret.authenticator(secret.read())(nonce);
      } catch (error) {
        log?.error(`the ${what} for NATS cannot be used`, { place, error: codeOf(error) });
        return undefined;
      }
    },
    advice: `check the ${what} in ${place}, and the users the server knows`,
  };
}

/** Reports problems with a secret once, before the first connection. */
function prove({ what, place, read, authenticator, isOneLine = true }: Secret): void {
  let secret: string;
  try {
    secret = read();
  } catch (error) {
    throw fail('not_configured', `the ${what} for NATS cannot be read from ${place}: ${codeOf(error)}`, {}, error);
  }
  if (secret === '') throw fail('not_configured', `the ${what} for NATS is not in ${place}: it is empty, or not set`);
  const problem = isOneLine ? secretProblem(secret) : undefined;
  if (problem !== undefined)
    throw fail('not_configured', `the ${what} for NATS in ${place} has ${problem}; write it alone`);
  try {
    authenticator(secret)('nonce');
  } catch {
    // The client's message might hold a part of the secret.
    throw fail('not_configured', `${place} does not hold the ${what} for NATS`);
  }
}

/** Returns the system's error code, or the kind of error: messages of parsers repeat the parsed text. */
const codeOf = (error: unknown): string => (error as { code?: string }).code ?? (error as Error).name;
