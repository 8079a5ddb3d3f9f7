/** Properties of the parts without state: keys, folding, words, fusion, signatures, vectors. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dot } from '../../../src/capabilities/memory/engine/embedder.ts';
import { fuse } from '../../../src/capabilities/memory/engine/fusion.ts';
import { hashedEmbedder } from '../../../src/capabilities/memory/engine/hashed.ts';
import { SignatureIndex, signatureOf } from '../../../src/capabilities/memory/engine/signatures.ts';
import { fold, wordsOf } from '../../../src/capabilities/memory/engine/words.ts';
import { canonical } from '../../../src/capabilities/memory/key.ts';
import fc from '../../support/properties.ts';

const text = fc.string({ unit: 'binary', maxLength: 60 });
const runs = { numRuns: 300 };

/** Returns the value with the members of every object in another order. */
function reordered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(reordered);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .reverse()
      .map(([name, member]) => [name, reordered(member)]),
  );
}

test('two keys have the same canonical form exactly when they are deeply equal', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue(), { maxKeys: 5, noNullPrototype: true }), (key) => {
      const plain = JSON.parse(JSON.stringify(key));
      assert.equal(canonical(plain), canonical(reordered(plain)));
      assert.deepEqual(JSON.parse(canonical(plain)), plain);
    }),
    runs,
  );
  assert.notEqual(canonical({ a: 1 }), canonical({ a: '1' }));
  assert.notEqual(canonical({ a: [1, 2] }), canonical({ a: [2, 1] }));
});

test('folding is stable, and words hold neither spaces nor control characters', () => {
  fc.assert(
    fc.property(text, (given) => {
      const folded = fold(given);
      assert.equal(fold(folded), folded);
      assert.ok(!/[\p{Cc}\p{Cs}]/u.test(folded));
      for (const word of wordsOf(folded)) assert.ok(word !== '' && !/\s/.test(word) && word.length <= 64);
    }),
    runs,
  );
});

test('a long run of any character is cut into words in time that grows with its length alone', () => {
  for (const run of ['.', '(', '"', '。', 'a.', '東', '🚀', '\u0301', ' ', "'", '𝒂', '-', '\u200d']) {
    const text = `a${run.repeat(200_000)}a`;
    const begin = process.cpuUsage();
    wordsOf(fold(text));
    const { user } = process.cpuUsage(begin);
    // Some 100 ms; a search that starts again at each character takes minutes.
    assert.ok(user < 15_000_000, `${JSON.stringify(run)}: ${user / 1000} ms`);
  }
});

test('the words of a query are among those of an entry with the same text', () => {
  fc.assert(
    fc.property(text, (given) => {
      const folded = fold(given);
      const words = new Set(wordsOf(folded));
      for (const word of wordsOf(folded, true)) assert.ok(words.has(word), word);
    }),
    runs,
  );
});

test('fusion ranks by place alone, between 0 and 1, and prefers what is higher in every ranking', () => {
  const ids = fc.uniqueArray(fc.integer({ min: 1, max: 50 }), { maxLength: 20 });
  fc.assert(
    fc.property(
      fc.array(fc.record({ ids, weight: fc.constantFrom(0.5, 1) }), { minLength: 1, maxLength: 3 }),
      (rankings) => {
        const fused = fuse(rankings);
        const all = new Set(rankings.flatMap((ranking) => ranking.ids));
        assert.deepEqual(new Set(fused.map(({ id }) => id)), all);
        for (const [at, { score }] of fused.entries()) {
          assert.ok(score > 0 && score <= 1);
          if (at > 0) assert.ok(score <= (fused[at - 1]?.score ?? 0));
        }
        const place = (id: number) => fused.findIndex((one) => one.id === id);
        for (const left of all) {
          for (const right of all) {
            const higher = rankings.every((ranking) => {
              const [a, b] = [ranking.ids.indexOf(left), ranking.ids.indexOf(right)];
              return a !== -1 && (b === -1 || a < b);
            });
            if (higher) assert.ok(place(left) < place(right));
          }
        }
      },
    ),
    runs,
  );
  assert.equal(
    fuse([
      { ids: [7], weight: 1 },
      { ids: [7], weight: 0.5 },
    ])[0]?.score,
    1,
  );
});

test('what a ranking has as equal shares a place: another ranking decides, and then the newer id', () => {
  const words = { ids: [9, 4, 7], scores: [3, 3, 1], weight: 1 };
  assert.deepEqual(
    fuse([words, { ids: [4], weight: 0.5 }]).map(({ id }) => id),
    [4, 9, 7],
  );
  assert.deepEqual(
    fuse([words]).map(({ id }) => id),
    [9, 4, 7],
  );
});

test('vectors have length 1, and near texts have near signatures', async () => {
  const embed = hashedEmbedder.embedNow as (text: string) => Float32Array;
  fc.assert(
    fc.property(text, (given) => {
      const vector = embed(given);
      const length = dot(vector, vector);
      assert.ok(length === 0 || Math.abs(length - 1) < 1e-4);
    }),
    runs,
  );
  const bits = (a: Uint32Array, b: Uint32Array) => {
    let different = 0;
    for (let word = 0; word < a.length; word += 1) {
      for (let left = (a[word]! ^ b[word]!) >>> 0; left !== 0; left &= left - 1) different += 1;
    }
    return different;
  };
  const of = (given: string) => signatureOf(embed(given));
  const base = of('the quick brown fox jumps over the lazy dog');
  assert.ok(
    bits(base, of('the quick brown fox jumped over the lazy dogs')) < bits(base, of('payment terms of the contract')),
  );
});

test('the index finds what is near among what is wanted: parts, times, ids', () => {
  const index = new SignatureIndex();
  const vectors = Array.from({ length: 3000 }, (_, n) =>
    hashedEmbedder.embedNow!(`entry number ${n} about topic ${n % 7}`),
  );
  for (const [at, vector] of vectors.entries()) {
    index.add({
      id: at + 1,
      part: at % 3,
      starts: at % 2 ? 0 : 50,
      ends: at % 5 ? 1000 : 10,
      expires: 1e9,
      words: 5,
      signature: signatureOf(vector),
    });
  }
  const parts = new Uint8Array([0, 1, 0]);
  const wanted = { parts, at: 20, now: 20 };
  const nearest = (more: { ids?: ReadonlySet<number> } = {}) =>
    index.nearest(vectors[7]!, 40, index.fitting({ ...wanted, ...more }));
  const found = nearest();
  assert.ok(found.length >= 40);
  for (const id of found) {
    const at = id - 1;
    assert.ok(at % 3 === 1 && at % 2 === 1 && at % 5 !== 0, `entry ${at}`);
  }
  assert.ok(found.includes(8));
  index.remove(8);
  assert.ok(!nearest().includes(8));
  assert.deepEqual(nearest({ ids: new Set([14]) }), [14]);
  index.end(14, 15);
  assert.deepEqual(nearest({ ids: new Set([14]) }), []);
});
