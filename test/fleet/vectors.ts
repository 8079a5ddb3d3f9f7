/**
 * The vectors of the fleet protocol, by kind. Each kind has a `vectors-….test.ts` file in this folder.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const folder = join(import.meta.dirname, '..', 'vectors', 'fleet');

export interface VectorCase {
  readonly file: string;
  readonly kind: string;
  readonly note: string;
  /** A summary; the vector's own `expect` is the whole, except for the kind `message`, whose file is the message. */
  readonly expect: Readonly<Record<string, unknown>>;
}

export const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8')) as {
  readonly now: string;
  readonly supported_versions: readonly string[];
  readonly count: number;
  readonly cases: readonly VectorCase[];
};

/** The clock of every vector, epoch milliseconds. */
export const vectorNowMs = Date.parse(manifest.now);

/** Returns the names of all vector files. */
export const vectorFiles = (): readonly string[] => readdirSync(folder).filter((name) => name !== 'manifest.json');

/** Returns the text of a vector's file. */
export const vectorText = (file: string): string => readFileSync(join(folder, file), 'utf8');

/** The cases of one kind; each file is parsed. */
export const vectorsOf = <T = Readonly<Record<string, unknown>>>(
  kind: string,
): readonly (VectorCase & { vector: T })[] =>
  manifest.cases
    .filter((each) => each.kind === kind)
    .map((each) => ({ ...each, vector: JSON.parse(vectorText(each.file)) as T }));
