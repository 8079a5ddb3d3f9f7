/**
 * `agent.env.check` of environments of Python: every rule finds its fault there, and the verdict of Gymnasium's own checker is
 * the one in the table of docs/environments.md.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { gymKinds } from '../../../../src/capabilities/env/bridge/gym-environment.ts';
import type { GymnasiumVerdict } from '../../../../src/capabilities/env/check/findings.ts';
import { envPlugin } from '../../../../src/capabilities/env/plugin.ts';
import { connect } from '../../../../src/connect.ts';
import { createHost } from '../../../../src/host/host.ts';
import { setVariable } from '../../../support/variable.ts';
import { gymPython, skip } from '../gym-python.ts';

const FIXTURES = join(import.meta.dirname, '../fixtures');
const PAGE = join(import.meta.dirname, '../../../../docs/environments.md');

/** Returns the word for the verdict in a row of the table. */
const wordOf = ({ problem, warnings }: GymnasiumVerdict): string => {
  if (problem !== null) return 'finds it';
  return warnings.length > 0 ? 'warns' : 'passes it';
};

describe('a check of an environment of Python', { skip }, () => {
  test('finds every fault and nothing else; the page says what Gymnasium finds of it', async (t) => {
    setVariable(t, 'PYTHONPATH', FIXTURES);
    const python = gymPython();
    const program = join(FIXTURES, 'broken_environments.py');
    const faults = JSON.parse(execFileSync(python, [program], { encoding: 'utf8' })) as Record<string, string | null>;
    const names = Object.keys(faults);
    assert.ok(names.length > 25);
    const kinds = gymKinds(
      names.map((name) => ({ name: `${name}-v0`, module: 'broken_environments', python })),
      { maxProcesses: 4, replyMs: 120_000 },
    );
    const host = createHost({ plugins: [envPlugin({ environments: kinds })] });
    await host.start();
    t.after(() => host.close());
    const agent = await connect(host, { capabilities: ['env'] });
    t.after(() => agent.close());
    const rows: string[] = [];
    for (const [name, rule] of Object.entries(faults)) {
      const { findings, gymnasium } = await agent.env.check(`gym/${name}-v0`, { steps: 60 }, { timeoutMs: 240_000 });
      const found = findings.map((each) => each.rule);
      if (rule === null) {
        assert.deepEqual([found, gymnasium], [[], { problem: null, warnings: [] }]);
        continue;
      }
      // One fixture has both faults of Gymnasium's issue 1681.
      assert.deepEqual(found, name === 'ReusesAndRandom' ? ['reuse', 'same-seed'] : [rule], name);
      rows.push(`| \`${rule}\` | \`${name}\` | ${wordOf(gymnasium as GymnasiumVerdict)} |`);
    }
    const page = readFileSync(PAGE, 'utf8');
    for (const row of rows) assert.ok(page.includes(row), `docs/environments.md has no row\n${rows.join('\n')}`);
  });

  test('needs one process, and finds what differs between two where there may be two', async (t) => {
    setVariable(t, 'PYTHONPATH', FIXTURES);
    for (const [maxProcesses, expected] of [
      [1, []],
      [2, ['other-process']],
    ] as const) {
      const options = { name: 'HashOfAText-v0', module: 'broken_environments', python: gymPython() };
      const host = createHost({
        plugins: [envPlugin({ environments: gymKinds([options], { maxProcesses, replyMs: 60_000 }) })],
      });
      await host.start();
      t.after(() => host.close());
      const agent = await connect(host, { capabilities: ['env'] });
      t.after(() => agent.close());
      const { findings } = await agent.env.check('gym/HashOfAText-v0', { steps: 20 });
      assert.deepEqual(
        findings.map(({ rule }) => rule),
        expected,
      );
    }
  });

  test('ends with its process, and is refused to a principal that may not use the environment', async (t) => {
    setVariable(t, 'PYTHONPATH', FIXTURES);
    const kinds = gymKinds([{ name: 'OddHangs-v0', module: 'odd_environments', python: gymPython() }], {
      maxProcesses: 2,
      replyMs: 3000,
    });
    const host = createHost({ plugins: [envPlugin({ environments: kinds })] });
    await host.start();
    t.after(() => host.close());
    const agent = await connect(host, { capabilities: ['env'] });
    t.after(() => agent.close());
    await assert.rejects(
      agent.env.check('gym/OddHangs-v0'),
      (error: { detail: { reason: string } }) => error.detail.reason === 'environment_timeout',
    );
    // Its processes have ended: the limit of two allows the next one.
    await (await agent.env.reset('gym/OddHangs-v0')).close();
  });
});
