/**
 * Probes whether a command-line agent can work: installed, version, signed in. Starts no turn; the worker caches the result.
 */
import { delimiter, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type ProgramEnd, runProgram } from '../../../base/program.ts';
import { isExecutable } from '../../../base/program-file.ts';
import type { Readiness } from '../executor.ts';
import { type Cli, summaryOfStderr } from './cli.ts';

/** Timeout of the whole probe, milliseconds; with the time to terminate a hung program it stays under three seconds. */
const PROBE_MS = 2200;
const TERMINATE_MS = 100;

/** Finds the program, and reads its version and its sign-in status concurrently. Never rejects. */
export async function probeProgram(
  cli: Cli,
  program: string,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Readiness> {
  const file = findProgram(program, env.PATH ?? '');
  if (file === undefined)
    return { present: false, detail: `${program} was not found in PATH; install it or set "command" to its path` };
  const bounded = AbortSignal.any([signal, AbortSignal.timeout(PROBE_MS)]);
  const run = async (...args: string[]): Promise<ProgramEnd | undefined> => {
    try {
      const end = await runProgram({
        argv: [file, ...args],
        cwd: '/',
        env,
        signal: bounded,
        terminateMs: TERMINATE_MS,
      });
      return bounded.aborted ? undefined : end;
    } catch {
      return undefined;
    }
  };
  const [versionEnd, authenticated] = await Promise.all([
    cli.version === undefined ? undefined : run(...cli.version),
    cli.authenticated?.(run, env).catch(() => undefined),
  ]);
  if (cli.version !== undefined && versionEnd !== undefined && versionEnd.code !== 0) {
    return {
      present: false,
      detail: `${program} ${(cli.version ?? []).join(' ')} failed: ${summaryOfStderr(versionEnd.stderr) || `exit code ${versionEnd.code}`}`,
    };
  }
  const version = versionOf(versionEnd?.stdout ?? '');
  const hint = cli.signIn === undefined ? '' : ` (${cli.signIn})`;
  const detail = authenticated === false ? `${cli.kind} is not signed in${hint}` : (version ?? file);
  return {
    present: true,
    ...(authenticated !== undefined && { authenticated }),
    detail,
    ...(version !== undefined && { version }),
  };
}

/** Returns the executable file of a program; undefined without one. */
export function findProgram(program: string, path: string): string | undefined {
  const places = program.includes('/') ? [program] : path.split(delimiter).map((folder) => join(folder, program));
  return places.find(isExecutable);
}

/** Returns the version in the first line of the output. */
function versionOf(stdout: string): string | undefined {
  const line = stripVTControlCharacters(stdout).trim().split('\n', 1)[0] ?? '';
  return /\d+(?:\.\d+)+[\w.+-]*/.exec(line)?.[0];
}
