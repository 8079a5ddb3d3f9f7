/**
 * How this host starts Node: the first words of each command line that starts it. With them a signal opens no debugger, which each
 * user of this machine could connect to. Called by all that start one.
 */

/** Node itself, and its options behind it. */
export const nodeProgram = (...options: readonly string[]): readonly [string, ...string[]] => [
  process.execPath,
  NO_DEBUGGER,
  ...options,
];

/** Node opens no debugger at SIGUSR1. */
export const NO_DEBUGGER = '--disable-sigusr1';

/**
 * From now on SIGUSR1 opens no debugger in this process, which may have been started without {@link NO_DEBUGGER}: as a program, or inside
 * the program of a user. Called before the first child is started, which could send the signal.
 */
export function refuseDebuggerSignal(): void {
  if (isRefused || process.platform === 'win32') return;
  isRefused = true;
  process.on('SIGUSR1', () => {});
}

let isRefused = false;
