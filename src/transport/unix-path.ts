/**
 * Binds a Unix socket to a path: sets its permissions, and replaces the stale socket of an ended process.
 *
 * It also replaces sockets that killed processes left.
 */
import { chmodSync, lstatSync, mkdirSync, renameSync, unlinkSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname } from 'node:path';
import { fail } from '../wire/errors.ts';

/** The shortest limit among the systems Node runs on is 103 bytes (macOS); Linux allows 107. */
const MAX_PATH_BYTES = process.platform === 'linux' ? 107 : 103;

/** A listener that is alive accepts at once; one that does not in this time is busy, not dead. */
const PROBE_MS = 1000;

/**
 * Calls `listen`, which binds `path`, so that the file is 0600 from its first moment; its folder is made 0700 when it
 * is missing. A stale socket, on which no process listens, is removed and `listen` called again.
 *
 * @throws runtime_error for a path that is too long or cannot be created, and errors of `listen`
 */
export async function bindUnix(path: string, listen: () => Promise<void>): Promise<void> {
  const bytes = Buffer.byteLength(path);
  if (bytes > MAX_PATH_BYTES) {
    const why = `a Unix socket path has at most ${MAX_PATH_BYTES} bytes, this one has ${bytes}`;
    throw fail('runtime_error', `cannot listen on unix://${path}: ${why}`, { reason: 'ENAMETOOLONG' });
  }
  try {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  } catch (error) {
    const { message, code } = error as NodeJS.ErrnoException;
    throw fail('runtime_error', `cannot listen on unix://${path}: ${message}`, { reason: code }, error);
  }
  try {
    await ownerOnly(path, listen);
  } catch (error) {
    if (!(await clearStale(path))) throw error;
    await ownerOnly(path, listen);
  }
}

/** Listens with a narrow file mask. Node binds inside the call, so the mask leaves no moment in which others may connect. */
async function ownerOnly(path: string, listen: () => Promise<void>): Promise<void> {
  let mask: number | undefined;
  try {
    mask = process.umask(0o177);
  } catch {
    // Worker threads may not change it; the mode is set right after binding instead.
  }
  let bound: Promise<void>;
  try {
    bound = listen();
  } finally {
    if (mask !== undefined) process.umask(mask);
  }
  await bound;
  chmodSync(path, 0o600);
}

/**
 * Removes a socket without a listening process; true when it did. It is renamed first and probed again: another process that
 * replaced it in the meantime would otherwise lose its new socket.
 */
export async function clearStale(path: string): Promise<boolean> {
  try {
    if (!lstatSync(path).isSocket() || (await isAlive(path))) return false;
    const aside = `${path}.${process.pid}`;
    renameSync(path, aside);
    if (await isAlive(aside)) {
      renameSync(aside, path);
      return false;
    }
    unlinkSync(aside);
    return true;
  } catch {
    return false;
  }
}

/** Resolves with true unless the system reports that no process listens on the socket. */
function isAlive(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ path });
    const timer = setTimeout(() => answer(true), PROBE_MS);
    const answer = (alive: boolean): void => {
      clearTimeout(timer);
      socket.destroy();
      resolve(alive);
    };
    socket.once('connect', () => answer(true));
    socket.on('error', (error: NodeJS.ErrnoException) =>
      answer(error.code !== 'ECONNREFUSED' && error.code !== 'ENOENT'),
    );
  });
}
