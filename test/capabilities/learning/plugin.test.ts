/** The learning capability over a real host: every message, its effects, its refusals and its limits. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as requests from '../../../src/capabilities/learning/learning.generated.ts';
import * as replies from '../../../src/capabilities/learning/learning.replies.generated.ts';
import { rawAgent } from '../../support/raw-agent.ts';
import { agentOf, startHost } from './support.ts';

const vectors = readFileSync(join(import.meta.dirname, '../../vectors/a2e/learning.ndjson'), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line));
const checksOf = { ...requests, ...replies };
/** `learn/stats/req` → `LearnStatsReq`. */
const nameOf = (type: string) => type.replace(/(?:^|\/)(\w)/g, (_, letter: string) => letter.toUpperCase());

test('every golden line is valid by the published schema and by the validators', () => {
  const published = JSON.parse(readFileSync(join(import.meta.dirname, '../../../schema/learning.json'), 'utf8'));
  const ajv = new Ajv2020({ strict: true, allowUnionTypes: true });
  ajv.addSchema(published, 'learning');
  for (const line of vectors) {
    const name = nameOf(line.type);
    assert.ok(ajv.validate({ $ref: `learning#/$defs/${name}` }, line), `${name}: ${ajv.errorsText()}`);
    const check = (checksOf as Record<string, (message: unknown) => boolean>)[name];
    assert.ok(check?.(line), name);
  }
});

test('every request of the golden lines is answered in the right form', async () => {
  const agent = rawAgent(await startHost());
  await agent.shake({ agent_caps: ['learning'], auth_token: 'p' });
  const sent = vectors.filter(({ type }) => type.endsWith('/req'));
  assert.equal(sent.length, 18);
  for (const request of sent) {
    agent.send(request);
    const answer = await agent.answer(request.id);
    assert.equal(answer.type, request.type.replace(/req$/, 'resp'), JSON.stringify(answer));
    const name = nameOf(String(answer.type));
    const check = (checksOf as Record<string, (message: unknown) => boolean>)[name];
    assert.ok(check?.(answer), `${name}: ${JSON.stringify(answer)}`);
  }
});

test('the SDK may leave out fields that have defaults, and calls learning "learn"', async () => {
  const agent = rawAgent(await startHost());
  const shaken = await agent.shake({ agent_caps: ['learn'], auth_token: 'p' });
  assert.equal((shaken.accepted_caps as { capability: string }[])[0]?.capability, 'learning');
  for (const type of ['experience', 'adapt', 'stats', 'refinement/plan', 'refinement/apply', 'refinement/history']) {
    agent.send({ type: `learn/${type}/req`, id: type });
    assert.equal((await agent.answer(type)).type, `learn/${type}/resp`);
  }
});

test('decisions are learned from by their experience_id, and the propensity is logged', async () => {
  await using agent = await agentOf(await startHost());
  const counts = { good: 0, bad: 0 };
  for (let round = 0; round < 60; round++) {
    const decided = await agent.learning.decide('prompt', ['good', 'bad'], { seed: 4 });
    assert.equal(decided.propensity, decided.probabilities[decided.option]);
    counts[decided.option as 'good' | 'bad'] += 1;
    const reward = decided.option === 'good' ? 0.9 : 0.1;
    assert.equal(await agent.learning.reward(decided.experienceId, reward, { durationMs: 5 }), true);
  }
  assert.ok(counts.good > 45, JSON.stringify(counts));
  const { components, choices } = await agent.learning.stats('good');
  assert.deepEqual(
    components.map(({ component_name, calls_total, avg_duration_ms, p95_duration_ms }) => [
      component_name,
      calls_total,
      avg_duration_ms,
      p95_duration_ms,
    ]),
    [['good', counts.good, 5, 5]],
  );
  const [choice] = choices;
  assert.deepEqual([choice?.decisions, choice?.rewarded, choice?.pending, choice?.logged], [60, 60, 0, 60]);
  assert.deepEqual(
    choice?.options.map(({ option, rewards }) => [option, rewards]),
    [
      ['bad', counts.bad],
      ['good', counts.good],
    ],
  );
});

