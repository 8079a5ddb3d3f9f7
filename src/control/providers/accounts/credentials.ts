/**
 * The secrets of this data directory: API keys and the tokens of sign-ins, in one file.
 *
 * Where the system has a keyring the file is sealed (AES-256-GCM) with a key that only the keyring holds; elsewhere it is
 * plain and only its owner can read it (`base/private-file.ts`). One file either way: it is replaced in one step, and tokens
 * may be longer than some keyrings take. The keyring is asked only for something to read or to write.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { Log } from '../../../base/log.ts';
import { asideOf, readPrivateFile, removePrivateFile, setAside, writePrivateFile } from '../../../base/private-file.ts';
import { SerialWork } from '../../../base/serial-work.ts';
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

/** Result of a sign-in. */
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

export interface CredentialOptions {
  readonly home: string;
  /** Undefined = the system has none. */
  readonly keyring: Keyring | undefined;
  readonly log: Log;
}

type Credentials = Readonly<Partial<Record<CredentialName, Credential>>>;

const KEY_BYTES = 32;
const CIPHER = 'aes-256-gcm';

export class CredentialStore {
  readonly #file: string;
  /** Entry of the data directory in the keyring, which is shared. */
  readonly #account: string;
  readonly #keyring: Keyring | undefined;
  readonly #log: Log;
  readonly #changes = new SerialWork();
  #credentials: Credentials = {};
  #key: Buffer | undefined;
  #keyringFailed: boolean;
  /** The file cannot be read; the next change quarantines it. */
  #unreadable = false;

  private constructor({ home, keyring, log }: CredentialOptions) {
    this.#file = join(home, 'credentials.json');
    this.#account = `credentials-${createHash('sha256').update(home).digest('hex').slice(0, 16)}`;
    this.#keyring = keyring;
    this.#keyringFailed = keyring === undefined;
    this.#log = log;
  }

  /**
   * Reads the credentials of a data directory. Credentials that cannot be read (the keyring is out of reach, the file is
   * damaged) are reported to `log` and left where they are; the next change quarantines the file. Fails with `config_invalid`
   * when the file belongs to another user.
   */
  static async open(options: CredentialOptions): Promise<CredentialStore> {
    const store = new CredentialStore(options);
    await store.#load();
    return store;
  }

  /** Returns the credential; undefined when none is stored. From memory. */
  get(name: CredentialName): Credential | undefined {
    return this.#credentials[name];
  }

  /**
   * Sets (undefined: removes) a credential; on disk before it returns, and unchanged in memory when that fails. With
   * `expected`, only if it is still that one; false = it was not.
   */
  set(name: CredentialName, credential: Credential | undefined, expected?: Credential): Promise<boolean> {
    return this.#changes.run(async () => {
      if (expected !== undefined && this.#credentials[name] !== expected) return false;
      const { [name]: _, ...others } = this.#credentials;
      await this.#save(credential === undefined ? others : { ...others, [name]: credential });
      return true;
    });
  }

  /** Removes everything, the key in the keyring included. */
  clear(): Promise<void> {
    return this.#changes.run(async () => {
      await removePrivateFile(this.#file);
      await removePrivateFile(asideOf(this.#file));
      this.#credentials = {};
      this.#unreadable = false;
      if (this.#key === undefined) return;
      this.#key = undefined;
      await this.#keyring!.remove(this.#account).catch((thrown: Error) => {
        // The file is removed, so the key opens nothing any more.
        this.#log.warn('the key of the credentials could not be removed from the keyring', { reason: thrown.message });
      });
    });
  }

  /** Waits for the running changes; failed ones too. */
  idle(): Promise<void> {
    return this.#changes.idle();
  }

  /** Place of the secrets, for people: `keyring` = sealed with its key. */
  get protection(): 'keyring' | 'file' {
    return this.#key === undefined ? 'file' : 'keyring';
  }

  async #load(): Promise<void> {
    const file = this.#file;
    const text = await readPrivateFile(file, this.#log);
    if (text === undefined) return;
    try {
      this.#credentials = readCredentials(await this.#opened(JSON.parse(text)));
    } catch (thrown) {
      this.#unreadable = true;
      // The text itself is not shown: it may hold a key.
      const reason = thrown instanceof SyntaxError ? 'not JSON' : (thrown as Error).message;
      const advice = 'stored credentials cannot be read; sign in again, or unlock the keyring and restart';
      this.#log.warn(advice, { file, reason });
    }
  }

  /** Returns the credentials in the parsed file. */
  async #opened(content: unknown): Promise<unknown> {
    const { sealed, credentials } = record(content);
    if (sealed === undefined && credentials === undefined) throw new Error('not a credentials file');
    if (sealed === undefined) return credentials;
    const key = await this.#sealingKey(false);
    if (key === undefined) throw new Error('the key that seals them is not in the keyring, or it cannot be reached');
    return JSON.parse(unseal(sealed, key));
  }

  async #save(next: Credentials): Promise<void> {
    if (this.#unreadable) {
      this.#log.warn('quarantined unreadable credentials', { file: await setAside(this.#file) });
      this.#unreadable = false;
    }
    const key = await this.#sealingKey(true);
    const content = key === undefined ? { credentials: next } : { sealed: seal(JSON.stringify(next), key) };
    await writePrivateFile(this.#file, `${JSON.stringify({ version: 1, ...content })}\n`);
    this.#credentials = next;
  }

  /** Returns the sealing key from the keyring, made if `create`; undefined when none is available. */
  async #sealingKey(create: boolean): Promise<Buffer | undefined> {
    if (this.#key !== undefined || this.#keyringFailed) return this.#key;
    const keyring = this.#keyring!;
    try {
      let text = await keyring.read(this.#account);
      if (text === undefined && create) {
        await keyring.write(this.#account, randomBytes(KEY_BYTES).toString('base64'));
        // Read back: a keyring that loses the key would lose every credential with it.
        text = await keyring.read(this.#account);
      }
      const found = Buffer.from(text ?? '', 'base64');
      this.#key = found.length === KEY_BYTES ? found : undefined;
      if (this.#key === undefined && create) throw new Error('the keyring did not store the key');
      return this.#key;
    } catch (thrown) {
      // Not asked again: each attempt may cost its whole deadline.
      this.#keyringFailed = true;
      const reason = (thrown as Error).message;
      this.#log.info('no keyring available; credentials are stored in a private file', { reason });
      return undefined;
    }
  }
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

/** Returns the credentials of the file; all other members are left out. */
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
