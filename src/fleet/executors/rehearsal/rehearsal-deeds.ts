/** The side effects of the rehearsal executor: reads and writes files below the working directory, and runs commands there. */
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import { programEnvironment, startProgram } from '../../../base/program.ts';
import { readFlags } from '../../../base/workspace/held-directory.ts';
import { locate } from '../../../base/workspace/workspace-path.ts';
import { fail } from '../../../wire/errors.ts';

/** The folder in which the directives run, and the signal that stops them. */
export interface Deeds {
  /** Absolute. */
  readonly cwd: string;
  /** The task may only read. */
  readonly readOnly: boolean;
  readonly signal: AbortSignal;
  readonly started: (pid: number) => void;
}

const MAX_READ_BYTES = 256 * 1024;
const MAX_OUTPUT_BYTES = 64 * 1024;
const TERMINATE_MS = 2000;

/** Returns the text of a file. @throws tool_error if it is not a file or too large; tool_denied outside of the directory */
export async function readText({ cwd }: Deeds, path: string): Promise<string> {
  await using place = await locate(cwd, path);
  if (place.kind !== 'file')
    throw fail('tool_error', `${path} ${place.kind === 'missing' ? 'does not exist' : 'is not a file'}`);
  if ((place.stats?.size ?? 0) > MAX_READ_BYTES) throw fail('tool_error', `${path} exceeds ${MAX_READ_BYTES} bytes`);
  await using handle = await open(place.parent.at(place.name), readFlags);
  return handle.readFile('utf8');
}

/** Replaces the text of a file; returns its path relative to the directory. @throws as {@link readText} */
export const writeText = (deeds: Deeds, path: string, text: string): Promise<string> =>
  put(deeds, path, text, constants.O_TRUNC);

/** Appends a text to a file; returns its path relative to the directory. @throws as {@link readText} */
export const appendText = (deeds: Deeds, path: string, text: string): Promise<string> =>
  put(deeds, path, text, constants.O_APPEND);

async function put({ cwd, readOnly }: Deeds, path: string, text: string, flag: number): Promise<string> {
  if (readOnly) throw fail('tool_denied', 'the task may only read');
  await using place = await locate(cwd, path, { createDirectories: true });
  if (place.kind !== 'file' && place.kind !== 'missing') throw fail('tool_error', `${path} is not a file`);
  const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_NOFOLLOW | flag;
  await using handle = await open(place.parent.at(place.name), flags, 0o666);
  await handle.writeFile(text);
  return place.path;
}

/** Runs a command line in the shell; returns its stdout. @throws tool_error when it fails */
export async function runCommand(deeds: Deeds, command: string): Promise<string> {
  const { cwd, readOnly, signal, started } = deeds;
  if (readOnly) throw fail('tool_denied', 'the task may only read');
  const program = await startProgram({
    argv: ['/bin/sh', '-c', command],
    cwd,
    env: programEnvironment(),
    signal,
    terminateMs: TERMINATE_MS,
    maxStdoutBytes: MAX_OUTPUT_BYTES,
  });
  started(program.pid);
  const { code, stdout, stderr } = await program.ended;
  signal.throwIfAborted();
  if (code !== 0) throw fail('tool_error', `exit code ${code}: ${(stderr || stdout).trim().slice(-280)}`);
  return stdout.trimEnd();
}
