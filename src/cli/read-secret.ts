/**
 * Reads a secret at a terminal without showing it.
 */
import { createInterface } from 'node:readline/promises';
import { Writable } from 'node:stream';
import { fail } from '../wire/errors.ts';

/** Shows the prompt on stderr and reads a line. Fails with `cancelled` on Ctrl-C and at the end of the input. */
export async function readSecret(prompt: string): Promise<string> {
  process.stderr.write(prompt);
  // The line editor echoes typed text to its output: this one drops it.
  const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
  const reader = createInterface({ input: process.stdin, output: nowhere, terminal: true });
  const ended = new AbortController();
  reader.once('close', () => ended.abort());
  reader.once('SIGINT', () => reader.close());
  try {
    return await reader.question('', { signal: ended.signal });
  } catch (cause) {
    throw fail('cancelled', 'no key was typed', {}, cause);
  } finally {
    reader.close();
    process.stderr.write('\n');
  }
}
