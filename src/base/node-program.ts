/**
 * The start of Node by this host: the first words of each command line that starts it. With them a signal opens no
 * debugger, which each user of this machine could connect to.
 */

/** Returns Node's path, followed by its options. */
export const nodeProgram = (...options: readonly string[]): readonly [string, ...string[]] => [
  process.execPath,
  NO_DEBUGGER,
  ...options,
];

/** Node opens no debugger at SIGUSR1. */
export const NO_DEBUGGER = '--disable-sigusr1';

/**
 * Makes SIGUSR1 open no debugger in this process from now on. The process may have been started without
 * {@link NO_DEBUGGER}: as a program, or inside the program of a user. Must run before the first child is started, which
 * could send the signal.
 */
export function refuseDebuggerSignal(): void {
  if (isRefused || process.platform === 'win32') return;
  isRefused = true;
  process.on('SIGUSR1', () => {});
}

let isRefused = false;
