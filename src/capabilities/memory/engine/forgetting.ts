/**
 * Deletes the selected entries, and their bytes from the files: several at a time, so that requests of others come in between.
 *
 * After a kill in between, some entries are deleted and the caller has no reply; it repeats the request.
 */
import { canonical, type MemoryKey } from '../key.ts';
import { MAX_CHANGED_KEYS } from '../limits.ts';
import { type MemoryDatabase, seconds } from './database.ts';
import type { Source } from './reads.ts';
import type { ForgetRequest, Reply, Tier } from './types.ts';
import { deleteKey, deleteSome, deleteVersion } from './writes.ts';

/** Approximate bytes that one transaction puts into the log. */
const SLICE_LOG_BYTES = 1024 * 1024;

type Forgotten = Omit<Reply<'forget'>, 'name'>;

const NOTHING: Forgotten = { deleted: 0, erased: true, changed: [], more: false };

/** The selected versions. */
interface Chosen {
  readonly ids: ReadonlySet<number>;
  /** Deletes only versions that were stored before this time. */
  readonly before: number;
  /** Entries that had expired by this time are deleted and not counted. */
  readonly now: number;
}

export async function forget({ database, parts }: Source, request: ForgetRequest): Promise<Forgotten> {
  const before = request.before ?? Number.MAX_SAFE_INTEGER;
  const ids = parts.flatMap(({ part }) => idsIn(database, part, request));
  if (ids.length === 0) return NOTHING;
  const chosen = { ids: new Set(ids), before, now: seconds() };
  const tiers = new Map(parts.map(({ part, tier }) => [part, tier as Tier]));
  const changed: { key: MemoryKey; tier: Tier }[] = [];
  let held = 0;
  let any = false;
  for (let at = 0; at < ids.length; ) {
    const from = at;
    const slice = await database.write(() => deleteSlice(database, ids, from, chosen), SLICE_LOG_BYTES);
    at = slice.next;
    any ||= slice.versions > 0;
    held += slice.held.length;
    for (const { part, key } of slice.held) {
      if (changed.length < MAX_CHANGED_KEYS) changed.push({ key: JSON.parse(key), tier: tiers.get(part) as Tier });
    }
  }
  if (!any) return NOTHING;
  return { deleted: held, erased: database.erase(), changed, more: held > changed.length };
}

/** Returns the versions that a request selects in a part, regardless of their time; each list comes from a separate index. */
function idsIn(database: MemoryDatabase, part: number, { keys, tags, sources, before }: ForgetRequest): number[] {
  const list = 'IN (SELECT value FROM json_each(?))';
  const ids = (sql: string, ...values: (string | number)[]): number[] => {
    const statement = database.sql(sql);
    statement.setReturnArrays(true);
    return (statement.all(part, ...values) as unknown as [number][]).map(([id]) => id);
  };
  if (keys.length + tags.length + sources.length === 0)
    return before === undefined ? [] : ids('SELECT id FROM entry WHERE part = ? AND stored_at < ?', before);
  const named = sources.filter((source) => source !== '');
  return [
    ...new Set([
      ...(keys.length === 0
        ? []
        : ids(`SELECT id FROM entry WHERE part = ? AND key ${list}`, JSON.stringify(keys.map(canonical)))),
      ...(tags.length === 0 ? [] : ids(`SELECT entry FROM tag WHERE part = ? AND tag ${list}`, JSON.stringify(tags))),
      ...(named.length === 0
        ? []
        : ids(`SELECT id FROM entry WHERE part = ? AND source <> '' AND source ${list}`, JSON.stringify(named))),
    ]),
  ];
}

/** Deletes versions from position `from` on; returns the position to continue at, and the keys that had not expired. */
function deleteSlice(
  database: MemoryDatabase,
  ids: readonly number[],
  from: number,
  { ids: selected, before, now }: Chosen,
): { next: number; versions: number; held: { part: number; key: string }[] } {
  const keyOf = database.sql('SELECT part, key FROM entry WHERE id = ?');
  const versionsOf = database.sql(
    'SELECT id, stored_at, expires FROM entry WHERE part = ? AND key = ? ORDER BY starts DESC, id DESC',
  );
  const held: { part: number; key: string }[] = [];
  let versions = 0;
  const next = deleteSome(database, ids, from, (id) => {
    const found = keyOf.get(id) as { part: number; key: string } | undefined;
    // An earlier step deleted the whole key.
    if (found === undefined) return 0;
    const { part, key } = found;
    const all = versionsOf.all(part, key) as { id: number; stored_at: number; expires: number }[];
    const gone = all.filter(({ id, stored_at }) => selected.has(id) && stored_at < before);
    if (gone.length === 0) return 0;
    if (gone.some(({ expires }) => expires > now)) held.push({ part, key });
    versions += gone.length;
    // Without its newest version, an older one would hold again: the key is deleted as a whole.
    if (gone[0] === all[0]) return deleteKey(database, part, key);
    for (const version of gone) deleteVersion(database, version.id);
    return gone.length;
  });
  return { next, versions, held };
}
