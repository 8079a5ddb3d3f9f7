/**
 * Checks of the NATS settings that depend on several of them, for `fleet.yaml` and for the file of a worker. Secrets
 * are named by file or variable; none is in a configuration or in an address.
 *
 * Pure.
 * @see docs/nats.md#authentication
 */
import type { OpenedConfig } from './open-config.ts';
import type { NatsConnectionSettings } from './worker.schema.ts';

/** Reports two ways to authenticate, and a user without exactly one password. */
export function checkNats(
  settings: NatsConnectionSettings,
  at: string,
  problem: OpenedConfig<unknown>['problem'],
): void {
  const { credentialsFile, nkeyFile, tokenEnv, tokenFile, user, passwordEnv, passwordFile } = settings;
  const given = {
    credentials_file: credentialsFile,
    nkey_file: nkeyFile,
    token_env: tokenEnv,
    token_file: tokenFile,
    user,
  };
  const ways = Object.entries(given).flatMap(([key, value]) => (value === undefined ? [] : [key]));
  if (ways.length > 1) problem(`${at}.${ways[1]}`, `expected one way to sign in, got ${ways.join(' and ')}`);
  const passwords = [passwordEnv, passwordFile].filter((place) => place !== undefined).length;
  if (user === undefined && passwords > 0) problem(at, 'expected user with a password, got none');
  if (user !== undefined && passwords !== 1) {
    const got = passwords === 0 ? 'neither' : 'both';
    problem(`${at}.user`, `expected password_env or password_file with a user, got ${got}`);
  }
}

/** Reports accounts without workers or without a user, and a worker that is in two accounts. */
export function checkAccounts(
  accounts: readonly (NatsConnectionSettings & { readonly workers?: readonly string[] })[],
  own: readonly { readonly id: string }[],
  { item, problem }: Pick<OpenedConfig<unknown>, 'item' | 'problem'>,
): void {
  const names = new Set(own.map(({ id }) => id));
  for (const [index, account] of accounts.entries()) {
    const at = item('nats.accounts', index);
    checkNats(account, at, problem);
    const { workers = [], credentialsFile, nkeyFile, tokenEnv, tokenFile, user } = account;
    if (workers.length === 0) problem(`${at}.workers`, 'expected the workers of the account, got none');
    if ([credentialsFile, nkeyFile, tokenEnv, tokenFile, user].every((way) => way === undefined)) {
      problem(at, 'expected a way to sign in to the account, got none');
    }
    for (const [place, id] of workers.entries()) {
      if (names.has(id)) problem(item(`${at}.workers`, place), `expected a worker of one account, got ${id} again`);
      names.add(id);
    }
  }
}

/** Returns true for an address of a NATS server that contains a secret, which would be printed and logged with it. */
export const hasSecret = (address: string): boolean => /^\w+:\/\/[^/]*@/.test(address);

/** The problem of such an address, which does not repeat it. */
export const NO_SECRETS =
  'expected an address without user and password: they are named in nats.user and nats.password_env';
