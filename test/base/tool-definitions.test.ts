/** Tools are found by words in any case, with and without marks. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { toolScore } from '../../src/base/tool-definitions.ts';

test('a tool is found by the folded forms of its words', () => {
  const found = (description: string, query: string) => toolScore({ name: 't', description }, query) > 0;
  assert.ok(found('Straßen der Stadt', 'STRASSEN'));
  assert.ok(found('Résumé de texte', 'resume'));
  assert.ok(found('ΚΟΣΜΟΣ', 'κοσμος'));
  assert.ok(found('بَحْث', 'بحث'));
  assert.ok(found('हिन्दी अनुवाद', 'हिन्दी'));
  assert.equal(found('Straßen der Stadt', 'Strand'), false);
});
