/**
 * Entry of the process that starts others for a host: a start copies the page tables of the process that asks for it,
 * and this one is small. Reads requests on descriptor 3 and reports their outcome there. Each child gets three sockets
 * of the host as descriptors 1 to 3.
 *
 * When the host ends, however it ends, all children are killed. This process uses only modules of Node, so that it
 * starts soon.
 */
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { connect, Socket } from 'node:net';
import { setPriority } from 'node:os';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';

/** The first line of the host. */
export interface LaunchSettings {
  /** Path of the host's socket, in a folder made for it, which is removed with this process. */
  readonly path: string;
  /** Niceness of this process and of the programs it starts. */
  readonly priority: number;
}

/** A request of the host, in each later line. */
export interface LaunchRequest {
  readonly id: number;
  readonly argv: readonly [string, ...string[]];
  readonly cwd?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  /**
   * Token that the first line of each socket of this child begins with, before the number of the descriptor and a line
   * break.
   */
  readonly token: string;
}

/** A report of the launcher: the child runs, cannot be started, or has ended. */
export type LaunchReport =
  | { readonly id: number; readonly pid: number }
  | { readonly id: number; readonly error: string; readonly code: string | undefined }
  | { readonly id: number; readonly exit: { readonly code: number | null; readonly signal: NodeJS.Signals | null } };

let path: string | undefined;
/** Groups of the children that run. */
const groups = new Set<number>();
const host = new Socket({ fd: 3, readable: true, writable: true });
const say = (report: LaunchReport): void => void host.write(`${JSON.stringify(report)}\n`);

/** Opens a socket that the host identifies by its first line. Nothing is read from it here. */
function joined(line: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ path: path as string });
    socket.pause();
    socket.once('error', reject);
    socket.once('connect', () => socket.write(line, () => resolve(socket)));
  });
}

async function launch({ id, argv: [program, ...args], cwd, env, token }: LaunchRequest): Promise<void> {
  const sockets = await Promise.all([1, 2, 3].map((descriptor) => joined(`${token}${descriptor}\n`)));
  try {
    const child = spawn(program, args, {
      ...(cwd !== undefined && { cwd }),
      env,
      stdio: ['ignore', ...sockets],
      detached: true,
    });
    const { pid } = child;
    child.once('error', ({ message, code }: NodeJS.ErrnoException) => say({ id, error: message, code }));
    if (pid === undefined) return;
    groups.add(pid);
    say({ id, pid });
    child.once('exit', (code, signal) => {
      groups.delete(pid);
      say({ id, exit: { code, signal } });
    });
  } finally {
    // The child has its own descriptors of them.
    for (const socket of sockets) socket.destroy();
  }
}

function end(): void {
  for (const group of groups) {
    try {
      process.kill(-group, 'SIGKILL');
    } catch {
      // The process has ended.
    }
  }
  if (path !== undefined) rmSync(dirname(path), { recursive: true, force: true });
  process.kill(process.pid, 'SIGKILL');
}

const requests = createInterface({ input: host });
// The host ended with reports that it had not read.
requests.on('error', end);
requests.on('line', (line) => {
  if (path === undefined) {
    const settings = JSON.parse(line) as LaunchSettings;
    path = settings.path;
    // Programs that start here inherit the niceness.
    setPriority(0, settings.priority);
    return;
  }
  const request = JSON.parse(line) as LaunchRequest;
  launch(request).catch(({ message, code }: NodeJS.ErrnoException) => say({ id: request.id, error: message, code }));
});
host.on('end', end);
host.on('error', end);
