/**
 * Whether a command-line agent could work: installed, which version, signed in. Starts no turn. Called by
 * `program-executor.ts`; the worker caches the result.
 */
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { type ProgramEnd, runProgram } from '../../../base/program.ts';
import type { Readiness } from '../executor.ts';
import { type Cli, summaryOfStderr } from './cli.ts';

/** For everything together; with the time to end what hangs it stays under three seconds. */
const PROBE_MS = 2200;
const TERMINATE_MS = 100;

/** Finds the program and asks it, at the same time, for its version and whether a user is signed in. Never rejects. */
export async function probeProgram(
  cli: Cli,
  program: string,
  env: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Readiness> {
  const file = findProgram(program, env.PATH ?? '');
  if (file === undefined) return { present: false, detail: `${program} is not in PATH` };
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
      detail: `${program} does not run: ${summaryOfStderr(versionEnd.stderr) || `exit code ${versionEnd.code}`}`,
    };
  }
  const version = versionOf(versionEnd?.stdout ?? '');
  const hint = cli.signIn === undefined ? '' : ` (${cli.signIn})`;
  const detail = authenticated === false ? `nobody is signed in to ${cli.kind}${hint}` : (version ?? file);
  return {
    present: true,
    ...(authenticated !== undefined && { authenticated }),
    detail,
    ...(version !== undefined && { version }),
  };
}

/** The file a program's name stands for; undefined when there is none that can be run. */
export function findProgram(program: string, path: string): string | undefined {
  const places = program.includes('/') ? [program] : path.split(delimiter).map((folder) => join(folder, program));
  return places.find((place) => {
    try {
      accessSync(place, constants.X_OK);
      return statSync(place).isFile();
    } catch {
      return false;
    }
  });
}

/** The version in the first line of what was printed. */
function versionOf(stdout: string): string | undefined {
  const line = stripVTControlCharacters(stdout).trim().split('\n', 1)[0] ?? '';
  return /\d+(?:\.\d+)+[\w.+-]*/.exec(line)?.[0];
}
