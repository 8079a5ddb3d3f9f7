/** `handfast learning …` as users have it: a host without any configuration, and commands. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { User } from '../../cli/command.ts';

const user = new User();
before(async () => {
  await user.up();
});
after(() => user.leave());

const json = (...words: string[]) => user.json(['learning', ...words]);

test('decisions are rewarded, shown, recommended, estimated and deleted from the command line', async () => {
  for (const reward of ['1', '0.5']) {
    const decided = await json('decide', 'search', 'lexical', 'hybrid', '--policy', 'ucb1,explore=0.2', '--seed', 'a');
    assert.deepEqual(Object.keys(decided), ['experience_id', 'option', 'propensity', 'probabilities', 'policy']);
    assert.deepEqual(await json('reward', decided.experience_id, reward), { rewarded: true });
  }
  const { code, stdout, stderr } = await user.run(['learning', 'stats']);
  assert.deepEqual([code, stderr], [0, '']);
  assert.match(stdout, /^component +calls/m);
  assert.match(stdout, /^search: ucb1, 2 decisions, 2 rewarded, 0 pending, 0 missing, 0 late$/m);
  const adapted = await user.run(['learning', 'adapt', 'search']);
  assert.match(adapted.stdout, /^search: (lexical|hybrid) \(confidence 0\.\d{3}\)\n {2}why: /);
  assert.match(adapted.stdout, /policy that ran: ucb1\(explore=0\.2\)/);
  assert.match(adapted.stderr, /^ppo was not run: /);
  const evaluated = await json('evaluate', 'search', '--option', 'hybrid');
  assert.deepEqual(
    evaluated.estimates.map(({ estimator }: { estimator: string }) => estimator),
    ['ips', 'snips', 'dr'],
  );
  const mistyped = await user.failure(['learning', 'evaluate', 'search', '--option', 'hybird']);
  assert.equal(mistyped.message, 'no decision in the log offered the option "hybird"; did you mean "hybrid"?');
  assert.equal((await json('stats', '--agent', 'another')).choices.length, 0);
  assert.deepEqual(await json('forget', 'search'), { forgotten: true });
});

test('a refinement is applied, listed and rolled back', async () => {
  const applied = await json('apply', '{"path":"router.weights.grep","new_value":0.7}');
  assert.deepEqual([applied.applied_edits, applied.failed_edits], [1, 0]);
  const [entry] = await json('history');
  assert.equal(entry.refinement_id, applied.refinement_id);
  const back = await user.run(['learning', 'rollback', applied.refinement_id]);
  assert.deepEqual([back.code, back.stderr], [0, 'rolled back; 0 rewards since then are in the log only\n']);
  assert.equal((await user.run(['learning', 'rollback', 'none'])).code, 1);
});

test('stats shows what there is, and says it where there is nothing', async () => {
  const of = async (...words: string[]) => {
    const { code, stdout, stderr } = await user.run(['learning', ...words]);
    return [code, stdout, stderr];
  };
  const nobody = ['--agent', 'nobody'];
  assert.deepEqual(await of('stats', ...nobody), [
    0,
    '',
    'nothing was learned by the agent "nobody" yet; choose with: handfast learning decide <choice> <options...>\n',
  ]);
  await json('decide', 'lonely', 'one');
  const [, stdout, stderr] = await of('stats', 'one');
  assert.match(String(stdout), /^lonely: thompson_beta, 1 decision, 0 rewarded/);
  assert.equal(stderr, '');
  assert.match(
    String((await of('stats', 'unheard'))[2]),
    /^nothing was learned of "unheard" by this agent; all names: handfast learning stats$/m,
  );
  const [code, table, note] = await of('evaluate', 'lonely', '--option', 'one');
  assert.deepEqual([code, table], [0, '']);
  assert.match(String(note), /^there is nothing to estimate from: no decision in the log has a reward$/m);
});

test('a reward for no decision says what became of it, and is listed', async () => {
  assert.deepEqual((await user.run(['learning', 'experiences'])).stderr.split(';')[0], 'no experience was stored');
  const wrong = await user.run(['learning', 'reward', 'wrong-id', '1']);
  assert.equal(wrong.code, 1);
  assert.match(wrong.stderr, /^there is no decision "wrong-id": stored as an experience that no choice learns from/);
  const again = await user.run(['learning', 'reward', 'wrong-id', '1']);
  assert.match(again.stderr, /^"wrong-id" has its reward already; nothing was changed$/m);
  const [listed, ...more] = await json('experiences', '--limit', '5');
  assert.deepEqual([listed.experience_id, listed.reward, more.length], ['wrong-id', 1, 0]);
  const shown = await user.run(['learning', 'experiences']);
  assert.match(shown.stdout, /^experience +when +component +reward +action$/m);
  assert.match(shown.stdout, /^wrong-id +\d{4}-\d\d-\d\dT/m);
  assert.equal((await user.run(['learning', 'feedback'])).stderr, 'no feedback was recorded\n');
});

test('mistakes are named', async () => {
  const unknown = await user.failure(['learning', 'decide', 'a', 'b', '--policy', 'linucbb']);
  assert.deepEqual([unknown.exit, unknown.code], [2, 'usage']);
  assert.match(unknown.message, /^unknown policy "linucbb"; did you mean linucb\?/);
  assert.match(
    (await user.failure(['learning', 'reward', 'a', 'much'])).message,
    /^the reward must be a number, got "much"$/,
  );
  assert.match((await user.failure(['learning', 'apply', 'x'])).message, /^the proposal must be a JSON object/);
  assert.equal((await user.failure(['learning', 'evaluate', 'none', '--option', 'x'])).code, 'learning.unknown_choice');
  assert.equal((await user.failure(['learning', 'forget'])).code, 'usage');
  const parameter = await user.failure(['learning', 'decide', 'a', 'b', '--policy', 'linucb,alpa=1']);
  assert.match(parameter.message, /^unknown parameter of a policy "alpa"; did you mean alpha\?/);
  const strategy = await user.failure(['learning', 'adapt', '--strategy', 'ucb']);
  assert.match(strategy.message, /^--strategy: expected .*, got "ucb"; did you mean ucb1\?$/);
  const both = await user.failure(['learning', 'evaluate', 'search']);
  assert.deepEqual([both.exit, both.message], [2, 'name what to estimate: --option or --policy, one of them']);
  const limit = await user.failure(['learning', 'experiences', '--limit', '1.5']);
  assert.equal(limit.message, '--limit: expected a whole number from 1, got "1.5"');
});
