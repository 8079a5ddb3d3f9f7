/**
 * The stored chains of a principal, each in versions that count from 1. A version never changes, and no number is given twice: a run
 * has a copy of its own, and histories name what it is a copy of.
 *
 * Made by `plugin.ts`, over its store: `chain/<name>/<version>`, and `last/<name>` with the last number where that version was removed.
 */
import { digestOfJson } from '../../base/canonical-json.ts';
import { pageOf } from '../../base/page.ts';
import type { CallContext } from '../../host/context.ts';
import { isChainName } from './chain-ref.ts';
import type { ChainPutReq, StoredChain } from './chains.schema.ts';
import { failure } from './errors.ts';

type Context = Pick<CallContext, 'store'>;
/** A chain as it is put. */
type Given = {
  readonly [Name in keyof Omit<ChainPutReq, 'type' | 'id' | 'name' | 'if_version' | 'a2e' | 'ts'>]:
    | ChainPutReq[Name]
    | undefined;
} & Pick<ChainPutReq, 'nodes'>;

/** Versions read at a time. */
const PAGE = 200;
/** Versions sort by their key. */
const keyOf = (name: string, version: number): string => `${prefixOf(name)}${String(version).padStart(9, '0')}`;
const lastKeyOf = (name: string): string => `last/${name}`;
const prefixOf = (name: string): string => `chain/${name}/`;

export class Library {
  readonly #maxChains: number;

  /** @param maxChains versions of one principal */
  constructor(maxChains: number) {
    this.#maxChains = maxChains;
  }

  /** A version, the newest where none is named. Fails with `chains.unknown_chain`. */
  get(name: string, version: number | undefined, context: Context): StoredChain {
    const found =
      version === undefined
        ? this.#versions(name, context).at(-1)
        : context.store.principal.get<StoredChain>(keyOf(checkedName(name), version));
    if (found !== undefined) return found;
    const which = version === undefined ? '' : ` with the version ${version}`;
    throw failure('unknown_chain', `there is no stored chain ${JSON.stringify(name.slice(0, 64))}${which}`, {
      name: name.slice(0, 64),
      ...(version !== undefined && { version }),
    });
  }

  /** Stores the next version, unless the newest is the same. Fails with `chains.conflict`, `chains.full`, `chains.invalid`. */
  async put(
    name: string,
    given: Given,
    ifVersion: number | undefined,
    context: Context,
    now: number,
  ): Promise<{ readonly chain: StoredChain; readonly created: boolean }> {
    const versions = this.#versions(name, context);
    const newest = versions.at(-1);
    const digest = digestOfJson(given);
    if (newest?.digest === digest) return { chain: { ...newest, versions: versions.length }, created: false };
    const version = newest?.version ?? 0;
    if (ifVersion !== undefined && ifVersion !== version) {
      throw failure('conflict', `the newest version is ${version}, not ${ifVersion}`, { name, version });
    }
    if (this.#count(context) >= this.#maxChains) {
      throw failure('full', `${this.#maxChains} versions of chains are stored, as many as a principal may have`, {
        limit: 'max_chains',
        max: this.#maxChains,
      });
    }
    const { description = '', nodes, ...rest } = given;
    const how = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    const created_at = now / 1000;
    const store = context.store.principal;
    const next = Math.max(version, store.get<number>(lastKeyOf(name)) ?? 0) + 1;
    const chain: StoredChain = { ...how, name, version: next, description, nodes, created_at, digest };
    await store.atomically(() => {
      void store.set(keyOf(name, next), chain);
      void store.delete(lastKeyOf(name));
    });
    return { chain: { ...chain, versions: versions.length + 1 }, created: true };
  }

  /** The newest version of each chain by name, or all versions of one, newest first. */
  list(name: string, after: string, limit: number, context: Context): { chains: StoredChain[]; next?: string } {
    const nameOf = (chain: StoredChain): string => (name === '' ? chain.name : String(chain.version));
    const lines = name === '' ? this.#newest(context) : this.#versions(name, context).toReversed();
    const from = after === '' ? 0 : lines.findIndex((chain) => nameOf(chain) === after) + 1;
    const { page, more } = pageOf(lines.slice(from), limit);
    const chains = page.map(({ nodes: _, ...chain }) => chain);
    return { chains, ...(more && { next: nameOf(page.at(-1) as StoredChain) }) };
  }

  /** Fails with `chains.unknown_chain`. */
  async remove(name: string, version: number | undefined, context: Context): Promise<number> {
    const versions = this.#versions(name, context);
    const found = versions.filter((chain) => version === undefined || chain.version === version);
    if (found.length === 0) this.get(name, version, context);
    const store = context.store.principal;
    await store.atomically(() => {
      for (const chain of found) void store.delete(keyOf(name, chain.version));
      const newest = versions.at(-1);
      if (newest !== undefined && found.includes(newest)) {
        const last = Math.max(newest.version, store.get<number>(lastKeyOf(name)) ?? 0);
        void store.set(lastKeyOf(name), last);
      }
    });
    return found.length;
  }

  #versions(name: string, context: Context): StoredChain[] {
    return [...all(prefixOf(checkedName(name)), context)];
  }

  #newest(context: Context): StoredChain[] {
    const newest = new Map<string, StoredChain>();
    for (const chain of all('chain/', context)) {
      const { versions = 0 } = newest.get(chain.name) ?? {};
      newest.set(chain.name, { ...chain, versions: versions + 1 });
    }
    return [...newest.values()];
  }

  #count(context: Context): number {
    let count = 0;
    for (const _ of all('chain/', context)) count += 1;
    return count;
  }
}

function* all(prefix: string, { store }: Context): Generator<StoredChain> {
  let after = '';
  for (;;) {
    const page = store.principal.list<StoredChain>({ prefix, after, limit: PAGE });
    for (const { key, value } of page) {
      after = key;
      yield value;
    }
    if (page.length < PAGE) return;
  }
}

function checkedName(name: string): string {
  if (isChainName(name)) return name;
  throw failure('invalid', 'the name of a chain has 1 to 128 letters, digits, _, . or -', { field: 'name' });
}