test('a request with the same experience_id gets the same decision, and a reward counts once', async () => {
  await using agent = await agentOf(await startHost());
  const ask = () => agent.learning.decide('a', ['x', 'y'], { experienceId: 'one', policy: { name: 'uniform' } });
  assert.deepEqual(await ask(), await ask());
  assert.equal(await agent.learning.reward('one', 1), true);
  assert.equal(await agent.learning.reward('one', 0), false);
  const [choice] = (await agent.learning.stats()).choices;
  assert.deepEqual([choice?.decisions, choice?.rewarded], [1, 1]);
  await assert.rejects(agent.learning.decide('b', ['x'], { experienceId: 'one' }), { code: 'learning.id_in_use' });
});

test('a reward that does not arrive in time is missing, and a late one is still learned', async () => {
  let now = 1_000_000;
  await using agent = await agentOf(await startHost({ now: () => now }));
  const options = { rewardTimeoutS: 60, policy: { name: 'ucb1' } as const };
  const first = await agent.learning.decide('late', ['x'], options);
  await agent.learning.decide('late', ['x']);
  now += 61_000;
  await agent.learning.decide('late', ['x']);
  const counts = async () => {
    const [{ pending, missing, late, rewarded, options: of } = assert.fail()] = (await agent.learning.stats()).choices;
    return { pending, missing, late, rewarded, learned: of[0]?.rewards };
  };
  assert.deepEqual(await counts(), { pending: 1, missing: 2, late: 0, rewarded: 0, learned: 0 });
  assert.equal(await agent.learning.reward(first.experienceId, 1), true);
  assert.deepEqual(await counts(), { pending: 1, missing: 2, late: 1, rewarded: 0, learned: 1 });
});

test('a choice may say what a missing reward counts for; a late one then changes nothing', async () => {
  let now = 1_000_000;
  await using agent = await agentOf(await startHost({ now: () => now }));
  const { experienceId } = await agent.learning.decide('late', ['x'], { rewardTimeoutS: 60, missingReward: 0 });
  now += 60_000;
  const mean = async () => (await agent.learning.stats()).choices[0]?.options[0];
  assert.deepEqual([(await mean())?.rewards, (await mean())?.mean_reward], [1, 0]);
  assert.equal(await agent.learning.reward(experienceId, 1), true);
  assert.deepEqual([(await mean())?.rewards, (await mean())?.mean_reward], [1, 0]);
});

test('feedback about a decision is its reward, and scores its component', async () => {
  await using agent = await agentOf(await startHost());
  const { experienceId } = await agent.learning.decide('model', ['small']);
  const feedback = { feedback_id: 'f1', correlation_id: experienceId, polarity: 'positive', score: 0.5 } as const;
  assert.deepEqual(await agent.learning.feedback([feedback]), { recorded: 1, new_score: 0.5, rewarded: 1 });
  assert.deepEqual(await agent.learning.feedback([feedback]), { recorded: 0, new_score: 0.5, rewarded: 0 });
  const [choice] = (await agent.learning.stats()).choices;
  assert.equal(choice?.options[0]?.mean_reward, 0.75);
  const rated = { prompt: 'p', response: 'r', model: 'm', version: 'skill-2' };
  const negative = { rated_turn: rated, polarity: 'negative' } as const;
  assert.equal((await agent.learning.feedback([negative])).new_score, -1);
  await assert.rejects(agent.learning.feedback([feedback, { polarity: 'corrective', correction: '' }]), {
    code: 'schema_violation',
    detail: { path: '/feedbacks/1/correction' },
  });
  await assert.rejects(agent.learning.feedback([{ polarity: 'positive', score: 1.5 }]), { code: 'schema_violation' });
});

