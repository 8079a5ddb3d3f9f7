/**
 * The stored sign-in to one MCP server: a private file of this user, and a lock that all processes of the user share. A
 * change is made under the lock, on the content that the file has then.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { waitForFileLock } from '../base/file-lock.ts';
import { type Log, silentLog } from '../base/log.ts';
import { ensurePrivateFolder, readPrivateFile, removePrivateFile, writePrivateFile } from '../base/private-file.ts';
import { headerProblem } from '../base/secret-text.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';

/** The members that the client of the protocol defines are stored as it gave them. */
export interface StoredSignIn {
  /** The resource: the address of the server. Tokens go nowhere else. */
  readonly server: string;
  /** The authorization server that all of this is from. */
  readonly issuer?: string;
  /** This client's registration there. */
  readonly client?: Readonly<Record<string, unknown>>;
  /** The address to which the registration lets a browser return. */
  readonly redirectUri?: string;
  readonly tokens?: {
    readonly access_token: string;
    readonly refresh_token?: string;
    readonly scope?: string;
    readonly [member: string]: unknown;
  };
  /** Epoch seconds; undefined: not known. */
  readonly expiresAt?: number;
  /** The result of discovery. */
  readonly discovery?: Readonly<Record<string, unknown>>;
  /** The server's demand at its last refusal. */
  readonly challenge?: { readonly scope?: string; readonly resourceMetadataUrl?: string };
}

/** Longest wait for another process that renews: longer than a request to an authorization server may take. */
const LOCK_MS = 45_000;
const LOCK_POLL_MS = 20;

export class SignInFile {
  readonly #folder: string;
  readonly #file: string;
  readonly #server: string;
  readonly #log: Log;

  /** @param folder the folder of all sign-ins to MCP servers */
  constructor(folder: string, name: string, server: string, log: Log = silentLog) {
    this.#folder = folder;
    this.#server = server;
    this.#log = log;
    this.#file = join(folder, `${name}-${createHash('sha256').update(server).digest('hex').slice(0, 16)}.json`);
  }

  /**
   * Reads the stored sign-in; empty if none is stored, or the stored one is of another server. Rejects with
   * `config_invalid`.
   */
  async read(): Promise<StoredSignIn> {
    const text = await readPrivateFile(this.#file, this.#log);
    const empty: StoredSignIn = { server: this.#server };
    if (text === undefined) return empty;
    try {
      const stored: unknown = JSON.parse(text);
      if (isObject(stored) && stored.server === this.#server)
        return withUsableTokens(stored as unknown as StoredSignIn);
    } catch {
      // Damaged: as if nothing was stored, and the next sign-in writes it whole.
    }
    return empty;
  }

  /**
   * Runs `work` with the stored sign-in while no other process changes it, and stores the result: undefined removes it,
   * the same object changes nothing. Rejects with `timeout` if another process has the lock too long, and as `work`
   * does.
   */
  async change(
    signal: AbortSignal,
    work: (stored: StoredSignIn) => Promise<StoredSignIn | undefined>,
  ): Promise<StoredSignIn> {
    const release = await this.#lock(signal);
    try {
      const stored = await this.read();
      const changed = await work(stored);
      if (changed === undefined) await removePrivateFile(this.#file);
      else if (changed !== stored) await writePrivateFile(this.#file, `${JSON.stringify(changed, null, 1)}\n`);
      return changed ?? { server: this.#server };
    } finally {
      release();
    }
  }

  async #lock(signal: AbortSignal): Promise<() => void> {
    await ensurePrivateFolder(this.#folder);
    const release = await waitForFileLock(`${this.#file}.lock`, { ms: LOCK_MS, pollMs: LOCK_POLL_MS, signal });
    if (release === undefined) throw fail('timeout', 'another process has been changing this sign-in for too long');
    return release;
  }
}

/** Returns the stored sign-in without tokens that no header can have: then a person signs in again. */
function withUsableTokens(stored: StoredSignIn): StoredSignIn {
  if (tokenProblem(stored.tokens) === undefined) return stored;
  const { tokens: _, ...rest } = stored;
  return rest;
}

/** Returns the reason why tokens cannot be used; undefined if they can, or none exist. */
function tokenProblem(tokens: StoredSignIn['tokens']): string | undefined {
  if (tokens === undefined) return undefined;
  const { access_token: access, refresh_token: refresh } = tokens;
  if (typeof access !== 'string' || access.trim() === '') return 'no text';
  return headerProblem(access) ?? (refresh === undefined ? undefined : headerProblem(String(refresh)));
}

/**
 * Returns the members of the stored sign-in that a reply with tokens gives. Throws `login_failed` for tokens that no
 * header can have.
 */
export function granted(
  tokens: { readonly access_token: string; readonly expires_in?: number | undefined },
  now: number,
): Pick<StoredSignIn, 'tokens' | 'expiresAt'> {
  const problem = tokenProblem(tokens as StoredSignIn['tokens']);
  if (problem !== undefined) {
    throw fail('login_failed', `the authorization server sent a token with ${problem}; nothing was stored`);
  }
  const { expires_in: seconds } = tokens;
  return { tokens, ...(seconds !== undefined && { expiresAt: Math.floor(now / 1_000) + seconds }) };
}
