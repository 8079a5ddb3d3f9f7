/**
 * Secrets of the fleet, read from their file or variable at each use, so that a rotated secret takes effect without a restart.
 */
import { readRegular } from '../../base/regular-file.ts';
import { secretProblem } from '../../base/secret-text.ts';
import { fileProblem } from '../../base/workspace/file-error.ts';
import { fail } from '../../wire/errors.ts';

export type SecretSource = () => Promise<string>;

/** The configured sources of a secret. */
export interface SecretPlaces {
  readonly tokenEnv?: string;
  readonly tokenFile?: string;
}

/**
 * Reads the first line of a file, else a variable; undefined where neither is configured. The source fails with
 * `not_configured`.
 */
export function secretReader(
  { tokenEnv, tokenFile }: SecretPlaces,
  env: Readonly<Record<string, string | undefined>>,
): SecretSource | undefined {
  if (tokenFile !== undefined) {
    return async () => {
      const text = await readRegular(tokenFile).catch((cause: NodeJS.ErrnoException) => {
        throw fail('not_configured', `cannot read the token file ${tokenFile}: ${fileProblem(cause)}`, {}, cause);
      });
      const secret = text.split('\n', 1)[0]?.trim() ?? '';
      // An empty token would admit every client.
      if (secret === '')
        throw fail('not_configured', `the first line of the token file ${tokenFile} is empty; write the token there`);
      return usable(secret, `the first line of the token file ${tokenFile}`);
    };
  }
  if (tokenEnv === undefined) return undefined;
  return async () => {
    const value = env[tokenEnv]?.trim();
    if (!value) throw fail('not_configured', `the environment variable ${tokenEnv} is not set; set it to the token`);
    return usable(value, `the environment variable ${tokenEnv}`);
  };
}

function usable(secret: string, where: string): string {
  const problem = secretProblem(secret);
  if (problem === undefined) return secret;
  throw fail('not_configured', `${where} has ${problem}; write the token alone there`);
}
