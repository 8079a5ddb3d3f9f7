/**
 * The operating system's keyring, for the one key that seals the credentials: Keychain, Credential Manager, or the Secret
 * Service on Linux.
 *
 * Every access runs in a child process with a deadline. A session bus that accepts and never answers, or a keyring that
 * waits for its owner to unlock it, blocks the native call for good: even opening an entry holds the calling thread, and
 * neither a worker nor `process.exit` gets past it. A child can be killed.
 */
import { nodeProgram } from '../../../base/node-program.ts';
import { type ProgramEnd, startProgram } from '../../../base/program.ts';
import { fail } from '../../../wire/errors.ts';

/** One secret of this user, by account. Every method fails with `runtime_error` when the keyring cannot be reached. */
export interface Keyring {
  /** Returns the secret; undefined when the keyring has none. */
  read(account: string): Promise<string | undefined>;
  write(account: string, secret: string): Promise<void>;
  remove(account: string): Promise<void>;
}

/** Name the entries are filed under. */
const SERVICE = 'handfast';
const DEFAULT_TIMEOUT_MS = 3_000;
/** Longest reply read from the child: a secret is 64 characters. */
const MAX_REPLY_BYTES = 16 * 1024;

/**
 * Program of the child. The request comes on its standard input, so that no secret is ever an argument. On Linux the Secret
 * Service is demanded: the library's other choice, the kernel's keyring, forgets everything at the next boot.
 */
const CHILD = `
let text = '';
for await (const chunk of process.stdin) text += chunk;
const { module, service, account, action, secret } = JSON.parse(text);
const { Entry } = await import(module);
const entry = new Entry(service, account, { linux: { store: 'secret-service' } });
let value = null;
if (action === 'read') value = entry.getPassword();
else if (action === 'write') entry.setPassword(secret);
else entry.deletePassword();
process.stdout.write(JSON.stringify({ value }));
`;

export interface KeyringOptions {
  /** Environment of the child: where the session bus is, among others. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Longest time that one access may take. Default 3 s. */
  readonly timeoutMs?: number;
  /** Path of the keyring library; undefined = not installed. Default: as Node finds it from here. */
  readonly module?: string;
}

/** Returns the keyring; undefined when its library is not installed. The first access shows whether it can be reached. */
export function systemKeyring(options: KeyringOptions): Keyring | undefined {
  const { env, timeoutMs = DEFAULT_TIMEOUT_MS, module = libraryPath() } = options;
  if (module === undefined) return undefined;
  const access = (request: Readonly<Record<string, string>>) =>
    runChild(JSON.stringify({ module, service: SERVICE, ...request }), env, timeoutMs);
  return {
    async read(account) {
      const { value } = await access({ action: 'read', account });
      return typeof value === 'string' ? value : undefined;
    },
    async write(account, secret) {
      await access({ action: 'write', account, secret });
    },
    async remove(account) {
      await access({ action: 'remove', account });
    },
  };
}

/** Returns the keyring, unless the configuration (`providers.keyring`) or `HANDFAST_KEYRING=off` disables it. */
export function chosenKeyring(wanted: boolean | undefined, env: KeyringOptions['env']): Keyring | undefined {
  if (wanted === false || env.HANDFAST_KEYRING?.trim().toLowerCase() === 'off') return undefined;
  return systemKeyring({ env });
}

/** Returns the path of the library. It is optional: machines it has no binary for do without. */
function libraryPath(): string | undefined {
  try {
    return import.meta.resolve('@napi-rs/keyring');
  } catch {
    return undefined;
  }
}

/** Runs one access. Its failures carry no text of the child: a library's message may repeat the secret. */
async function runChild(
  request: string,
  given: KeyringOptions['env'],
  timeoutMs: number,
): Promise<Readonly<Record<string, unknown>>> {
  // Options meant for this process (a debugger's port, a loader) are not the child's.
  const { NODE_OPTIONS: _, ...env } = given;
  let ended: ProgramEnd;
  try {
    const child = await startProgram({
      argv: [...nodeProgram('--input-type=module'), '-e', CHILD],
      env,
      stdin: 'open',
      timeoutMs,
      // A blocked native call does not end by SIGTERM, and the child has nothing to finish.
      terminateMs: 0,
      maxStdoutBytes: MAX_REPLY_BYTES,
    });
    child.write(request);
    child.write(null);
    ended = await child.ended;
  } catch (cause) {
    throw fail('runtime_error', 'the keyring process could not be started', {}, cause);
  }
  if (ended.timedOut) throw fail('runtime_error', `the keyring did not respond within ${timeoutMs} ms`);
  try {
    if (ended.code === 0) return JSON.parse(ended.stdout) as Readonly<Record<string, unknown>>;
  } catch {
    // Reported as unreachable below.
  }
  throw fail('runtime_error', 'the keyring cannot be reached');
}