test('experiences of plain agents make the records of components', async () => {
  await using agent = await agentOf(await startHost());
  const action = { component_name: 'read_file', duration_ms: 10 };
  const experiences = [
    { experience_id: 'e1', action, reward: 1 },
    { experience_id: 'e2', action: { ...action, duration_ms: 30 }, reward: -1, ts: 1767225600.5 },
    { experience_id: 'e3', action: { ...action, success: true }, reward: 0, ts: 1767225599 },
  ];
  assert.deepEqual(await agent.learning.experience(experiences), { stored: 3, rewarded: 0 });
  assert.deepEqual(await agent.learning.experience(experiences), { stored: 0, rewarded: 0 });
  const [record] = (await agent.learning.stats('read_file')).components;
  assert.ok((record?.last_called ?? 0) > 1767225600.5);
  assert.deepEqual(
    { ...record, last_called: 0 },
    {
      component_name: 'read_file',
      calls_total: 3,
      calls_success: 2,
      calls_failed: 1,
      avg_duration_ms: 50 / 3,
      avg_score: 0,
      last_called: 0,
      p95_duration_ms: 30,
      weight: null,
    },
  );
});

test('experiences and feedback that were sent are read back as they were, newest first, in pages that fit', async () => {
  const host = await startHost({}, [
    { name: 'p', admin: true },
    { name: 'q', admin: true },
  ]);
  await using agent = await agentOf(host);
  const { experienceId } = await agent.learning.decide('c', ['x']);
  await agent.learning.reward(experienceId, 1);
  const experiences = Array.from({ length: 250 }, (_, step) => ({
    experience_id: `e${step}`,
    state: { text: 'é'.repeat(step % 2 === 0 ? 10_000 : 1) },
    action: { component_name: 'read_file', path: `${step}` },
    reward: step / 250,
    next_state: {},
    done: step === 249,
    episode_id: 'one',
    step,
    ts: 1_700_000_000 + step,
  }));
  await agent.learning.experience(experiences.slice(0, 100));
  await agent.learning.experience(experiences.slice(100));
  const feedbacks = [
    { feedback_id: 'f1', correlation_id: experienceId, polarity: 'positive', ts: 1 },
    { feedback_id: 'f2', polarity: 'corrective', correction: 'no', rated_turn: null, ts: 2 },
  ] as const;
  await agent.learning.feedback(feedbacks);
  // The reward of the decision is no separate experience.
  assert.deepEqual(await Array.fromAsync(agent.learning.experiences()), experiences.toReversed());
  assert.deepEqual(await Array.fromAsync(agent.learning.feedbacks()), feedbacks.toReversed());
  // Absent ids and times were filled in.
  await agent.learning.experience([{ reward: 1 }]);
  for await (const { experience_id, ts } of agent.learning.experiences()) {
    assert.match(experience_id ?? '', /^[0-9a-f]{32}$/);
    assert.ok((ts ?? 0) > 1_700_000_000);
    break;
  }
  await using other = await agentOf(host, 'other');
  assert.deepEqual(await Array.fromAsync(other.learning.experiences()), []);
  assert.equal((await Array.fromAsync(other.learning.experiences({ ofAgent: 'tester' }))).length, 251);
  await using stranger = await agentOf(host, 'tester', 'q');
  for (const options of [{}, { ofAgent: 'tester' }]) {
    assert.deepEqual(await Array.fromAsync(stranger.learning.experiences(options)), []);
    assert.deepEqual(await Array.fromAsync(stranger.learning.feedbacks(options)), []);
  }
});

