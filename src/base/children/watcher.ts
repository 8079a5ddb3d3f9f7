/**
 * A small process beside this one that outlives it by a moment: a shell that holds the reading end of a pipe. When this
 * process ends, however it ends, the pipe closes; if anything of its children is left, the shell turns into the Node
 * process that ends it. Until then it costs one megabyte and nothing else.
 *
 * Started by `own-children.ts` with the first child. It is in a session of its own, so signals to a terminal or to our group
 * do not reach it, and it has no other file of ours open.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { compiledCode } from '../compiled-code.ts';
import { nodeProgram } from '../node-program.ts';
import { inheritNoTerminal } from '../pseudo-terminal.ts';

/** What runs the script. */
export const WATCHER_SHELL = '/bin/sh';

/** Arguments: record, marker, then the command line that ends what is left. */
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
    // So that it keeps no folder from being unmounted.
    cwd: '/',
    stdio: inheritNoTerminal(['pipe', 'ignore', 'ignore'] as const),
    detached: true,
  });
  watcher.once('error', (error) => onEnd(error));
  watcher.once('exit', () => onEnd());
  watcher.stdin?.on('error', () => {});
  // It must not keep this process open.
  (watcher.stdin as { unref?: () => void } | null)?.unref?.();
  watcher.unref();
  return watcher;
}
