/**
 * A prompt as one argument of a program. Called by `program-executor.ts`.
 *
 * Linux takes at most 128 KiB in one argument, and a brief may be longer; what does not fit is written to a file the agent is
 * told to read. It is never cut.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fail } from '../../../wire/errors.ts';

const MAX_ARGUMENT_BYTES = 120_000;

/**
 * Calls `run` with the prompt as it can be an argument. A file that was needed is removed afterwards.
 *
 * @throws schema_violation for a prompt that no argument can hold
 */
export async function withPrompt<Result>(
  prompt: string,
  folder: string,
  run: (argument: string, asFile: boolean) => Promise<Result>,
): Promise<Result> {
  if (prompt.includes('\0')) throw fail('schema_violation', 'a prompt for a program may not hold a NUL character');
  if (Buffer.byteLength(prompt) <= MAX_ARGUMENT_BYTES) {
    // A brief is data: it must not be read as a flag.
    return run(prompt.startsWith('-') ? ` ${prompt}` : prompt, false);
  }
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const file = join(folder, `${randomBytes(8).toString('hex')}.md`);
  try {
    await writeFile(file, prompt, { mode: 0o600, flag: 'wx' });
    return await run(`Your whole task is in the file ${file}. Read all of it first, then do what it says.`, true);
  } finally {
    await rm(file, { force: true });
  }
}
