/**
 * Runs a program that the user sees and types into: it shares this process's terminal and its process group, so that
 * its keys reach it. Written text is its standard input.
 *
 * For example the pager, and `stty`.
 */
import { type ChildProcess, spawn } from 'node:child_process';

export interface TerminalProgram {
  /** Writes to its standard input; dropped once it has ended. */
  write(text: string): void;
  /** Ends its standard input and waits until the user has left it. Resolves with its exit code; null for a signal. */
  end(): Promise<number | null>;
}

/** Exit code of a program that could not be started, as shells have it. */
export const NOT_FOUND = 127;

/** Starts a user's command line, which a shell splits into words. */
export function startAtTerminal(line: string, env: Readonly<Record<string, string | undefined>>): TerminalProgram {
  const child: ChildProcess = spawn(line, { shell: true, env: { ...env }, stdio: ['pipe', 'inherit', 'inherit'] });
  const { promise: ended, resolve } = Promise.withResolvers<number | null>();
  child.once('error', () => resolve(NOT_FOUND));
  child.once('exit', (code) => resolve(code));
  // A user who leaves before the end has seen enough.
  child.stdin?.on('error', () => {});
  // Ctrl-C belongs to the program while it is on the screen.
  const ignore = (): void => {};
  process.on('SIGINT', ignore);
  void ended.then(() => process.removeListener('SIGINT', ignore));
  return {
    // Without a free descriptor no pipe exists.
    write: (text) => void (child.stdin?.writable && child.stdin.write(text)),
    end() {
      child.stdin?.end();
      return ended;
    },
  };
}