test('a page of records says where the next one starts, also when rows were added or evicted in between', async () => {
  const agent = rawAgent(await startHost({ logRows: 5 }));
  const shaken = await agent.shake({ agent_caps: ['learning'], auth_token: 'p' });
  const [{ metadata }] = shaken.accepted_caps as [{ metadata: { messages: string[] } }];
  assert.ok(metadata.messages.includes('learn/records/req'));
  let sent = 0;
  const send = async (...ids: string[]) => {
    const experiences = ids.map((experience_id) => ({ experience_id, reward: 1 }));
    agent.send({ type: 'learn/experience/req', id: `s${++sent}`, experiences });
    await agent.answer(`s${sent}`);
  };
  const page = async (before: number) => {
    agent.send({ type: 'learn/records/req', id: `s${++sent}`, kind: 'experience', limit: 2, before });
    const { experiences, feedbacks, next, total } = await agent.answer(`s${sent}`);
    assert.deepEqual(feedbacks, []);
    return [(experiences as { experience_id: string }[]).map(({ experience_id }) => experience_id), next, total];
  };
  assert.deepEqual(await page(0), [[], 0, 0]);
  await send('a', 'b', 'c', 'd', 'e');
  assert.deepEqual(await page(0), [['e', 'd'], 4, 5]);
  await send('f', 'g');
  // a and b were evicted.
  assert.deepEqual(await page(4), [['c'], 0, 5]);
  assert.deepEqual(await page(1_000), [['g', 'f'], 6, 5]);
  agent.send({ type: 'learn/records/req', id: 'bad', kind: 'decision' });
  assert.equal((await agent.answer('bad')).code, 'schema_violation');
});

test('adapt says which policy really ran, what is best, how sure that is and why', async () => {
  await using agent = await agentOf(await startHost());
  for (let round = 0; round < 40; round++) {
    const { option, experienceId } = await agent.learning.decide('search', ['lexical', 'hybrid'], { seed: 1 });
    await agent.learning.reward(experienceId, option === 'hybrid' ? 1 : 0);
  }
  const adapted = await agent.learning.adapt('search');
  assert.match(adapted.message ?? '', /^ppo was not run: .* search: thompson_beta ran; hybrid is recommended/);
  const [one] = adapted.recommendations ?? [];
  assert.deepEqual([one?.choice, one?.option, one?.policy], ['search', 'hybrid', 'thompson_beta']);
  assert.ok((one?.confidence ?? 0) > 0.99);
  assert.match(one?.why ?? '', /^hybrid with mean reward 1\.000 over \d+; next is lexical with mean reward 0\.000/);
  assert.deepEqual(
    adapted.updated?.map(({ component_name }) => component_name),
    ['lexical', 'hybrid'].toSorted(),
  );
  const changed = await agent.learning.adapt('search', { strategy: 'ucb1' });
  assert.match(changed.message ?? '', /search: ucb1 ran/);
  const decided = await agent.learning.decide('search', ['lexical', 'hybrid']);
  assert.equal(decided.policy, 'ucb1');
  const custom = { strategy: 'custom', policy: { name: 'discounted_ucb', discount: 0.9 } } as const;
  await agent.learning.adapt('search', custom);
  assert.deepEqual((await agent.learning.stats('search')).choices[0]?.policy, custom.policy);
  await assert.rejects(agent.learning.adapt('', { strategy: 'custom' }), { code: 'schema_violation' });
  assert.match((await agent.learning.adapt('unheard')).message ?? '', /nothing was learned of it yet/);
});

