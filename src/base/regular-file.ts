/**
 * Opens files in whose place anything may lie. A pipe, a socket or a device there is an error at once: to open or to read one can
 * take for ever, and can change the device. Links are followed, because users keep their folders behind them.
 *
 * Used for all files of the user's Handfast folder and for those that a configuration names. `bounded-file.ts` reads what may
 * come from others.
 */
import type { Stats } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { sleep } from './sleep.ts';

/** The first handshake of a host loads no `node:fs`. */
const fs = () => process.getBuiltinModule('node:fs');

/** To read, to read and change, to write from the start, to append. The last two make a file that is missing, for its owner alone. */
type Use = 'r' | 'r+' | 'w' | 'a';

function flagsOf(use: Use): number {
  const { O_RDONLY, O_RDWR, O_WRONLY, O_CREAT, O_TRUNC, O_APPEND, O_NONBLOCK = 0, O_NOCTTY = 0 } = fs().constants;
  const flags = { r: O_RDONLY, 'r+': O_RDWR, w: O_WRONLY | O_CREAT | O_TRUNC, a: O_WRONLY | O_CREAT | O_APPEND };
  // Not blocking: a pipe may have replaced the file since the check.
  return flags[use] | O_NONBLOCK | O_NOCTTY;
}

/** The kind of an entry that is not a file, for messages. */
function kindOf(stats: Stats): string | undefined {
  if (stats.isFile()) return undefined;
  if (stats.isDirectory()) return 'a folder';
  return stats.isFIFO() ? 'a pipe' : stats.isSocket() ? 'a socket' : 'a device';
}

function refuseOther(path: string, stats: Stats | undefined): void {
  const kind = stats && kindOf(stats);
  if (kind === undefined) return;
  const code = kind === 'a folder' ? 'EISDIR' : 'EFTYPE';
  throw systemError(code, path, `${kind} is not a file`);
}

const systemError = (code: string, path: string, why: string): NodeJS.ErrnoException =>
  Object.assign(new Error(`${code}: ${why}, open '${path}'`), { code, path });

const statsOf = (path: string): Stats | undefined => fs().statSync(path, { throwIfNoEntry: false });

/** The kind of an entry that is not a file, `a pipe`; undefined for a file and where there is none. Throws as the file system does. */
export function otherKindAt(path: string): string | undefined {
  const stats = statsOf(path);
  return stats && kindOf(stats);
}

/** Throws `EISDIR` or `EFTYPE` when something else than a file lies at a path. */
export function mustBeRegular(file: string): void {
  refuseOther(file, statsOf(file));
}

/** Opens a file. Throws as the file system does, and as {@link mustBeRegular}. */
export function openRegularSync(file: string, use: Use): number {
  const { closeSync, fstatSync, openSync } = fs();
  mustBeRegular(file);
  const descriptor = openSync(file, flagsOf(use), 0o600);
  try {
    refuseOther(file, fstatSync(descriptor));
    return descriptor;
  } catch (thrown) {
    closeSync(descriptor);
    throw thrown;
  }
}

/** Opens a file. Rejects as {@link openRegularSync} throws. */
export async function openRegular(file: string, use: Use): Promise<FileHandle> {
  mustBeRegular(file);
  const handle = await fs().promises.open(file, flagsOf(use), 0o600);
  try {
    refuseOther(file, await handle.stat());
    return handle;
  } catch (thrown) {
    await handle.close();
    throw thrown;
  }
}

/** The bytes of a file. Throws as {@link openRegularSync} does. */
export function readRegularSync(file: string): Buffer {
  const descriptor = openRegularSync(file, 'r');
  try {
    return fs().readFileSync(descriptor);
  } finally {
    fs().closeSync(descriptor);
  }
}

/** The text of a file. Rejects as {@link openRegularSync} throws. */
export async function readRegular(file: string): Promise<string> {
  await using handle = await openRegular(file, 'r');
  return await handle.readFile('utf8');
}

/** Replaces the text of a file, or makes it for its owner alone. Throws as {@link openRegularSync} does. */
export function writeRegularSync(file: string, text: string): void {
  const descriptor = openRegularSync(file, 'w');
  try {
    fs().writeFileSync(descriptor, text);
  } finally {
    fs().closeSync(descriptor);
  }
}

/** How long the content of a pipe is waited for, milliseconds. */
const PIPE_MS = 5_000;
const PIPE_POLL_MS = 10;

/**
 * The bytes of a file that the user named, which may be a pipe, as shells make one for the output of a program: of a pipe, a
 * part that is longer than `maxBytes` where it has more. Rejects as {@link openRegularSync} throws, and with `ETIMEDOUT` when a
 * pipe does not end in time.
 */
export async function readNamed(file: string, maxBytes: number): Promise<Buffer> {
  if (otherKindAt(file) !== 'a pipe') return readRegularSync(file);
  const { O_RDONLY, O_NONBLOCK = 0 } = fs().constants;
  await using handle = await fs().promises.open(file, O_RDONLY | O_NONBLOCK);
  const chunks: Buffer[] = [];
  const chunk = Buffer.alloc(65_536);
  for (let total = 0, until = performance.now() + PIPE_MS; ; ) {
    const { bytesRead } = await handle.read(chunk).catch((thrown: NodeJS.ErrnoException) => {
      if (thrown.code !== 'EAGAIN') throw thrown;
      return { bytesRead: -1 };
    });
    // Nothing yet: also while no program has opened it to write.
    if (bytesRead < 0 || (bytesRead === 0 && total === 0)) {
      if (performance.now() > until)
        throw systemError('ETIMEDOUT', file, `nothing came out of a pipe in ${PIPE_MS} ms`);
      await sleep(PIPE_POLL_MS);
      continue;
    }
    total += bytesRead;
    chunks.push(Buffer.from(chunk.subarray(0, bytesRead)));
    if (bytesRead === 0 || total > maxBytes) return Buffer.concat(chunks);
  }
}
