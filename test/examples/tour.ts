/**
 * The tour as a child process, and its lines in the README.
 *
 * For the tests of the tour and of its recording.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { root } from '../rules/scan.ts';

/** Far above its duration, in milliseconds; a tour that hangs is ended. */
export const PATIENCE_MS = 180_000;

/** Returns a pattern for the text itself. */
const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const [, text = ''] = /\$ KILL=7 node -C handfast-source examples\/tour\.ts\n(.*?)\n```/s.exec(readme) ?? [];

/** The lines of the README: `…` stands for any text. */
export const shown = text.split('\n').map((line) => new RegExp(`^${line.split('…').map(literal).join('.+')}$`));
/** Index of the line that reports that the host was killed. */
export const killed = shown.findIndex((line) =>
  line.test('the host was killed, and is up again; the session continues'),
);

/** Returns the expected output with the host killed before a step; 0: never. */
export function expected(kill = 0): RegExp[] {
  const steps = shown.filter((_, at) => at !== killed);
  return kill === 0 ? steps : steps.toSpliced(kill, 0, shown[killed] as RegExp);
}

/** Runs the tour and gives the lines it printed. */
export async function tour(env: Readonly<Record<string, string | undefined>>, cwd = root): Promise<string[]> {
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ['-C', 'handfast-source', join(root, 'examples/tour.ts')],
    { cwd, env, timeout: PATIENCE_MS, killSignal: 'SIGKILL' },
  );
  assert.equal(stderr, '');
  return stdout.trimEnd().split('\n');
}

/** Asserts that each line matches its pattern, and that no other lines exist. */
export function assertPrinted(printed: readonly string[], wanted: readonly RegExp[]): void {
  for (const [at, line] of wanted.entries()) assert.match(printed[at] ?? '', line, printed.join('\n'));
  assert.equal(printed.length, wanted.length, printed.join('\n'));
}
