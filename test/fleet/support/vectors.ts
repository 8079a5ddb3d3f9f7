/** Reads the published vectors of one kind. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

const folder = new URL('../../vectors/fleet/', import.meta.url);
const read = (file: string): unknown => JSON.parse(readFileSync(new URL(file, folder), 'utf8'));

/** A vector with an input and the expected result. */
export interface Vector<Input, Expect> {
  readonly file: string;
  readonly input: Input;
  readonly expect: Expect;
}

/** Returns all vectors of a kind, as the manifest lists them; a kind without any is a mistake. */
export function vectorsOf<Input, Expect>(kind: string): Vector<Input, Expect>[] {
  const { cases } = read('manifest.json') as { cases: { file: string; kind: string }[] };
  const vectors = cases.filter((each) => each.kind === kind).map(({ file }) => ({ ...(read(file) as object), file }));
  assert.ok(vectors.length > 0, `no vectors of the kind ${kind}`);
  return vectors as Vector<Input, Expect>[];
}
