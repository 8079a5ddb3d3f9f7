/**
 * How a fleet on NATS says who it is to the servers, and how it knows them, for `fleet.yaml` and for the file of a worker.
 * Secrets are named by file or variable; none stands in a configuration or in an address.
 * @see docs/nats.md#who-may-connect
 */
import { resolve } from 'node:path';
import { flag, group, type Settings, text } from './config-fields.ts';
import { type Problems, path, tokenFields, variable } from './fleet-config-fields.ts';

/** What orchestrators and workers have in common. */
export const natsConnectionFields = {
  credentials_file: path('A .creds file: who this is, and its key.', 'credentials_file: ./fleet.creds'),
  nkey_file: path('Or a file with an NKey seed.', 'nkey_file: ./fleet.nk'),
  ...tokenFields('the token of the server'),
  user: text('Or a user, with a password from the next two.', { expected: 'a user', example: ['user: orchestrator'] }),
  password_env: variable('The variable with the password.', 'password_env: NATS_PASSWORD'),
  password_file: path('Or the file with it, read for every connection.', 'password_file: ./nats.password'),
  tls: group(
    'For servers that ask for TLS: files are PEM.',
    {
      ca_file: path('The authority behind the certificates of the servers.', 'ca_file: ./ca.pem'),
      cert_file: path('The certificate servers are shown, where they ask for one.', 'cert_file: ./fleet.pem'),
      key_file: path('Its key.', 'key_file: ./fleet.key'),
      handshake_first: flag('The servers are configured with handshake_first.', { default: false }),
    },
    { optional: true },
  ),
} as const;

/** The settings of a connection, in the file of a worker. */
export const natsConnection = group('For a worker that joins over NATS.', natsConnectionFields);

type Said = Settings<typeof natsConnectionFields>;

/** Paths are absolute. */
export type NatsConnectionSettings = Said;

const WAYS = ['credentials_file', 'nkey_file', 'token_env', 'token_file', 'user'] as const;

/** Checks what depends on several settings, and makes paths absolute. */
export function natsConnectionOf<S extends Said>(said: S, at: string, folder: string, problem: Problems): S {
  const given: Readonly<Record<(typeof WAYS)[number], string | undefined>> = {
    credentials_file: said.credentialsFile,
    nkey_file: said.nkeyFile,
    token_env: said.tokenEnv,
    token_file: said.tokenFile,
    user: said.user,
  };
  const ways = WAYS.filter((way) => given[way] !== undefined);
  if (ways.length > 1) problem(`${at}.${ways[1]}`, `expected one way to sign in, got ${ways.join(' and ')}`);
  const passwords = [said.passwordEnv, said.passwordFile].filter((place) => place !== undefined).length;
  if (said.user !== undefined && passwords !== 1) {
    const got = passwords === 0 ? 'neither' : 'both';
    problem(`${at}.user`, `expected password_env or password_file with a user, got ${got}`);
  } else if (said.user === undefined && passwords > 0) problem(at, 'expected user with a password, got none');
  const { tls } = said;
  if (tls !== undefined && (tls.certFile === undefined) !== (tls.keyFile === undefined)) {
    problem(`${at}.tls`, 'expected cert_file and key_file together, got one of them');
  }
  return { ...said, ...absolute(said, folder), ...(tls && { tls: { ...tls, ...absolute(tls, folder) } }) };
}

/** The settings that are paths, made absolute. */
function absolute(said: object, folder: string): Record<string, string> {
  const paths = Object.entries(said).filter(([key, value]) => key.endsWith('File') && typeof value === 'string');
  return Object.fromEntries(paths.map(([key, value]) => [key, resolve(folder, value as string)]));
}

/** True for an address of a NATS server with a secret in it, which would be printed and logged with it. */
export const hasSecret = (address: string): boolean => /^\w+:\/\/[^/]*@/.test(address);

/** Said of such an address, which is not repeated. */
export const NO_SECRETS =
  'expected an address without user and password: they are named in nats.user and nats.password_env';
