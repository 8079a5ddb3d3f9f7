/**
 * The token of this user on this machine: created by the first host that needs one, stored in a file that only this
 * user can read, found there by the command line. Also decides which token a client sends.
 */

import { link, readFile, unlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { ensurePrivateFolder } from '../base/private-file.ts';
import { openRegular, otherKindAt } from '../base/regular-file.ts';
import { secretProblem } from '../base/secret-text.ts';
import { fileProblem } from '../base/workspace/file-error.ts';
import { fail } from '../wire/errors.ts';

/** Longest token file read, in bytes: a few tokens, with comments. */
const MAX_TOKEN_FILE_BYTES = 64 * 1024;
/** Shorter tokens are refused: they could be guessed. */
export const MIN_TOKEN_CHARACTERS = 16;
/** Windows has no such permissions; its user profile is private already. */
const HAS_MODES = process.platform !== 'win32';

/** Returns the tokens in the text of a token file: one a line; blank lines and lines that start with # do not count. */
export function tokensOf(text: string): string[] {
  const lines = text.split('\n').map((line) => line.trim());
  return lines.filter((line) => line !== '' && !line.startsWith('#'));
}

/**
 * Returns the local token, created on first use: 32 random bytes in `<home>/token`, mode 0600 in a folder of mode 0700.
 * Processes that create it at the same time all get the same one.
 *
 * Fails with `config_invalid` when other users can read the file, when it holds no token, and when the folder belongs
 * to another user. A readable token is not repaired silently: another user may have copied it.
 */
export async function ensureLocalToken(options: {
  home: string;
  randomBytes?: (size: number) => Uint8Array;
}): Promise<{ token: string; file: string; created: boolean }> {
  const { randomBytes = process.getBuiltinModule('node:crypto').randomBytes } = options;
  const file = join(options.home, 'token');
  await ensurePrivateFolder(options.home);
  const existing = await readLocalToken(file);
  if (existing !== undefined) return { token: existing, file, created: false };

  const token = `hf_${Buffer.from(randomBytes(32)).toString('base64url')}`;
  const draft = `${file}.${Buffer.from(randomBytes(8)).toString('hex')}.new`;
  try {
    await writeFile(draft, `${token}\n`, { mode: 0o600, flag: 'wx', flush: true });
    // A hard link appears whole or not at all and never replaces: exactly one of several drafts becomes the token.
    await link(draft, file);
    return { token, file, created: true };
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'EEXIST') throw unusable(file, 'cannot be written', cause);
    const winner = await readLocalToken(file);
    if (winner === undefined) throw unusable(file, 'was removed while it was read', cause);
    return { token: winner, file, created: false };
  } finally {
    await unlink(draft).catch(() => undefined);
  }
}

/**
 * Returns the token that a client should send, from the first source that has one: the file given on the command line,
 * the variable `HANDFAST_TOKEN`, the local token under `home`. Undefined when none has one.
 *
 * Pass `home` only for addresses of this machine: no other machine may see the local token. Fails with `usage` when the
 * given file cannot be read or holds no token, with `config_invalid` as {@link ensureLocalToken} does.
 */
export async function tokenFromSources(sources: {
  flagFile?: string;
  env: Readonly<Record<string, string | undefined>>;
  home?: string;
}): Promise<{ token: string; source: 'file' | 'environment' | 'local' } | undefined> {
  if (sources.flagFile !== undefined) {
    const [token] = tokensOf(
      await readFile(sources.flagFile, 'utf8').catch((cause) => {
        throw fail('usage', `cannot read the token file ${sources.flagFile}: ${fileProblem(cause)}`, {}, cause);
      }),
    );
    if (token === undefined) throw fail('usage', `the token file ${sources.flagFile} contains no token`);
    mustBeSecret(token, `the token file ${sources.flagFile}`);
    return { token, source: 'file' };
  }
  const fromEnvironment = sources.env.HANDFAST_TOKEN?.trim();
  if (fromEnvironment) {
    mustBeSecret(fromEnvironment, 'the variable HANDFAST_TOKEN');
    return { token: fromEnvironment, source: 'environment' };
  }
  const local = sources.home === undefined ? undefined : await readLocalToken(join(sources.home, 'token'));
  return local === undefined ? undefined : { token: local, source: 'local' };
}

function mustBeSecret(token: string, where: string): void {
  const problem = secretProblem(token);
  if (problem !== undefined) throw fail('usage', `the token of ${where} has ${problem}; write the token alone`);
}

/**
 * Returns the first token of the file, or undefined when the file does not exist. Permissions are those of the opened
 * file.
 */
async function readLocalToken(file: string): Promise<string | undefined> {
  let handle: Awaited<ReturnType<typeof openRegular>>;
  try {
    handle = await openRegular(file, 'r');
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    const other = otherKindAt(file);
    throw other === undefined ? unusable(file, 'cannot be read', cause) : unusable(file, `is ${other} and not a file`);
  }
  try {
    const { mode, size } = await handle.stat();
    if (HAS_MODES && (mode & 0o077) !== 0) {
      throw unusable(file, 'can be read by other users; delete it to have a new one made, or run: chmod 600 on it');
    }
    const [token] = size > MAX_TOKEN_FILE_BYTES ? [] : tokensOf(await handle.readFile('utf8'));
    if (token === undefined || token.length < MIN_TOKEN_CHARACTERS) {
      throw unusable(
        file,
        `contains no token of at least ${MIN_TOKEN_CHARACTERS} characters; delete it to have one made`,
      );
    }
    const problem = secretProblem(token);
    if (problem !== undefined) throw unusable(file, `contains a token with ${problem}; delete it to have one made`);
    return token;
  } finally {
    await handle.close();
  }
}

function unusable(path: string, why: string, cause?: unknown) {
  const code = (cause as NodeJS.ErrnoException | undefined)?.code;
  return fail('config_invalid', `${path} ${why}${code ? ` (${code})` : ''}`, { path }, cause);
}
