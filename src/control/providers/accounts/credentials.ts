/**
 * The secrets of this data directory: API keys and the tokens of sign-ins, in one file.
 *
 * Where the system has a keyring the file is sealed (AES-256-GCM) with a key that only the keyring holds; elsewhere it is
 * plain and only its owner can read it (`base/private-file.ts`). One file either way: it is replaced in one step, and
 * tokens may be longer than some keyrings take. The keyring is asked only when there is something to read or to write.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Log } from '../../../base/log.ts';
import { asideOf, readPrivateFile, removePrivateFile, setAside, writePrivateFile } from '../../../base/private-file.ts';
import type { AntigravityProfile, Provider } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import { record, textOf } from '../http/http-json.ts';
import type { Keyring } from './keyring.ts';

/** A key that a user entered. */
export interface ApiKey {
  readonly kind: 'api_key';
  readonly key: string;
  /** The address it was given for; absent = the configured one. */
  readonly baseUrl?: string;
}

/** What a sign-in brought. */
export interface SignIn {
  readonly kind: 'oauth';
  readonly accessToken: string;
  readonly refreshToken?: string;
  /** Epoch milliseconds; when the access token ends. */
  readonly expiresAt: number;
  /** Name of the principal that signed in: only it is shown the profile. */
  readonly connectedBy: string;
  readonly accountId?: string;
  /** `antigravity`: the Cloud project its requests run in. */
  readonly project?: string;
  readonly profile?: AntigravityProfile;
}

export type Credential = ApiKey | SignIn;
/** A provider has one credential, and setting another replaces it; `exa` is the search service's. */
export type CredentialName = Provider | 'exa';

export interface CredentialStore {
  /** The credential; undefined when there is none. From memory. */
  get(name: CredentialName): Credential | undefined;
  /**
   * Sets (undefined: removes) a credential; on disk before it returns, and unchanged in memory when that fails. With
   * `expected`, only if it is still that one; false = it was not.
   */
  set(name: CredentialName, credential: Credential | undefined, expected?: Credential): Promise<boolean>;
  /** Removes everything, the key in the keyring included. */
  clear(): Promise<void>;
  /** Waits for the running changes; failed ones too. */
  idle(): Promise<void>;
  /** Where the secrets are, for people: `keyring` = sealed with its key. */
  readonly protection: 'keyring' | 'file';
}

export interface CredentialOptions {
  readonly home: string;
  /** Undefined = there is none. */
  readonly keyring: Keyring | undefined;
  readonly log: Log;
}

type Credentials = Readonly<Partial<Record<CredentialName, Credential>>>;

const KEY_BYTES = 32;
const CIPHER = 'aes-256-gcm';

/**
 * Reads the credentials of a data directory. Those that cannot be read (the keyring is out of reach, the file is damaged)
 * are reported to `log` and left where they are; the next change sets the file aside. Fails with `config_invalid` when
 * the file belongs to another user.
 */
