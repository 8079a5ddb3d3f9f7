/**
 * How well each ranking answers questions about this repository: its pages, a passage an entry. And how often a search shows
 * facts that no longer hold, with keys and without. Called by `bench/memory.ts`.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryEngine } from '../../src/capabilities/memory/engine/engine.ts';
import type { NewEntry, RankingName } from '../../src/capabilities/memory/engine/types.ts';
import { MEMORY_DEFAULTS } from '../../src/capabilities/memory/limits.ts';
import { questions } from './questions.ts';

const RANKINGS: readonly RankingName[] = ['lexical', 'vector', 'hybrid'];
const asker = { principal: 'quality', agent: 'quality', session: 'quality' };
const root = join(import.meta.dirname, '..', '..');
const folders = ['.', 'docs', 'docs/security', 'docs/protocol', 'docs/decisions'];

interface Passage {
  readonly file: string;
  readonly text: string;
}

/** The pages, cut at blank lines and between the rows of tables; each passage begins with the headings above it. */
function passages(): Passage[] {
  const found: Passage[] = [];
  for (const folder of folders) {
    // Pages that are generated repeat what others say.
    const files = readdirSync(join(root, folder)).filter(
      (name) => name.endsWith('.md') && !/^(?:api|cli|configuration|memory)\.md$/.test(name),
    );
    for (const name of files) {
      const file = folder === '.' ? name : `${folder}/${name}`;
      let headings: string[] = [];
      for (const block of readFileSync(join(root, file), 'utf8').split(/\n\s*\n|\n(?=[|#-] ?)/)) {
        const [, marks, heading] = /^(#+) (.*)/.exec(block) ?? [];
        if (marks !== undefined) headings = [...headings.slice(0, marks.length - 1), heading as string];
        else if (block.trim().length > 20) found.push({ file, text: `${headings.join(' > ')}\n${block.trim()}` });
      }
    }
  }
  return found;
}

const entryOf = (key: Record<string, unknown>, content: string, validFrom?: number): NewEntry => ({
  key,
  content,
  tier: 'episodic',
  tags: [],
  source: '',
  score: 1,
  ttl: 0,
  createdAt: 0,
  updatedAt: 0,
  validFrom,
  validUntil: undefined,
  supersedes: [],
  metadata: undefined,
});

export async function quality(print: (line: string) => void): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'handfast-bench-quality-'));
  const { maxEntries, maxBytes, maxEntryBytes, historyVersions, workingDays } = MEMORY_DEFAULTS;
  const engine = new MemoryEngine({
    folder,
    quotaEntries: maxEntries,
    quotaBytes: maxBytes,
    maxEntryBytes,
    historyVersions,
    workingDays,
  });
  const memoryOf = async (namespace: string): Promise<string> =>
    (await engine.run('init', asker, { agent: 'quality', namespace, scope: {} })).memory;
  const store = async (memory: string, entries: readonly NewEntry[]): Promise<void> => {
    for (let at = 0; at < entries.length; at += 500) {
      const batch = entries.slice(at, at + 500);
      await engine.run('store', asker, { memory, entries: batch, at: batch.map((_, n) => n) });
    }
  };
  const search = async (memory: string, query: string, ranking: RankingName, limit: number) => {
    const request = {
      memory,
      spaces: [],
      keys: [],
      tags: [],
      tier: undefined,
      query,
      limit,
      minScore: 0,
      cursor: '',
      asOf: undefined,
      ranking,
      allVersions: false,
    };
    const { entries } = await engine.run('retrieve', asker, request);
    return entries as { key: Record<string, unknown>; content: string }[];
  };
  try {
    const all = passages();
    const pages = await memoryOf('pages');
    await store(
      pages,
      all.map(({ file, text }, at) => entryOf({ file, at }, text)),
    );
    const answers = questions.map(([, file, words]) =>
      all.flatMap((passage, at) => (passage.file === file && passage.text.includes(words) ? [at] : [])),
    );
    const lost = questions.filter((_, at) => answers[at]?.length === 0);
    if (lost.length > 0)
      throw new Error(`no passage has the words of: ${lost.map(([question]) => question).join(' · ')}`);
    print(`quality: ${questions.length} questions about ${all.length} passages`);
    for (const ranking of RANKINGS) {
      let recall = 0;
      let gain = 0;
      for (const [at, [question]] of questions.entries()) {
        const right = new Set(answers[at]);
        const found = (await search(pages, question, ranking, 10)).map(({ key }) => right.has(key.at as number));
        if (found.slice(0, 5).includes(true)) recall += 1;
        const ideal = sum(Array.from({ length: Math.min(10, right.size) }, () => true));
        gain += sum(found) / ideal;
      }
      print(
        `  ${ranking.padEnd(8)} recall@5 ${(recall / questions.length).toFixed(3)}   nDCG@10 ${(gain / questions.length).toFixed(3)}`,
      );
    }
    await staleness(print, memoryOf, store, search);
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Discounted gain: what is found further down counts less. */
const sum = (found: readonly boolean[]): number =>
  found.reduce((gain, hit, at) => gain + (hit ? 1 / Math.log2(at + 2) : 0), 0);

const PEOPLE = [
  'Ada',
  'Bob',
  'Cleo',
  'Dan',
  'Eva',
  'Finn',
  'Gia',
  'Hugo',
  'Ines',
  'Jan',
  'Kim',
  'Lars',
  'Mia',
  'Nils',
  'Olga',
];
const FACTS: Readonly<Record<string, readonly string[]>> = {
  city: ['lives in Rome', 'moved to Paris and lives there', 'now lives in Oslo'],
  job: ['works as a baker', 'works as a pilot', 'works as a nurse'],
  pet: ['has a cat', 'has a dog', 'has no pet any more'],
};

/** Facts that changed twice: each change under its key, and each as an entry of its own as in a plain log. */
async function staleness(
  print: (line: string) => void,
  memoryOf: (namespace: string) => Promise<string>,
  store: (memory: string, entries: readonly NewEntry[]) => Promise<void>,
  search: (memory: string, query: string, ranking: RankingName, limit: number) => Promise<{ content: string }[]>,
): Promise<void> {
  for (const keyed of [true, false]) {
    const memory = await memoryOf(keyed ? 'keyed' : 'log');
    const facts = Object.entries(FACTS).flatMap(([fact, versions]) =>
      versions.flatMap((text, version) =>
        PEOPLE.map((name) => entryOf({ name, fact, ...(!keyed && { version }) }, `${name} ${text}`, 1000 + version)),
      ),
    );
    facts.sort((left, right) => (left.validFrom as number) - (right.validFrom as number));
    await store(memory, facts);
    for (const ranking of RANKINGS) {
      let current = 0;
      let stale = 0;
      let shown = 0;
      for (const name of PEOPLE) {
        for (const [question, fact] of [
          [`Where does ${name} live?`, 'city'],
          [`What does ${name} work as?`, 'job'],
          [`Which pet does ${name} have?`, 'pet'],
        ] as const) {
          const versions = (FACTS[fact] as readonly string[]).map((text) => `${name} ${text}`);
          const found = (await search(memory, question, ranking, 5)).map(({ content }) => content);
          if (found[0] === versions.at(-1)) current += 1;
          const old = new Set(
            Object.values(FACTS).flatMap((texts) =>
              PEOPLE.flatMap((one) => texts.slice(0, -1).map((text) => `${one} ${text}`)),
            ),
          );
          stale += found.filter((text) => old.has(text)).length;
          shown += found.length;
        }
      }
      const asked = PEOPLE.length * 3;
      print(
        `  ${(keyed ? 'facts under keys' : 'the same as a log').padEnd(18)} ${ranking.padEnd(8)} current-fact@1 ${(current / asked).toFixed(3)}   stale hits ${(stale / Math.max(1, shown)).toFixed(3)}`,
      );
    }
  }
}
