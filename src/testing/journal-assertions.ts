/**
 * Assertions of a test about a journal: that it has everything once, in order, and no entry that was not sent to a
 * client.
 */
import { deepEqual, equal, ok } from 'node:assert/strict';
import type { Gap, Journal, JournalEntry } from '../journal/journal.ts';

/**
 * Returns all entries of a session in a journal, page by page; ranges that retention removed are {@link Gap}s in their
 * place.
 */
export async function journalOf(journal: Journal, session: string, after = 0): Promise<(JournalEntry | Gap)[]> {
  const found: (JournalEntry | Gap)[] = [];
  for (let cursor = after; ; ) {
    const { entries, gap, last } = await journal.read(session, cursor);
    if (gap !== undefined) found.push(gap);
    found.push(...entries);
    cursor = entries.at(-1)?.cursor ?? gap?.to ?? last;
    if (cursor >= last) return found;
  }
}

const isGap = (item: JournalEntry | Gap): item is Gap => 'from' in item;

/** Asserts that the session's cursors are 1, 2, 3 … without a gap or a repetition. Returns the entries. */
export async function assertWholeJournal(journal: Journal, session: string): Promise<readonly JournalEntry[]> {
  const items = await journalOf(journal, session);
  deepEqual(items.filter(isGap), [], `the journal of ${session} has gaps`);
  const entries = items.filter((item): item is JournalEntry => !isGap(item));
  deepEqual(
    entries.map(({ cursor }) => cursor),
    entries.map((_, index) => index + 1),
    `the cursors of ${session} are not 1, 2, 3 …`,
  );
  return entries;
}

/** Asserts that each request in the journal has exactly one reply or error, and that its events precede it. */
export async function assertRequestsSettled(journal: Journal, session: string): Promise<void> {
  const replies = new Map<string, number>();
  const requests = new Set<string>();
  for (const item of await journalOf(journal, session)) {
    if (isGap(item) || item.request === '') continue;
    if (item.kind === 'request') requests.add(item.request);
    if (item.kind === 'event') ok(!replies.has(item.request), `an event of ${item.request} follows its reply`);
    if (item.kind === 'reply' || item.kind === 'error') {
      replies.set(item.request, (replies.get(item.request) ?? 0) + 1);
    }
  }
  for (const request of requests) equal(replies.get(request) ?? 0, 1, `${request} has no single reply`);
}
