/**
 * Results of several subagents merged to one: each strategy, failures among them, ties, a tool, and the form with other names.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Ended, merge } from '../../../src/capabilities/multi_agent/merge.ts';
import { siteOf } from './support.ts';

const done = (id: string, result: Record<string, unknown>, order: number, score?: number): Ended => ({
  id,
  name: id,
  order,
  end: { state: 'COMPLETED', result, ...(score !== undefined && { score }) },
});
const lost: Ended = { id: 'lost', name: 'lost', order: 1, end: { state: 'FAILED', result: null } };
const idle: Ended = { id: 'idle', name: 'idle', order: 0, end: undefined };

test('every strategy leaves out what failed, and says so', () => {
  const all = [
    lost,
    done('a', { answer: 1 }, 30, 0.2),
    done('b', { answer: 2 }, 10, 0.9),
    done('c', { answer: 1 }, 20),
    idle,
  ];
  const failed = ['lost', 'idle'];
  assert.deepEqual(merge(all, 'concat'), {
    result: {
      results: [
        { subagent_id: 'a', name: 'a', result: { answer: 1 } },
        { subagent_id: 'b', name: 'b', result: { answer: 2 } },
        { subagent_id: 'c', name: 'c', result: { answer: 1 } },
      ],
    },
    from: ['a', 'b', 'c'],
    failed,
  });
  assert.deepEqual(merge(all, 'vote'), {
    result: {
      answer: 1,
      votes: 2,
      of: 3,
      counted: [
        { votes: 2, result: { answer: 1 } },
        { votes: 1, result: { answer: 2 } },
      ],
    },
    from: ['a', 'c'],
    failed,
  });
  assert.deepEqual(merge(all, 'first_success'), { result: { answer: 2 }, from: ['b'], failed });
  assert.deepEqual(merge(all, 'best_by_score'), { result: { answer: 2 }, from: ['b'], failed });
  for (const strategy of ['concat', 'vote', 'first_success', 'best_by_score'] as const) {
    assert.deepEqual(merge([lost, idle], strategy), { result: null, from: [], failed });
  }
});

test('votes count only values that are there, in any order of members, each in its own type', () => {
  const without = [done('a', { other: 'x' }, 1), done('b', { label: null }, 2), done('c', { other: 'x' }, 3)];
  const [yes, text] = [done('d', { label: 1 }, 4), done('e', { label: '1' }, 5)];
  const merged = merge([...without, lost, yes, text, done('f', { label: '1' }, 6)], 'vote', 'label');
  assert.deepEqual(merged.from, ['e', 'f'], 'neither the three without a value nor the number');
  const { votes, of, abstained } = merged.result as Record<string, unknown>;
  assert.deepEqual([votes, of, abstained, merged.failed], [2, 3, ['a', 'b', 'c'], ['lost']]);
  assert.deepEqual(merge([...without, yes], 'vote', 'label').from, ['d'], 'one vote beats none');
  assert.throws(() => merge(without, 'vote', 'label'), { code: 'multi_agent.invalid' });
  assert.throws(() => merge(without, 'vote', 'constructor'), /none of the 3 results has a value/);
});

test('votes compare a member alone, and members in any order; a tie is for the first', () => {
  const one = done('a', { label: 'x', why: 'p' }, 1);
  const two = done('b', { label: 'y', why: 'q' }, 2);
  const three = done('c', { label: 'y', why: 'r' }, 3);
  assert.deepEqual(merge([one, two, three], 'vote', 'label').from, ['b', 'c']);
  assert.deepEqual(merge([one, two, three], 'vote').from, ['a']);
  assert.deepEqual(merge([done('a', { p: 1, q: 2 }, 1), done('b', { q: 2, p: 1 }, 2)], 'vote').from, ['a', 'b']);
});

test('an agent merges what its subagents have given, those that run too', async (t) => {
  const site = await siteOf(t, {
    kinds: [
      {
        name: 'voter',
        run({ metadata }, { score }) {
          if (metadata.fails === true) throw new Error('no');
          score(Number(metadata.score ?? 0));
          return metadata.says;
        },
      },
    ],
  });
  const agent = await site.agent();
  const voters = await Promise.all(['a', 'b', 'c', 'd'].map((name) => agent.multi_agent.spawn(name)));
  const says = [{ says: 'yes', score: 1 }, { says: 'no', score: 3 }, { says: 'yes', score: 2 }, { fails: true }];
  await Promise.all(voters.map((voter, at) => voter.delegate('vote', { metadata: says[at] ?? {} })));
  const ids = voters.map(({ id }) => id);
  const vote = await agent.multi_agent.merge(voters, { strategy: 'vote' });
  assert.deepEqual([vote.result?.summary, vote.result?.votes, vote.failed], ['yes', 2, [ids[3]]]);
  const concat = await agent.multi_agent.merge(ids);
  assert.equal(concat.result?.summary, 'yes\n\nno\n\nyes');
  const best = await agent.multi_agent.merge(voters, { strategy: 'best_by_score' });
  assert.deepEqual([best.result, best.from], [{ summary: 'no' }, [ids[1]]]);
  const byTool = await agent.multi_agent.merge(voters, { strategy: 'tool', tool: 'count_results' });
  assert.deepEqual(byTool.result, { count: 3, best: 3 });
  await assert.rejects(agent.multi_agent.merge(voters, { strategy: 'tool', tool: 'no_such_tool' }), {
    code: 'unknown_tool',
  });
  await assert.rejects(agent.multi_agent.merge([]), { code: 'multi_agent.invalid' });
  await assert.rejects(agent.multi_agent.merge(['sub_00000000']), { code: 'unknown_subagent' });
  for (const [strategy, key] of [
    ['hierarchical_summary', 'results'],
    ['voting', 'votes'],
    ['custom', 'count'],
  ] as const) {
    const reply = await agent.request('SUBAGENT_MERGE_REQ', { subagent_ids: ids, strategy, tool: 'count_results' });
    assert.ok(key in (reply.merged_result as object), strategy);
  }
  await assert.rejects(agent.request('SUBAGENT_MERGE_REQ', { subagent_ids: ids, strategy: '__proto__' }), {
    code: 'multi_agent.invalid',
  });
});
