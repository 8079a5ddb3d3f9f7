/**
 * The vectors of token accounting: recorded outputs of programs, as their adapters read them, and their sums.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { claudeCli } from '../../src/fleet/executors/programs/claude.ts';
import type { Cli } from '../../src/fleet/executors/programs/cli.ts';
import { codexCli } from '../../src/fleet/executors/programs/codex.ts';
import { opencodeCli } from '../../src/fleet/executors/programs/opencode.ts';
import { tokensSpent } from '../../src/fleet/executors/usage.ts';
import { fakeContext, taskOf } from './executors/fake-context.ts';

const folder = join(import.meta.dirname, '..', 'vectors', 'fleet');
const files = readdirSync(folder).filter((name) => name.startsWith('usage.'));
const adapters: Readonly<Record<string, Cli>> = {
  claude: claudeCli({ kind: 'claude' }),
  codex: codexCli({ kind: 'codex' }),
  opencode: opencodeCli({ kind: 'opencode' }),
};

test('there are vectors of token accounting', () => assert.ok(files.length >= 6));

for (const name of files) {
  test(`usage vector ${name}`, async () => {
    const { input, expect } = JSON.parse(readFileSync(join(folder, name), 'utf8'));
    const { executor, stdout, previous_cumulative: counters } = input;
    const conversation = counters ? { session: 'th', counters } : undefined;
    const turn = { task: taskOf('x'), prompt: 'x', cwd: '/', conversation, extra: [], usesFolder: true };
    const reader = await (adapters[executor] as Cli).read(turn, fakeContext('/').events);
    for (const line of stdout.split('\n')) reader.line(line);
    const end = { code: 0, killedBy: null, stdout, truncated: false, stderr: '', timedOut: false };
    const { usage } = await reader.finish(end, false);
    const { source, cost_usd: _, ...breakdown } = usage;
    const told = { source, tokens_spent: tokensSpent(usage), ...(source !== 'unknown' && { breakdown }) };
    assert.deepEqual(told, expect);
  });
}
