/**
 * The stored chains of a principal, each in versions that count from 1. A version never changes, and no number is given twice:
 * a run has its own copy, and histories name the version that it copies.
 *
 * Stored at `chain/<name>/<version>`, and `last/<name>` with the last number where that version was removed. The list of
 * versions is read once and held in memory, because a chain may be as long as a message and a request must not read them all.
 */
import { digestOfJson } from '../../base/canonical-json.ts';
import { counted } from '../../base/counted.ts';
import { Page } from '../../base/page.ts';
import type { Turns } from '../../base/turns.ts';
import type { CallContext } from '../../host/context.ts';
import { isChainName } from './chain-ref.ts';
import type { ChainPutReq, StoredChain } from './chains.schema.ts';
import { failure } from './errors.ts';

type Context = Pick<CallContext, 'store' | 'session'>;
/** A chain as a request puts it. */
type Given = {
  readonly [Name in keyof Omit<ChainPutReq, 'type' | 'id' | 'name' | 'if_version' | 'a2e' | 'ts'>]:
    | ChainPutReq[Name]
    | undefined;
} & Pick<ChainPutReq, 'nodes'>;

/** Stored chains read at a time. */
const PAGE = 10;
/** Returns a key by which versions sort. */
const keyOf = (name: string, version: number): string => `chain/${name}/${String(version).padStart(9, '0')}`;
const lastKeyOf = (name: string): string => `last/${name}`;

/** For each chain, the digests of its versions, oldest first. */
type Versions = Map<string, Map<number, string>>;

export class Library {
  readonly #maxChains: number;
  readonly #turns: Turns;
  readonly #known = new Map<string, Promise<Versions>>();

  /** @param maxChains versions of one principal */
  constructor(maxChains: number, turns: Turns) {
    this.#maxChains = maxChains;
    this.#turns = turns;
  }

  /** Returns a version; the newest where none is named. Fails with `chains.unknown_chain`. */
  async get(name: string, version: number | undefined, context: Context): Promise<StoredChain> {
    const versions = (await this.#versions(context)).get(checkedName(name));
    const found = this.#read(name, version ?? newestOf(versions), context);
    if (found !== undefined) return found;
    const which = version === undefined ? '' : ` with the version ${version}`;
    throw failure('unknown_chain', `there is no stored chain ${JSON.stringify(name.slice(0, 64))}${which}`, {
      name: name.slice(0, 64),
      ...(version !== undefined && { version }),
    });
  }

  /** Stores the next version, unless the newest is equal. Fails with `chains.conflict`, `chains.full`, `chains.invalid`. */
  async put(
    name: string,
    given: Given,
    ifVersion: number | undefined,
    context: Context,
    now: number,
  ): Promise<{ readonly chain: StoredChain; readonly created: boolean }> {
    const all = await this.#versions(context);
    const versions = all.get(checkedName(name)) ?? new Map<number, string>();
    const version = newestOf(versions);
    const digest = digestOfJson(given);
    const newest = versions.get(version) === digest ? this.#read(name, version, context) : undefined;
    if (newest !== undefined) return { chain: { ...newest, versions: versions.size }, created: false };
    if (ifVersion !== undefined && ifVersion !== version) {
      throw failure('conflict', `the newest version is ${version}, not ${ifVersion}`, { name, version });
    }
    if (countOf(all) >= this.#maxChains) {
      throw failure(
        'full',
        `${counted(this.#maxChains, 'version of chains is', 'versions of chains are')} stored, as many as a principal may have`,
        {
          limit: 'max_chains',
          max: this.#maxChains,
        },
      );
    }
    const { description = '', nodes, ...rest } = given;
    const how = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    const created_at = now / 1000;
    const store = context.store.principal;
    const next = Math.max(version, store.get<number>(lastKeyOf(name)) ?? 0) + 1;
    const chain: StoredChain = { ...how, name, version: next, description, nodes, created_at, digest };
    // Recorded before the version is on disk, so that the next put makes the version behind it.
    all.set(name, versions.set(next, digest));
    const count = versions.size;
    await this.#written(
      context,
      store.atomically(() => {
        void store.set(keyOf(name, next), chain);
        void store.delete(lastKeyOf(name));
      }),
    );
    return { chain: { ...chain, versions: count }, created: true };
  }