test('refinements are planned, reviewed, applied and rolled back', async () => {
  await using agent = await agentOf(await startHost());
  const action = { component_name: 'grep' };
  await agent.learning.experience(Array.from({ length: 18 }, () => ({ action, reward: 1 })));
  const plan = await agent.learning.plan('grep');
  assert.equal(plan.status, 'ready');
  const [proposal = assert.fail()] = plan.proposals ?? [];
  assert.deepEqual(
    [proposal.target, proposal.op, proposal.path, proposal.old_value, proposal.new_value],
    ['router_weight', 'update', 'router.weights.grep', 0.5, 0.95],
  );
  const review = await agent.learning.review(proposal);
  assert.deepEqual([review.approved, review.risk_level, review.reasons?.length], [true, 'medium', 1]);
  const applied = await agent.learning.apply(proposal);
  assert.deepEqual(
    { ...applied, refinement_id: '' },
    { refinement_id: '', applied_edits: 1, failed_edits: 0, rollback_available: true, error: '' },
  );
  assert.equal((await agent.learning.stats('grep')).components[0]?.weight, 0.95);
  assert.equal((await agent.learning.plan('grep')).status, 'empty');
  const again = await agent.learning.apply(proposal);
  assert.deepEqual([again.applied_edits, again.failed_edits], [0, 1]);
  assert.match(again.error ?? '', /router\.weights\.grep is 0\.95, not 0\.5/);
  const id = applied.refinement_id ?? '';
  assert.deepEqual(await agent.learning.rollback(id), {
    refinement_id: id,
    rolled_back: true,
    error: '',
    rewards_since: 0,
  });
  assert.equal((await agent.learning.rollback(id)).error, 'already rolled back');
  assert.equal((await agent.learning.rollback('other')).rolled_back, false);
  assert.equal((await agent.learning.stats('grep')).components[0]?.weight, null);
  const [entry] = await agent.learning.history();
  assert.equal(entry?.refinement_id, id);
  assert.ok(typeof entry?.rolled_back_at === 'number');
});

test('edits that cannot be applied are counted and named, the others are applied', async () => {
  await using agent = await agentOf(await startHost());
  const edits = [
    { path: 'router.weights.a', new_value: 0.7 },
    { path: 'router.weights.a', new_value: 7 },
    { path: 'elsewhere', new_value: 1 },
    { path: 'choices.none.policy', new_value: { name: 'ucb1' } },
    { path: 'router.weights.b', op: 'delete', new_value: 1 },
  ];
  const applied = await agent.learning.apply({ edits });
  assert.deepEqual([applied.applied_edits, applied.failed_edits], [1, 4]);
  for (const part of ['0 to 1', 'unknown path "elsewhere"', 'no choice "none"', 'unsupported op "delete"']) {
    assert.ok(applied.error?.includes(part), `${part} in ${applied.error}`);
  }
  assert.deepEqual(await agent.learning.review({ edits }), {
    approved: false,
    confidence_adjusted: 0,
    reasons: (await agent.learning.review({ edits })).reasons,
    risk_level: 'high',
  });
});

test('a rollback puts back policy, rewards and generator exactly', async () => {
  const make = async () => agentOf(await startHost());
  await using one = await make();
  await using other = await make();
  const play = async (agent: typeof one, rounds: number) => {
    const options: string[] = [];
    for (let round = 0; round < rounds; round++) {
      const { option, propensity, experienceId } = await agent.learning.decide('c', ['x', 'y', 'z'], { seed: 9 });
      options.push(`${option} ${propensity}`);
      await agent.learning.reward(experienceId, option === 'y' ? 1 : 0);
    }
    return options;
  };
  await play(one, 15);
  await play(other, 15);
  const edit = { path: 'choices.c.policy', new_value: { name: 'softmax' } };
  const { refinement_id } = await one.learning.apply(edit);
  await play(one, 7);
  const back = await one.learning.rollback(refinement_id ?? '');
  assert.deepEqual([back.rolled_back, back.rewards_since], [true, 7]);
  // As if the refinement, and its later effects, had never been.
  assert.deepEqual(await play(one, 20), await play(other, 20));
});

test('a refinement below a later one of the same choice is not rolled back first', async () => {
  await using agent = await agentOf(await startHost());
  await agent.learning.decide('c', ['x']);
  const set = async (name: string) =>
    (await agent.learning.apply({ path: 'choices.c.policy', new_value: { name } })).refinement_id ?? '';
  const [first, second] = [await set('ucb1'), await set('softmax')];
  assert.match((await agent.learning.rollback(first)).error ?? '', new RegExp(`refinement ${second} changed the same`));
  assert.equal((await agent.learning.rollback(second)).rolled_back, true);
  assert.equal((await agent.learning.rollback(first)).rolled_back, true);
  assert.equal((await agent.learning.decide('c', ['x'])).policy, 'thompson_beta');
});

