/**
 * `npm run record-tour`: records the tour with the present host, and replaces the stored recording when they differ
 * relevantly. The differences are printed; ids and times count from one, so that a review sees only lines that changed.
 */
import { createHash } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { Bindings, madeUpIds, VolatilePaths } from '../../src/recording/compare.ts';
import { type Entry, MESSAGES_FILE, type Recording } from '../../src/recording/format.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { root } from '../rules/scan.ts';
import { STORED, TourUser } from './tour-recording.ts';

const DAY = '2026-01-01T00:00:00Z';
const DAY_SECONDS = Date.parse(DAY) / 1000;

const user = await TourUser.prepared();
try {
  const printed = await user.recorded('now');
  console.log(printed.join('\n'));
  const there = existsSync(STORED);
  const { code, stdout } = there ? await user.run(['diff', STORED, 'now', '--all']) : { code: 1, stdout: '' };
  if (code === 0) console.log(`${relative(root, STORED)} is as it was`);
  else {
    writeFileSync(STORED, countedFrom(readBundle(join(user.cwd, 'now'))));
    console.log(`${stdout}${relative(root, STORED)} was written`);
  }
} finally {
  await user.leave();
}

/** Returns a recording as one file, with the n-th id and one time in place of those of this run. */
function countedFrom({ manifest, entries }: Recording): string {
  const ids = new Set<string>();
  for (const entry of entries) madeUpIds(entry, ids);
  const counted = new Bindings();
  const makers = new Map<string, string>();
  for (const [at, id] of [...ids].entries()) counted.pair(id, countedId(id, at + 1, makers));
  const lines = entries.map((entry): string => {
    const plain = 'message' in entry ? { ...entry, message: timeless(entry, manifest) } : entry;
    return JSON.stringify(counted.translate({ ...plain, ms: entry.seq }));
  });
  const messages = lines.map((line) => `${line}\n`).join('');
  const sha256 = createHash('sha256').update(messages).digest('hex');
  const files = { [MESSAGES_FILE]: { bytes: Buffer.byteLength(messages), sha256 } };
  return `${JSON.stringify({ ...manifest, started_at: DAY, ended_at: DAY, software: {}, files })}\n${messages}`;
}

/** Returns an id of the same form that contains its ordinal number; those of one maker keep their own numbers. */
function countedId(id: string, at: number, makers: Map<string, string>): string {
  const [, maker, number] = /^([0-9a-z]{5})-(\d{1,12})$/.exec(id) ?? [];
  if (maker !== undefined) {
    const known = makers.get(maker) ?? `m${String(makers.size + 1).padStart(4, '0')}`;
    makers.set(maker, known);
    return `${known}-${number}`;
  }
  if (id.startsWith('sub_')) return `sub_a${String(at).padStart(7, '0')}`;
  if (id.includes('-')) return `00000000-0000-4000-8000-${String(at).padStart(12, '0')}`;
  return `a${String(at).padStart(id.length - 1, '0')}`;
}

/** Returns the message with one time in place of its times, and without durations and numbers of processes. */
function timeless(entry: Extract<Entry, { message: object }>, { volatile }: Recording['manifest']): unknown {
  const places = new VolatilePaths(volatile[entry.from]);
  const walk = (value: unknown, path: readonly string[]): unknown => {
    if (typeof value === 'number' && places.has(path)) {
      if (value > 1e9) return DAY_SECONDS;
      return /^pid$|_ms$/.test(path.at(-1) ?? '') ? 0 : value;
    }
    if (typeof value !== 'object' || value === null) return value;
    if (Array.isArray(value)) return value.map((each, at) => walk(each, [...path, String(at)]));
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, walk(each, [...path, name])]));
  };
  return walk(entry.message, []);
}
