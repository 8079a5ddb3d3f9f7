/**
 * The learning API of the A2E Python SDK against Handfast's host. The SDK's unchanged `LearnAPI` cannot be constructed,
 * so the same calls are shown by raw messages, and by its own methods once the name that its module forgot to import
 * exists.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { learningPlugin } from '../../src/capabilities/learning/plugin.ts';
import { connect } from '../../src/connect.ts';
import { createHost } from '../../src/host/host.ts';
import { httpServer } from '../../src/server/http/http.ts';
import { createAuthenticator, tokenDigest } from '../../src/session/auth.ts';
import { httpSseEndpoint } from '../../src/transport/http/http-sse.ts';
import { commandOf, skip, start } from './python-sdk.ts';

const TOKEN = 'interop-secret';

test('a Python agent rewards a decision, gives feedback, adapts, and refines', { skip, timeout: 300_000 }, async () => {
  const auth = createAuthenticator([{ principal: { name: 'python', admin: true }, digests: [tokenDigest(TOKEN)] }]);
  const host = createHost({ plugins: [learningPlugin()], auth });
  await host.start();
  const accept = (link: Parameters<typeof host.accept>[0]) => host.accept(link);
  const server = await httpServer({ endpoint: httpSseEndpoint({ accept }) });
  try {
    await using ours = await connect(host, { capabilities: ['learning'], token: TOKEN, agentId: 'learner' });
    const { experienceId } = await ours.learning.decide('search', ['hybrid']);
    const program = start(commandOf('python-learning.py', server.address, TOKEN, experienceId));
    const steps = new Map(
      (await program.rest()).map((line) => {
        const { step, ...outcome } = JSON.parse(line);
        return [step as string, outcome];
      }),
    );
    assert.equal(program.child.exitCode, 0, program.stderr());
    const value = (name: string) => {
      const outcome = steps.get(name);
      assert.equal(outcome?.ok, true, `${name}: ${JSON.stringify(outcome)}`);
      return outcome.value;
    };
    value('connect');
    assert.deepEqual([steps.get('as it is')?.error, steps.get('as it is')?.ok], ['NameError', false]);
    assert.deepEqual(value('raw stats'), []);
    assert.equal(value('raw reward'), 1);
    assert.deepEqual([value('feedback').recorded, value('feedback').new_score], [1, 0.5]);
    assert.deepEqual(
      value('stats').map((record: { component_name: string; calls_total: number }) => [
        record.component_name,
        record.calls_total,
      ]),
      [
        ['hybrid', 1],
        ['skill-2', 0],
      ],
    );
    assert.equal(value('adapt')[0].component_name, 'hybrid');
    assert.equal(value('plan').status, 'empty');
    assert.deepEqual(Object.keys(value('review')), ['approved', 'confidence_adjusted', 'reasons', 'risk_level']);
    assert.deepEqual([value('apply').applied_edits, value('apply').rollback_available], [1, true]);
    assert.deepEqual([value('rollback').rolled_back, value('rollback').error], [true, '']);
    assert.equal(value('history').entries.length, 1);
    // The agent of the same name learned from Python's rewards.
    const [choice] = (await ours.learning.stats('hybrid')).choices;
    assert.deepEqual([choice?.rewarded, choice?.pending], [1, 0]);
  } finally {
    await server.close();
    await host.close(0);
  }
});
