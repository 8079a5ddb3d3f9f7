/**
 * Libraries that search in the memory of the process: none of them stores anything.
 *
 * `minisearch` and `@orama/orama` search words; `sqlite-vec` compares every vector, without words.
 */
import { DatabaseSync } from 'node:sqlite';
import { create, insertMultiple, search } from '@orama/orama';
import MiniSearch from 'minisearch';
import { load } from 'sqlite-vec';
import { hashedEmbedder } from '../../src/capabilities/memory/engine/hashed.ts';

export interface Contender {
  readonly name: string;
  /** Makes an index; resolves with its search for the ten best. */
  build(texts: readonly string[]): Promise<(query: string) => unknown>;
}

const embed = hashedEmbedder.embedNow as (text: string) => Float32Array;
const bytes = (vector: Float32Array): Uint8Array => new Uint8Array(vector.buffer);

export const contenders: readonly Contender[] = [
  {
    name: 'minisearch',
    async build(texts) {
      const index = new MiniSearch({ fields: ['text'] });
      index.addAll(texts.map((text, id) => ({ id, text })));
      return (query) => index.search(query).slice(0, 10);
    },
  },
  {
    name: '@orama/orama',
    async build(texts) {
      const index = create({ schema: { text: 'string' } });
      await insertMultiple(
        index,
        texts.map((text) => ({ text })),
        1000,
      );
      return (query) => search(index, { term: query, limit: 10 });
    },
  },
  {
    name: 'sqlite-vec, vectors alone',
    async build(texts) {
      const database = new DatabaseSync(':memory:', { allowExtension: true });
      load(database);
      database.exec('CREATE VIRTUAL TABLE vectors USING vec0(numbers float[384])');
      const insert = database.prepare('INSERT INTO vectors (rowid, numbers) VALUES (?, ?)');
      database.exec('BEGIN');
      for (const [at, text] of texts.entries()) insert.run(BigInt(at + 1), bytes(embed(text)));
      database.exec('COMMIT');
      const nearest = database.prepare('SELECT rowid FROM vectors WHERE numbers MATCH ? AND k = 10');
      return (query) => nearest.all(bytes(embed(query)));
    },
  },
];
