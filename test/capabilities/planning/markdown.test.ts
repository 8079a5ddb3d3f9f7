/**
 * Task lists in Markdown: the recognised tasks, that everything else retains its bytes, and merging with a plan in both
 * directions.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentOf, parseMarkdown, planningHost } from './support.ts';

const DOCUMENT = `# Release

Some prose, with - [ ] no task in it.

- [ ] Write the docs
  - [x] Outline
  - [ ] Figures
- not a task
* [X] Old style\r
1. [ ] Numbered

\`\`\`md
- [ ] in a code block
\`\`\`

    - [ ] in an indented block

<!--
- [ ] in a comment
-->
- [] no box
- [ ]
`;

test('tasks are found with their nesting, and code, comments and other lists are not tasks', () => {
  const { lines, tasks } = parseMarkdown(DOCUMENT);
  assert.equal(lines.join(''), DOCUMENT);
  assert.deepEqual(
    tasks.map(({ title, done, parent }) => [title, done, parent]),
    [
      ['Write the docs', false, undefined],
      ['Outline', true, 0],
      ['Figures', false, 0],
      ['Old style', true, undefined],
      ['Numbered', false, undefined],
    ],
  );
});

/** Returns the text without the additions of a sync. */
const without = (text: string): string =>
  text.replace(/[ \t]*<!-- task:[0-9a-f]{12}@\d+ -->/g, '').replace(/<!-- plan:[0-9a-f]{12}@\d+ -->\r?\n/g, '');

describe('a document and a plan', { timeout: 120_000 }, () => {
  test('merge: new items become tasks with ids, and a second time nothing changes', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const first = await planning.markdown(plan_id, DOCUMENT);
    assert.equal(first.added.length, 5);
    assert.equal(without(first.text), DOCUMENT);
    const tasks = await planning.tasks(plan_id);
    const [docs, outline] = tasks;
    assert.deepEqual([outline?.parent, outline?.status, docs?.status], [docs?.task_id, 'done', 'todo']);
    const second = await planning.markdown(plan_id, first.text);
    assert.deepEqual([second.added, second.updated, second.conflicts, second.missing], [[], [], [], []]);
    assert.equal(second.text, first.text);
  });

  test('take changes of either side, and tell a conflict with both', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const { text, added } = await planning.markdown(plan_id, '- [ ] a\n- [ ] b\n- [ ] c\n');
    const [a = '', b = '', c = ''] = added;
    await planning.update(plan_id, a, { status: 'done' });
    await planning.update(plan_id, b, { title: 'b of the plan' });
    const edited = text.replace('- [ ] b ', '- [ ] b of the text ').replace('- [ ] c ', '- [x] c ');
    const merged = await planning.markdown(plan_id, edited);
    assert.match(merged.text, /^- \[x\] a <!-- .*\n- \[ \] b of the text <!-- .*@1 -->\n- \[x\] c /);
    assert.deepEqual(merged.updated, [c]);
    assert.deepEqual(
      merged.conflicts.map(({ task_id, code, yours, current }) => [task_id, code, yours?.title, current?.title]),
      [[b, 'planning.conflict', 'b of the text', 'b of the plan']],
    );
    const preferred = await planning.markdown(plan_id, merged.text, { prefer: 'text' });
    assert.deepEqual(preferred.updated, [b]);
    assert.equal((await planning.task(plan_id, b)).title, 'b of the text');
  });

  test('new tasks of the plan are appended; what the document lost stays in the plan and is named', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const { text, added } = await planning.markdown(plan_id, 'Intro\n\n- [ ] a\n- [ ] b\n');
    const parent = await planning.add(plan_id, 'new');
    await planning.add(plan_id, 'part', { parent: parent.task_id });
    const shorter = text.replace(/- \[ \] a .*\n/, '');
    const merged = await planning.markdown(plan_id, shorter);
    assert.deepEqual(merged.missing, [added[0]]);
    assert.equal(without(merged.text), 'Intro\n\n- [ ] b\n- [ ] new\n  - [ ] part\n');
    assert.equal((await planning.tasks(plan_id)).length, 4);
    // An empty document becomes the whole plan.
    const whole = await planning.markdown(plan_id, '');
    assert.equal(without(whole.text), '- [ ] a\n- [ ] b\n- [ ] new\n  - [ ] part\n');
    const dry = await planning.markdown(plan_id, `${merged.text}- [ ] later\n`, { dryRun: true });
    assert.deepEqual(dry.added, ['later']);
    assert.equal((await planning.tasks(plan_id)).length, 4);
  });

  test('a box that the rules refuse stays as it is in the document, with the reason', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    const { text, added } = await planning.markdown(plan_id, '- [ ] a\n  - [ ] part\n');
    const merged = await planning.markdown(plan_id, text.replace('- [ ] a', '- [x] a'));
    assert.deepEqual(
      merged.conflicts.map(({ task_id, code }) => [task_id, code]),
      [[added[0], 'planning.blocked']],
    );
    const both = await planning.markdown(plan_id, merged.text.replace('- [ ] part', '- [x] part'));
    assert.deepEqual(both.conflicts, []);
    assert.equal(both.updated.length, 2);
  });

  test('of any text keep every byte that is no task', async (t) => {
    const { planning } = await agentOf(t, await planningHost(t));
    const { plan_id } = await planning.createPlan();
    let seed = 7;
    const random = (below: number): number => {
      seed = (Math.imul(seed, 1_103_515_245) + 12_345) >>> 0;
      return (seed >>> 8) % below;
    };
    const pieces = [
      '- [ ] ',
      '* [x] ',
      '12) [X]\t',
      '  ',
      '    ',
      '\t',
      'text',
      ' été 😀\u2028',
      '\r\n',
      '\n',
      '\n\n',
      '```',
      '~~~',
      '<!--',
      '-->',
      '<!-- task:0f1e2d3c4b5a@3 -->',
      '<!-- plan:a1b2c3d4e5f6@9 -->',
      '- ',
      '[ ]',
      '> - [ ] quoted',
      '\\',
      '`',
      '| a | b |',
      '# ',
    ];
    for (let round = 0; round < 300; round += 1) {
      const text = Array.from({ length: random(40) }, () => pieces[random(pieces.length)]).join('');
      const parsed = parseMarkdown(text, plan_id);
      assert.equal(parsed.lines.join(''), text);
      const { text: once } = await planning.markdown(plan_id, text, { append: false });
      const kept = parseMarkdown(once, plan_id);
      const other = parsed.lines.filter(
        (_, at) => !parsed.tasks.some(({ line }) => line === at) && at !== parsed.marker?.line,
      );
      const otherNow = kept.lines.filter(
        (_, at) => !kept.tasks.some(({ line }) => line === at) && at !== kept.marker?.line,
      );
      const joined = other.join('');
      assert.equal(otherNow.join('').slice(0, joined.length), joined, JSON.stringify(text));
      // The plan has the title; around it every byte of a task line also stays.
      for (const [at, { line }] of parsed.tasks.entries()) {
        const now = kept.lines[kept.tasks[at]!.line] as string;
        assert.equal(without(now).trimEnd(), without(parsed.lines[line] as string).trimEnd(), JSON.stringify(text));
      }
      const { text: twice } = await planning.markdown(plan_id, once, { append: false });
      assert.equal(twice, once, JSON.stringify(text));
    }
  });
});