  /** Lists the newest version of each chain by name, or all versions of one, newest first. */
  async list(
    name: string,
    after: string,
    limit: number,
    context: Context,
  ): Promise<{ chains: StoredChain[]; next?: string }> {
    const all = await this.#versions(context);
    const wanted =
      name === ''
        ? [...all]
            .filter(([one]) => one > after)
            .sort(([one], [other]) => (one < other ? -1 : 1))
            .map(([one, versions]) => ({ name: one, version: newestOf(versions), versions: versions.size }))
        : [...(all.get(checkedName(name))?.keys() ?? [])]
            .filter((version) => after === '' || version < Number(after))
            .toReversed()
            .map((version) => ({ name, version }));
    const page = new Page<StoredChain>(limit);
    for (const one of wanted) {
      while (this.#turns.over) await this.#turns.next();
      const found = this.#read(one.name, one.version, context);
      // A version that was removed meanwhile is left out.
      if (found === undefined) continue;
      const { nodes: _, ...chain } = found;
      if (!page.add({ ...chain, ...one })) break;
    }
    const last = page.page.at(-1) as StoredChain;
    return { chains: page.page, ...(page.more && { next: name === '' ? last.name : String(last.version) }) };
  }

  /** Removes a version, or all versions. Fails with `chains.unknown_chain`. */
  async remove(name: string, version: number | undefined, context: Context): Promise<number> {
    const all = await this.#versions(context);
    const versions = all.get(checkedName(name)) ?? new Map<number, string>();
    const newest = newestOf(versions);
    const found = [...versions.keys()].filter((one) => version === undefined || one === version);
    if (found.length === 0) await this.get(name, version, context);
    for (const one of found) versions.delete(one);
    if (versions.size === 0) all.delete(name);
    const store = context.store.principal;
    await this.#written(
      context,
      store.atomically(() => {
        for (const one of found) void store.delete(keyOf(name, one));
        if (!found.includes(newest)) return;
        void store.set(lastKeyOf(name), Math.max(newest, store.get<number>(lastKeyOf(name)) ?? 0));
      }),
    );
    return found.length;
  }

  #read(name: string, version: number, { store }: Context): StoredChain | undefined {
    return store.principal.get<StoredChain>(keyOf(name, version));
  }

  /**
   * Awaits a write whose effect is already in memory. After a failed write, drops the list in memory, so that all of it is read
   * again.
   */
  async #written({ session }: Context, write: Promise<unknown>): Promise<void> {
    try {
      await write;
    } catch (error) {
      this.#known.delete(session.principal.name);
      throw error;
    }
  }

  #versions(context: Context): Promise<Versions> {
    const owner = context.session.principal.name;
    const known = this.#known.get(owner) ?? this.#load(context);
    this.#known.set(owner, known);
    known.catch(() => this.#known.delete(owner));
    return known;
  }

  async #load({ store }: Context): Promise<Versions> {
    const all: Versions = new Map();
    let after = '';
    for (;;) {
      while (this.#turns.over) await this.#turns.next();
      const page = store.principal.list<StoredChain>({ prefix: 'chain/', after, limit: PAGE });
      for (const { key, value } of page) {
        after = key;
        const versions = all.get(value.name) ?? new Map<number, string>();
        all.set(value.name, versions.set(value.version, value.digest));
      }
      if (page.length < PAGE) return all;
    }
  }
}

const newestOf = (versions: ReadonlyMap<number, string> | undefined): number =>
  Math.max(0, ...(versions?.keys() ?? []));

function countOf(all: Versions): number {
  let count = 0;
  for (const { size } of all.values()) count += size;
  return count;
}

function checkedName(name: string): string {
  if (isChainName(name)) return name;
  throw failure('invalid', 'the name of a chain has 1 to 128 letters, digits, _, . or -', { field: 'name' });
}
