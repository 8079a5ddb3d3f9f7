/**
 * Passes a prompt as one argument of a program.
 *
 * Linux accepts at most 128 KiB in one argument, and a brief may be longer. A longer prompt is written to a file, and the
 * argument tells the agent to read it. A prompt is never truncated.
 */
import { randomBytes } from 'node:crypto';
import { mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fail } from '../../../wire/errors.ts';

const MAX_ARGUMENT_BYTES = 120_000;

/**
 * Calls `run` with the prompt as an argument. Removes the file afterwards, if one was needed.
 *
 * @throws schema_violation for a prompt with a NUL character, which no argument can contain
 */
export async function withPrompt<Result>(
  prompt: string,
  folder: string,
  run: (argument: string, asFile: boolean) => Promise<Result>,
): Promise<Result> {
  if (prompt.includes('\0')) throw fail('schema_violation', 'the prompt contains a NUL character; remove it');
  if (Buffer.byteLength(prompt) <= MAX_ARGUMENT_BYTES) {
    // A brief is data: the program must not read it as a flag.
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
