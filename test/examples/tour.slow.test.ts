/**
 * The tour of every capability: on each transport it prints what the README shows, and with a kill of the host between any two of its
 * steps too. What it claims it also asserts itself.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { temporaryFolder } from '../host/temporary-folder.ts';
import { root } from '../rules/scan.ts';

/** Far above what it takes; one that hangs is ended. */
const PATIENCE_MS = 180_000;
const STEPS = 11;

/** A pattern for the text itself. */
const literal = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');

const readme = readFileSync(join(root, 'README.md'), 'utf8');
const [, shown = ''] = /\$ KILL=7 node -C handfast-source examples\/tour\.ts\n(.*?)\n```/s.exec(readme) ?? [];
/** The lines of the README: `…` stands for anything. */
const lines = shown.split('\n').map((line) => new RegExp(`^${line.split('…').map(literal).join('.+')}$`));
const killed = lines.findIndex((line) => line.test('the host was killed, and is up again; the session continues'));

/** What is printed with the host killed before a step; 0: never. */
const expected = (kill: number): RegExp[] => {
  const steps = lines.filter((_, at) => at !== killed);
  return kill === 0 ? steps : steps.toSpliced(kill, 0, lines[killed] as RegExp);
};

async function tour(home: string, transport: string, kill = 0): Promise<string[]> {
  const { PATH, NODE_COMPILE_CACHE } = process.env;
  const { stdout, stderr } = await promisify(execFile)(
    process.execPath,
    ['-C', 'handfast-source', 'examples/tour.ts'],
    {
      cwd: root,
      env: { PATH, NODE_COMPILE_CACHE, HOME: home, HANDFAST_KEYRING: 'off', TRANSPORT: transport, KILL: String(kill) },
      timeout: PATIENCE_MS,
      killSignal: 'SIGKILL',
    },
  );
  assert.equal(stderr, '');
  return stdout.trimEnd().split('\n');
}

function assertPrinted(printed: readonly string[], wanted: readonly RegExp[]): void {
  for (const [at, line] of wanted.entries()) assert.match(printed[at] ?? '', line, printed.join('\n'));
  assert.equal(printed.length, wanted.length, printed.join('\n'));
}

test('the README shows the tour with a kill', () => {
  assert.equal(lines.length, STEPS + 3);
  assert.equal(killed, 7);
});

for (const transport of ['unix', 'tcp', 'http', 'ws', 'stdio']) {
  test(`the tour over ${transport}`, { timeout: PATIENCE_MS }, async (t) => {
    assertPrinted(await tour(temporaryFolder(t), transport), expected(0));
  });
}

for (let kill = 1; kill <= STEPS + 1; kill++) {
  test(`the tour with the host killed before step ${kill}`, { timeout: PATIENCE_MS }, async (t) => {
    assertPrinted(await tour(temporaryFolder(t), kill % 2 === 0 ? 'unix' : 'http', kill), expected(kill));
  });
}

test('the tour on pipes, with another host between two steps', { timeout: PATIENCE_MS }, async (t) => {
  const printed = await tour(temporaryFolder(t), 'stdio', 8);
  assert.equal(printed[8], 'the host ended, and is up again');
  assertPrinted(printed.toSpliced(8, 1), expected(0));
});