test('options that are taken out are not chosen, unless nothing else is offered', async () => {
  await using agent = await agentOf(await startHost());
  await agent.learning.decide('c', ['x', 'y']);
  await agent.learning.apply({ path: 'choices.c.disabled', new_value: ['x'] });
  for (let round = 0; round < 10; round++) assert.equal((await agent.learning.decide('c', ['x', 'y'])).option, 'y');
  assert.equal((await agent.learning.decide('c', ['x'])).option, 'x');
});

test('estimates say what an option or a policy would have earned, and what to beware of', async () => {
  await using agent = await agentOf(await startHost());
  for (let round = 0; round < 150; round++) {
    const { option, experienceId } = await agent.learning.decide('c', ['x', 'y'], {
      seed: 2,
      policy: { name: 'uniform' },
    });
    await agent.learning.reward(experienceId, option === 'x' ? 0.8 : 0.2);
  }
  const x = await agent.learning.evaluate('c', { option: 'x' });
  assert.deepEqual(
    x.estimates.map(({ estimator }) => estimator),
    ['ips', 'snips', 'dr'],
  );
  for (const { low, high } of x.estimates) assert.ok(low <= 0.8 + 1e-9 && high >= 0.8 - 1e-9);
  assert.deepEqual([x.rows, x.unsupported, x.notes], [150, 0, []]);
  const learned = await agent.learning.evaluate('c', { policy: { name: 'epsilon_greedy', epsilon: 0 } });
  assert.deepEqual([learned.rows, learned.learned_from], [75, 75]);
  assert.ok(Math.abs((learned.estimates[2]?.value ?? 0) - 0.8) < 0.02);
  await assert.rejects(agent.learning.evaluate('c'), { code: 'schema_violation' });
  await assert.rejects(agent.learning.evaluate('d', { option: 'x' }), { code: 'learning.unknown_choice' });
});

test('a reward that the policy cannot take is refused, and nothing of its request is stored', async () => {
  await using agent = await agentOf(await startHost());
  const { experienceId } = await agent.learning.decide('c', ['x']);
  const experiences = [
    { action: { component_name: 'other' }, reward: 1 },
    { experience_id: experienceId, reward: 3 },
  ];
  await assert.rejects(agent.learning.experience(experiences), { code: 'learning.reward_range' });
  assert.deepEqual((await agent.learning.stats()).components, []);
  const free = await agent.learning.decide('d', ['x'], { policy: { name: 'thompson_gaussian' } });
  assert.equal(await agent.learning.reward(free.experienceId, 300), true);
});

test('agents and principals do not share, and a principal reaches its other agents by name', async () => {
  const host = await startHost({}, [
    { name: 'p', admin: true },
    { name: 'q', admin: true },
  ]);
  await using one = await agentOf(host, 'one');
  await using two = await agentOf(host, 'two');
  await using foreign = await agentOf(host, 'one', 'q');
  await one.learning.decide('c', ['x']);
  assert.deepEqual((await two.learning.stats()).choices, []);
  assert.deepEqual((await foreign.learning.stats()).choices, []);
  assert.equal((await two.learning.stats('', { ofAgent: 'one' })).choices.length, 1);
  assert.deepEqual((await foreign.learning.stats('', { ofAgent: 'one' })).choices, []);
  assert.equal(await two.learning.forget('c', { ofAgent: 'one' }), true);
  assert.equal(await one.learning.forget('c'), false);
  assert.deepEqual((await one.learning.stats()).choices, []);
});

