/** The errors of descriptions that YAML cuts or refuses advise how to quote them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readSkillFile } from '../../../src/capabilities/skill/folder/skill-file.ts';

const read = (description: string) => readSkillFile(`---\nname: a\ndescription: ${description}\n---\nbody`);

test('a description that YAML refuses is shown in quotes', async () => {
  for (const text of [
    'Use when: asked',
    '@team only',
    '`x` runs',
    '[beta] does',
    '{a} does',
    '"a" b',
    '* all',
    '2024',
    '~',
    '#tag',
  ]) {
    await assert.rejects(read(text), (error: Error) => {
      assert.ok(
        error.message.endsWith(`; write the text in quotes: description: ${JSON.stringify(text)}`),
        error.message,
      );
      return true;
    });
  }
  await assert.rejects(read('first\n  second: third'), /description: "first second: third"$/);
  const quoted = await read(JSON.stringify('Use when: asked'));
  assert.deepEqual([quoted.description, quoted.faults], ['Use when: asked', []]);
});

test('a description that YAML cuts is read, and the problem names the rest', async () => {
  const { description, faults } = await read('Fix issue #12 of a project');
  assert.equal(description, 'Fix issue');
  assert.equal(faults.length, 1);
  assert.match(
    faults[0] as string,
    /^description is cut at "#12 of a project": .* write description: "Fix issue #12 of a project"$/,
  );
  assert.match((await read('one\n  two #3')).faults[0] as string, /description: "one two #3"$/);
  for (const whole of [
    'plain',
    '"a # b" # comment',
    "'it''s # b'",
    '>-\n  folded # text',
    'http://x/#y',
    'one\n  two',
    'a  b',
  ]) {
    assert.deepEqual((await read(whole)).faults, [], whole);
  }
});