export async function openCredentials(options: CredentialOptions): Promise<CredentialStore> {
  const { home, keyring, log } = options;
  const file = join(home, 'credentials.json');
  // Data directories share the keyring; each has an entry of its own.
  const account = `credentials-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`;
  let key: Buffer | undefined;
  let keyringFailed = keyring === undefined;
  let unreadable = false;
  let credentials: Credentials = {};
  let last: Promise<unknown> = Promise.resolve();

  /** The sealing key from the keyring, made if `create`; undefined when there is none to be had. */
  async function sealingKey(create: boolean): Promise<Buffer | undefined> {
    if (key !== undefined || keyringFailed) return key;
    try {
      let text = await keyring!.read(account);
      if (text === undefined && create) {
        await keyring!.write(account, randomBytes(KEY_BYTES).toString('base64'));
        // Read back: what a keyring takes and then loses would lose every credential with it.
        text = await keyring!.read(account);
      }
      const found = Buffer.from(text ?? '', 'base64');
      key = found.length === KEY_BYTES ? found : undefined;
      if (key === undefined && create) throw new Error('the keyring did not store the key');
      return key;
    } catch (thrown) {
      // Not asked again: each attempt may cost its whole deadline.
      keyringFailed = true;
      log.info('no keyring available; credentials are stored in a private file', { reason: (thrown as Error).message });
      return undefined;
    }
  }

  async function load(): Promise<void> {
    const text = await readPrivateFile(file, log);
    if (text === undefined) return;
    try {
      const { sealed, credentials: plain } = record(JSON.parse(text));
      if (sealed !== undefined) {
        const found = await sealingKey(false);
        if (found === undefined)
          throw new Error('the key that seals them is not in the keyring, or it cannot be reached');
        credentials = readCredentials(JSON.parse(unseal(sealed, found)));
      } else if (plain !== undefined) credentials = readCredentials(plain);
      else throw new Error('not a credentials file');
    } catch (thrown) {
      unreadable = true;
      // The text itself is not shown: it may hold a key.
      const reason = thrown instanceof SyntaxError ? 'not JSON' : (thrown as Error).message;
      log.warn('stored credentials cannot be read; sign in again, or unlock the keyring and restart', { file, reason });
    }
  }

  async function save(next: Credentials): Promise<void> {
    if (unreadable) {
      log.warn('unreadable credentials are set aside', { file: await setAside(file) });
      unreadable = false;
    }
    const found = await sealingKey(true);
    const content = found === undefined ? { credentials: next } : { sealed: seal(JSON.stringify(next), found) };
    await writePrivateFile(file, `${JSON.stringify({ version: 1, ...content })}\n`);
    credentials = next;
  }

  /** One change at a time, each on what the one before left. */
  function inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = last.then(work);
    last = done.catch(() => undefined);
    return done;
  }

  await load();
  return {
    get: (name) => credentials[name],
    set: (name, credential, expected) =>
      inTurn(async () => {
        if (expected !== undefined && credentials[name] !== expected) return false;
        const { [name]: _, ...others } = credentials;
        await save(credential === undefined ? others : { ...others, [name]: credential });
        return true;
      }),
    clear: () =>
      inTurn(async () => {
        await removePrivateFile(file);
        await removePrivateFile(asideOf(file));
        credentials = {};
        unreadable = false;
        if (key === undefined) return;
        key = undefined;
        await keyring!.remove(account).catch((thrown: Error) => {
          // The file is removed, so the key opens nothing any more.
          log.warn('the key of the credentials could not be removed from the keyring', { reason: thrown.message });
        });
      }),
    async idle() {
      await last;
    },
    get protection() {
      return key === undefined ? 'file' : 'keyring';
    },
  };
}

function seal(text: string, key: Buffer): Readonly<Record<string, string>> {
  const iv = randomBytes(12);
  const cipher = createCipheriv(CIPHER, key, iv);
  const data = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return { iv: iv.toString('base64'), tag: cipher.getAuthTag().toString('base64'), data: data.toString('base64') };
}

function unseal(sealed: unknown, key: Buffer): string {
  const { iv, tag, data } = record(sealed);
  const bytes = (value: unknown) => Buffer.from(typeof value === 'string' ? value : '', 'base64');
  try {
    const decipher = createDecipheriv(CIPHER, key, bytes(iv), { authTagLength: 16 });
    decipher.setAuthTag(bytes(tag));
    return Buffer.concat([decipher.update(bytes(data)), decipher.final()]).toString('utf8');
  } catch (cause) {
    throw fail('runtime_error', 'they were sealed with another key, or changed since', {}, cause);
  }
}

/** What of the file is a credential; anything else is left out. */
function readCredentials(value: unknown): Credentials {
  const found: Partial<Record<CredentialName, Credential>> = {};
  for (const [name, entry] of Object.entries(record(value))) {
    const credential = readCredential(record(entry));
    if (credential !== undefined) found[name as CredentialName] = credential;
  }
  return found;
}

function readCredential(entry: Readonly<Record<string, unknown>>): Credential | undefined {
  const key = textOf(entry.key);
  if (entry.kind === 'api_key' && key !== undefined) return { kind: 'api_key', key, baseUrl: textOf(entry.baseUrl) };
  const accessToken = textOf(entry.accessToken);
  if (entry.kind !== 'oauth' || accessToken === undefined) return undefined;
  const { email, name, picture } = record(entry.profile);
  return {
    kind: 'oauth',
    accessToken,
    refreshToken: textOf(entry.refreshToken),
    expiresAt: typeof entry.expiresAt === 'number' ? entry.expiresAt : 0,
    connectedBy: textOf(entry.connectedBy) ?? '',
    accountId: textOf(entry.accountId),
    project: textOf(entry.project),
    profile:
      typeof email === 'string' && typeof name === 'string' ? { email, name, picture: textOf(picture) } : undefined,
  };
}