test('a grant may leave out recording and refining', async () => {
  const principal = { name: 'p', grants: { learning: { record: false } } };
  const reader = { name: 'q', grants: { learning: { refine: false } } };
  const host = await startHost({}, [principal, reader, { name: 'r' }]);
  await using one = await agentOf(host);
  await assert.rejects(one.learning.decide('c', ['x']), {
    code: 'learning.denied',
    detail: { row: 'denied', right: 'record' },
  });
  assert.deepEqual((await one.learning.stats()).choices, []);
  await using two = await agentOf(host, 'tester', 'q');
  await two.learning.decide('c', ['x']);
  for (const refused of [
    two.learning.adapt(),
    two.learning.apply({}),
    two.learning.rollback('x'),
    two.learning.forget(''),
  ]) {
    await assert.rejects(refused, { code: 'learning.denied' });
  }
  await assert.rejects(agentOf(host, 'tester', 'r'), { code: 'no_caps' });
});

test('limits are held, and named where they are reached', async () => {
  const limits = { maxChoices: 1, maxOptions: 2, maxFeatures: 2, maxComponents: 2, logRows: 3, rollbacks: 1 };
  await using agent = await agentOf(await startHost(limits));
  const full = (limit: string) => ({ code: 'learning.full', detail: { row: 'quota_exceeded', limit } });
  const first = await agent.learning.decide('c', ['x', 'y']);
  await assert.rejects(agent.learning.decide('d', ['x']), full('max_choices'));
  await assert.rejects(agent.learning.decide('c', ['x', 'z']), full('max_options'));
  await assert.rejects(agent.learning.decide('c', ['x'], { features: [1, 2, 3] }), full('max_features'));
  await assert.rejects(agent.learning.decide('c', ['x', 'x']), { code: 'schema_violation' });
  const called = (name: string) => ({ action: { component_name: name }, reward: 1 });
  await assert.rejects(agent.learning.experience(['a', 'b', 'c'].map(called)), full('max_components'));
  for (let round = 0; round < 5; round++) await agent.learning.decide('c', ['x']);
  const [choice] = (await agent.learning.stats()).choices;
  assert.deepEqual([choice?.decisions, choice?.logged, choice?.pending, choice?.missing], [6, 3, 3, 3]);
  // Its row was evicted: it is an experience like any other.
  assert.equal(await agent.learning.reward(first.experienceId, 1), false);
  const ids = [];
  for (const weight of [0.1, 0.2]) {
    ids.push((await agent.learning.apply({ path: 'router.weights.x', new_value: weight })).refinement_id ?? '');
  }
  assert.equal((await agent.learning.rollback(ids[1]!)).rolled_back, true);
  assert.match((await agent.learning.rollback(ids[0]!)).error ?? '', /only the newest 1/);
});

test('names with blanks, quotes, slashes and dots are names like others', async () => {
  await using agent = await agentOf(await startHost());
  const names = ['a b', '"', '\\', 'x/y', 'a.b.policy', 'é東', '["a"]', '__proto__'];
  for (const name of names) {
    const { experienceId, option } = await agent.learning.decide(name, [name]);
    assert.equal(option, name);
    assert.equal(await agent.learning.reward(experienceId, 1), true);
    const path = `choices.${name}.policy`;
    const before = await agent.learning.stats(name);
    const edits = [
      { path, new_value: { name: 'ucb1' } },
      { path: `router.weights.${name}`, new_value: 0.7 },
    ];
    const { applied_edits, refinement_id = '' } = await agent.learning.apply({ edits });
    assert.equal(applied_edits, 2, path);
    assert.equal((await agent.learning.rollback(refinement_id)).rolled_back, true, path);
    assert.deepEqual(await agent.learning.stats(name), before, path);
  }
  const { choices } = await agent.learning.stats();
  assert.deepEqual(choices.map(({ choice }) => choice).toSorted(), names.toSorted());
  for (const { options } of choices) assert.equal(options[0]?.rewards, 1);
  await assert.rejects(agent.learning.decide('line\nbreak', ['x']), { code: 'schema_violation' });
  await assert.rejects(agent.learning.decide('', ['x']), { code: 'schema_violation' });
});
