/**
 * A small process beside this one that outlives it by a moment: a shell that holds the reading end of a pipe. When this
 * process ends, however it ends, the pipe closes; if a process of its children remains, the shell turns into the Node
 * process that ends it. Until then its only cost is one megabyte.
 *
 * It starts with the first child. It leads its own session, so signals to a terminal or to the group of this process do
 * not reach it, and it has no other file of this process open.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { compiledCode } from '../compiled-code.ts';
import { nodeProgram } from '../node-program.ts';
import { inheritNoTerminal } from '../pseudo-terminal.ts';

/** Program that runs the script. */
export const WATCHER_SHELL = '/bin/sh';

/** Arguments: record, marker, then the command line that ends the remaining processes. */
const SCRIPT = `
trap '' HUP INT QUIT TERM
record=$1 marker=$2
shift 2
while read -r _; do :; done
# After an end in good order there is no record. A process that left its group may remain.
if [ ! -e "$record" ] && [ -r /proc/self/environ ]; then
  found=$(grep -lsF -e "$marker" /proc/[0-9]*/environ)
  [ $? -gt 2 ] || [ -n "$found" ] || exit 0
fi
exec "$@"
`;

/** Runs \`reap\` of \`record.ts\`. */
const REAP =
  'const [url, file, marker, since] = process.argv.slice(1); await (await import(url)).reap(file, marker, +since);';

export interface WatcherOptions {
  /** Path of the record; '' when it could not be written. */
  readonly record: string;
  readonly marker: string;
  /** Start of this process. */
  readonly since: number;
}

/**
 * Starts the watcher. `onEnd` is called once when it has ended, or could not be started, then with the reason. Throws where the system
 * refuses the start at once.
 */
export function startWatcher({ record, marker, since }: WatcherOptions, onEnd: (failed?: Error) => void): ChildProcess {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  const module = new URL(`./record${extension}`, import.meta.url).href;
  const node = [...nodeProgram('--input-type=module'), '-e', REAP, '--', module, record, marker, String(since)];
  const watcher = spawn(WATCHER_SHELL, ['-c', SCRIPT, 'handfast-watcher', record, marker, ...node], {
    // In its environment the marker would make it a child to be ended.
    env: { PATH: process.env.PATH ?? '/usr/bin:/bin', ...compiledCode() },
    // Prevents that it keeps a folder from being unmounted.
    cwd: '/',
    stdio: inheritNoTerminal(['pipe', 'ignore', 'ignore'] as const),
    detached: true,
  });
  watcher.once('error', (error) => onEnd(error));
  watcher.once('exit', () => onEnd());
  watcher.stdin?.on('error', () => {});
  // The watcher must not keep this process open.
  (watcher.stdin as { unref?: () => void } | null)?.unref?.();
  watcher.unref();
  return watcher;
}
