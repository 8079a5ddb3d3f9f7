/**
 * Choosing how to search: lexical, vector or hybrid ranking of the memory capability, learned from whether the wanted section is
 * among the first five (hit@5), against the best fixed choice.
 *
 * The entries are the sections of the pages in `docs/`, without their headings. The queries are those headings, and words
 * in code style that occur in one section only; so the wanted entry is known.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Bandit } from '../../src/base/bandits/bandit.ts';
import { Random, seeded } from '../../src/base/bandits/random.ts';
import type { PolicySettings } from '../../src/base/bandits/settings.ts';
import { memory } from '../../src/capabilities/memory/capability.ts';
import { connect } from '../../src/connect.ts';
import { createHost } from '../../src/host/host.ts';
import { type Band, bandOf } from './play.ts';

export const rankings = ['lexical', 'vector', 'hybrid'] as const;

/** A query, numbers that describe it, and whether each ranking finds the wanted entry. */
interface Judged {
  readonly kind: 'heading' | 'name';
  readonly features: readonly number[];
  /** In the order of {@link rankings}. */
  readonly hits: readonly number[];
}

const MAX_NAMES = 400;
const MARKS = 50;

interface Section {
  readonly key: string;
  readonly heading: string;
  readonly text: string;
}

function sections(): Section[] {
  const docs = join(import.meta.dirname, '../../docs');
  const pages = readdirSync(docs).filter((name) => name.endsWith('.md'));
  return pages.flatMap((page) =>
    readFileSync(join(docs, page), 'utf8')
      .split(/^#+ /m)
      .slice(1)
      .map((part, at) => {
        const [heading = '', ...lines] = part.split('\n');
        return { key: `${page}#${at}`, heading, text: lines.join('\n').trim().slice(0, 4000) };
      })
      .filter(({ text, heading }) => text.length > 80 && heading.length > 3),
  );
}

function queriesOf(all: readonly Section[]) {
  const headings = all.map(({ heading, key }) => ({ kind: 'heading' as const, text: heading, wanted: key }));
  const places = new Map<string, Set<string>>();
  for (const { key, text } of all) {
    for (const [, name = ''] of text.matchAll(/`([\w./-]{4,40})`/g)) {
      const found = places.get(name) ?? new Set();
      places.set(name, found.add(key));
    }
  }
  const names = [...places]
    .filter(([name, keys]) => keys.size === 1 && all.filter(({ text }) => text.includes(name)).length === 1)
    .slice(0, MAX_NAMES)
    .map(([name, [wanted = '']]) => ({ kind: 'name' as const, text: name, wanted }));
  return [...headings, ...names];
}

/** Returns the facts about a query that an agent can see before it searches. */
function featuresOf(text: string): number[] {
  const words = text.split(/\s+/).length;
  return [Math.min(words, 8) / 8, /[._/-]/.test(text) ? 1 : 0, Math.min(text.length, 40) / 40];
}

/** Runs every query by every ranking, over the wire of a host in this process. */
export async function judgedQueries(): Promise<Judged[]> {
  const plugin = await memory.plugin?.({});
  const host = createHost({ plugins: [plugin ?? []].flat() });
  await host.start();
  const agent = await connect(host, { capabilities: ['memory'], agentId: 'bench' });
  try {
    const all = sections();
    const opened = await agent.memory.open();
    await opened.store(all.map(({ key, text }) => ({ key, content: text, tags: [key] })));
    const judged: Judged[] = [];
    for (const { kind, text, wanted } of queriesOf(all)) {
      const hits: number[] = [];
      for (const ranking of rankings) {
        const { entries } = await opened.search(text, { ranking, limit: 5 });
        hits.push(entries.some(({ tags }) => tags?.includes(wanted)) ? 1 : 0);
      }
      judged.push({ kind, features: featuresOf(text), hits });
    }
    return judged;
  } finally {
    await agent.close();
    await host.close(0);
  }
}

/**
 * Returns the mean hit@5 of each fixed ranking, and of policies that learn it query by query; each seed has another
 * order.
 */
export function playSearch(judged: readonly Judged[], seeds: number): Band[] {
  const learners: readonly (readonly [string, PolicySettings])[] = [
    ['uniform', { name: 'uniform' }],
    ['Thompson, Beta', { name: 'thompson_beta' }],
    ['LinUCB', { name: 'linucb', alpha: 0.3 }],
  ];
  const run = (policy: PolicySettings | number, seed: number): number[] => {
    const random = new Random(seeded(`order ${seed}`));
    const order = judged.map((one) => ({ one, at: random.unit() })).sort((left, right) => left.at - right.at);
    const bandit = typeof policy === 'number' ? undefined : Bandit.start(policy, seed);
    const marks = [0];
    let sum = 0;
    for (const [index, { one }] of order.entries()) {
      const { features, hits } = one;
      const option = bandit?.decide({ options: rankings, features }).option ?? rankings[policy as number]!;
      const hit = hits[rankings.indexOf(option as (typeof rankings)[number])]!;
      bandit?.learn(option, hit, features);
      sum += hit;
      if (index + 1 >= (marks.length * order.length) / MARKS) marks.push(sum / (index + 1));
    }
    return marks;
  };
  const each = (label: string, policy: PolicySettings | number): Band =>
    bandOf(
      label,
      Array.from({ length: seeds }, (_, seed) => run(policy, seed)),
    );
  return [
    ...rankings.map((name, at) => each(`always ${name}`, at)),
    ...learners.map(([label, policy]) => each(label, policy)),
  ];
}
