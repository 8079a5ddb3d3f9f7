/**
 * The quality of each ranking's answers to questions about this repository: its pages, a passage an entry, and recorded
 * sessions, a turn an entry, all in one memory. It also counts how often a search shows outdated facts, with keys and
 * without.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { MemoryEngine } from '../../src/capabilities/memory/engine/engine.ts';
import type { NewEntry, RankingName } from '../../src/capabilities/memory/engine/types.ts';
import { MEMORY_DEFAULTS } from '../../src/capabilities/memory/limits.ts';
import { journalQuestions } from './dialogues.ts';
import { questions } from './questions.ts';

const RANKINGS: readonly RankingName[] = ['lexical', 'vector', 'hybrid'];
const asker = { principal: 'quality', agent: 'quality', session: 'quality' };
const root = join(import.meta.dirname, '..', '..');
const folders = ['.', 'docs', 'docs/security', 'docs/protocol', 'docs/decisions'];

interface Passage {
  readonly file: string;
  readonly text: string;
}

/** Returns the pages, cut at blank lines and between the rows of tables; each passage begins with the headings above it. */
function passages(): Passage[] {
  const found: Passage[] = [];
  for (const folder of folders) {
    // Generated pages repeat the content of others.
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

interface RecordedTurn {
  readonly title: string;
  readonly turn: number;
  /** The question, the work and the answer of the turn. */
  readonly text: string;
}

/** Returns the turns that `record-journals.ts` recorded. */
const recordedTurns = (): RecordedTurn[] =>
  readFileSync(join(import.meta.dirname, 'journals.ndjson'), 'utf8')
    .trim()
    .split('\n')
    .map((line) => {
      const { title, turn, prompt, tools, text } = JSON.parse(line) as {
        title: string;
        turn: number;
        prompt: string;
        tools: { name: string; output: string }[];
        text: string;
      };
      const done = tools.map(({ name, output }) => `${name}: ${output}`);
      return { title, turn, text: [title, prompt, ...done, text].join('\n') };
    });

const placeOf = (title: string, turn: number): string => `${title} ${turn}`;

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
    const turns = recordedTurns();
    const mixed = await memoryOf('pages and sessions');
    await store(mixed, [
      ...all.map(({ file, text }, at) => entryOf({ at, file }, text)),
      ...turns.map(({ title, turn, text }) => entryOf({ at: placeOf(title, turn), title }, text)),
    ]);
    const ofPages = questions.map(([question, file, words]) => ({
      question,
      right: new Set(all.flatMap(({ file: of, text }, at) => (of === file && text.includes(words) ? [at] : []))),
    }));
    const ofTurns = journalQuestions.map(({ question, title, turn }) => ({
      question,
      right: new Set(turns.some((one) => one.title === title && one.turn === turn) ? [placeOf(title, turn)] : []),
    }));
    const lost = [...ofPages, ...ofTurns].filter(({ right }) => right.size === 0);
    if (lost.length > 0)
      throw new Error(`nothing has the answer to: ${lost.map(({ question }) => question).join(' · ')}`);
    print(`quality: ${all.length} passages of pages and ${turns.length} turns of sessions in one memory`);
    for (const ranking of RANKINGS) {
      for (const [kind, asked] of [
        ['pages', ofPages],
        ['sessions', ofTurns],
      ] as const) {
        let recall = 0;
        let gain = 0;
        for (const { question, right } of asked) {
          const found = (await search(mixed, question, ranking, 10)).map(({ key }) => right.has(key.at as never));
          if (found.slice(0, 5).includes(true)) recall += 1;
          gain += sum(found) / sum(Array.from({ length: Math.min(10, right.size) }, () => true));
        }
        print(
          `  ${kind.padEnd(9)} ${ranking.padEnd(8)} ${asked.length} questions   recall@5 ${(recall / asked.length).toFixed(3)}   nDCG@10 ${(gain / asked.length).toFixed(3)}`,
        );
      }
    }
    await staleTurns(print, memoryOf, store, search, turns);
    await staleness(print, memoryOf, store, search);
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

/**
 * Stores questions whose answer a later turn has changed: as turns in a row, and with the fact of both turns under one
 * key.
 */
async function staleTurns(
  print: (line: string) => void,
  memoryOf: (namespace: string) => Promise<string>,
  store: (memory: string, entries: readonly NewEntry[]) => Promise<void>,
  search: (memory: string, query: string, ranking: RankingName, limit: number) => Promise<{ content: string }[]>,
  turns: readonly RecordedTurn[],
): Promise<void> {
  const changed = journalQuestions.flatMap(({ stale, ...now }) => (stale === undefined ? [] : [{ now, stale }]));
  const factOf = (turn: RecordedTurn): string | undefined =>
    changed.find(({ now, stale }) => [now, stale].some((one) => one.title === turn.title && one.turn === turn.turn))
      ?.now.question;
  const textOf = (wanted: { readonly title: string; readonly turn: number }): string | undefined =>
    turns.find(({ title, turn }) => title === wanted.title && turn === wanted.turn)?.text;
  for (const keyed of [true, false]) {
    const memory = await memoryOf(keyed ? 'turns under keys' : 'turns');
    const entries = turns.map((turn, at) => {
      const fact = keyed ? factOf(turn) : undefined;
      return entryOf(fact === undefined ? { at: placeOf(turn.title, turn.turn) } : { fact }, turn.text, 1000 + at);
    });
    await store(memory, entries);
    for (const ranking of RANKINGS) {
      let current = 0;
      let stale = 0;
      for (const { now, stale: old } of changed) {
        const found = (await search(memory, now.question, ranking, 5)).map(({ content }) => content);
        const [right, wrong] = [found.indexOf(textOf(now) ?? ''), found.indexOf(textOf(old) ?? '')];
        if (right !== -1 && (wrong === -1 || right < wrong)) current += 1;
        if (wrong !== -1) stale += 1;
      }
      print(
        `  ${(keyed ? 'turns, facts under keys' : 'turns as a log').padEnd(23)} ${ranking.padEnd(8)} current before stale ${(current / changed.length).toFixed(2)}   stale among 5 ${(stale / changed.length).toFixed(2)}`,
      );
    }
  }
}

/** Returns the discounted gain: results further down count less. */
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

/** Measures facts that changed twice: each change under its key, and each as a separate entry as in a plain log. */
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
