/**
 * Secrets of the fleet, read when they are used, from the one place that has them: what a process remembered of one would be
 * wrong after it was replaced. Used by the assemblies.
 */
import { readFile } from 'node:fs/promises';
import { fail } from '../../wire/errors.ts';

export type SecretSource = () => Promise<string>;

/** Where a secret may be. */
export interface SecretPlaces {
  readonly tokenEnv?: string;
  readonly tokenFile?: string;
}

/** The first line of a file, else a variable; undefined where neither is configured. The source fails with `not_configured`. */
export function secretReader(
  { tokenEnv, tokenFile }: SecretPlaces,
  env: Readonly<Record<string, string | undefined>>,
): SecretSource | undefined {
  if (tokenFile !== undefined) {
    return async () => {
      const text = await readFile(tokenFile, 'utf8').catch((cause: NodeJS.ErrnoException) => {
        throw fail('not_configured', `the token file ${tokenFile} cannot be read: ${cause.code}`, {}, cause);
      });
      const secret = text.split('\n', 1)[0]?.trim() ?? '';
      // Nothing must never become a token that nobody needs to know.
      if (secret === '') throw fail('not_configured', `the first line of the token file ${tokenFile} is empty`);
      return secret;
    };
  }
  if (tokenEnv === undefined) return undefined;
  return async () => {
    const value = env[tokenEnv]?.trim();
    if (!value) throw fail('not_configured', `the environment variable ${tokenEnv} is not set`);
    return value;
  };
}
