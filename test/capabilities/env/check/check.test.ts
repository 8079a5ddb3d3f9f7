/** `env/check/req` and its parts: every rule finds its fault, and correct environments pass. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkEnvironment } from '../../../../src/capabilities/env/check/check.ts';
import { checkRules } from '../../../../src/capabilities/env/check/findings.ts';
import { envPlugin } from '../../../../src/capabilities/env/plugin.ts';
import { environmentKinds } from '../../../../src/capabilities/env/registry.ts';
import { connect } from '../../../../src/connect.ts';
import { createHost } from '../../../../src/host/host.ts';
import { createAuthenticator, tokenDigest } from '../../../../src/session/auth.ts';
import { programKind } from '../counter.ts';
import { brokenKinds, correct } from './broken.ts';

/** Rules of environments of Python alone. */
const OF_PYTHON = ['other-process', 'seed-argument', 'seed-unused', 'options-argument', 'gymnasium'];

describe('a check', () => {
  for (const [rule, kind] of brokenKinds) {
    test(`finds "${rule}" in ${kind.id}, and nothing that does not follow from it`, async () => {
      const { findings } = await checkEnvironment(kind);
      const found = findings.find((each) => each.rule === rule);
      assert.ok(found, JSON.stringify(findings));
      assert.ok(found.expected !== '' && found.mend !== '' && found.found !== '');
      // The array of one environment hides its other fault from a single inspection, so that both rules are broken.
      const others = findings.filter((each) => each.rule !== rule).map((each) => each.rule);
      assert.deepEqual(
        others,
        kind.id.endsWith('ReusesAndIgnoresSeeds') ? [rule === 'reuse' ? 'same-seed' : 'reuse'] : [],
      );
    });
  }

  test('finds nothing in a correct environment', async () => {
    assert.deepEqual((await checkEnvironment(correct)).findings, []);
  });

  test('has a broken environment for each of its rules', () => {
    const rules = new Set(brokenKinds.map(([rule]) => rule));
    assert.deepEqual(
      Object.keys(checkRules).filter((rule) => !rules.has(rule)),
      OF_PYTHON,
    );
  });

  for (const kind of environmentKinds) {
    test(`finds nothing in ${kind.id}`, async () => {
      assert.deepEqual((await checkEnvironment(kind, {}, { steps: 60 })).findings, []);
    });
  }

  test('is asked for over the wire: of environments that the principal may use, with steps and seeds in their bounds', async (t) => {
    const broken = new Map(brokenKinds.map(([, kind]) => [kind.id, kind]));
    const host = createHost({
      plugins: [envPlugin({ environments: [correct, ...broken.values(), programKind] })],
      auth: createAuthenticator([
        { principal: { name: 'plain', capabilities: ['env'] }, digests: [tokenDigest('token of plain')] },
      ]),
    });
    await host.start();
    t.after(() => host.close());
    const agent = await connect(host, { capabilities: ['env'], token: 'token of plain' });
    t.after(() => agent.close());
    assert.deepEqual(await agent.env.check(correct.id, { steps: 30 }), { findings: [] });
    const { findings } = await agent.env.check('broken/Reuses', { seed: 4, steps: 30 });
    assert.deepEqual(
      findings.map(({ rule, step }) => [rule, step]),
      [['reuse', 0]],
    );
    await assert.rejects(agent.env.check(programKind.id), { code: 'reset_denied' });
    await assert.rejects(agent.env.check('broken/Nonesuch'), { code: 'runtime_error' });
    await assert.rejects(agent.env.check(correct.id, { make: { wheels: 3 } }), { code: 'env.invalid_options' });
    for (const wrong of [{ steps: 0 }, { steps: 1001 }, { steps: 1.5 }, { seed: -1 }]) {
      await assert.rejects(agent.env.check(correct.id, wrong), { code: 'schema_violation' });
    }
  });

  test('ends with its signal', async () => {
    const signal = AbortSignal.timeout(1);
    await assert.rejects(checkEnvironment(correct, {}, { steps: 1000, signal }), { name: 'TimeoutError' });
  });
});
