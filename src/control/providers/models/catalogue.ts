/**
 * The models that can be chosen: each provider's own list, stored in `<home>/models-cache.json`, so that looking
 * something up never waits for a network.
 *
 * Only `refresh` asks a provider; the methods about models and sign-ins decide when.
 */
import { join } from 'node:path';
import type { Log } from '../../../base/log.ts';
import { readPrivateFile, removePrivateFile, writePrivateFile } from '../../../base/private-file.ts';
import { SerialWork } from '../../../base/serial-work.ts';
import { type ModelOption, PROVIDERS, type Provider } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';
import { type Fetch, record, records, textOf } from '../http/http-json.ts';
import { defaultModelId, firstRows, modelRow } from './known-models.ts';
import { fetchModels, fetchRoutingProviders } from './model-sources.ts';

/** A list older than this is read again at the next start. */
const STALE_AFTER_MS = 24 * 60 * 60 * 1_000;
/** The routing providers of a model cost a request each, so only short lists are requested ahead. */
const MAX_ROUTED_AHEAD = 16;

/** Origin of rows: read just now, stored, or built in because no list was ever read. */
export type RowSource = 'remote' | 'cache' | 'fallback';

export interface CatalogueOptions {
  readonly home: string;
  readonly fetch: Fetch;
  readonly log: Log;
  /** Epoch milliseconds. */
  readonly now: () => number;
  /** Ids of the compatible server that cannot list its own. */
  readonly compatibleModels: readonly string[];
}

interface StoredList {
  readonly fetchedAt: number;
  /** Address the list was read from; when it changes, the list is read again at the next start. */
  readonly baseUrl: string;
  readonly models: readonly ModelOption[];
}

export class Catalogue {
  readonly #options: CatalogueOptions;
  readonly #file: string;
  readonly #lists: Map<Provider, StoredList>;
  readonly #writes = new SerialWork();
  /** Grows with `clear`, so that a list that was being read meanwhile is not stored. */
  #generation = 0;

  private constructor(options: CatalogueOptions, file: string, lists: Map<Provider, StoredList>) {
    this.#options = options;
    this.#file = file;
    this.#lists = lists;
  }

  /** Reads the stored lists. A damaged file counts as none; it is replaced after the next list. */
  static async open(options: CatalogueOptions): Promise<Catalogue> {
    const file = join(options.home, 'models-cache.json');
    return new Catalogue(options, file, new Map(readLists(await readPrivateFile(file, options.log))));
  }

  /** Returns the rows of a provider. From memory. */
  models(provider: Provider): readonly ModelOption[] {
    const listed = this.#lists.get(provider)?.models ?? firstRows(provider);
    if (provider !== 'compatible') return listed;
    const missing = this.#options.compatibleModels.filter((id) => !listed.some((row) => row.id === id));
    return [...listed, ...missing.map((id) => modelRow('compatible', { id }))];
  }

  /** Returns one row; undefined when the provider does not list it. */
  find(provider: Provider, id: string): ModelOption | undefined {
    return this.models(provider).find((row) => row.id === id);
  }

  /** Returns the model of a provider that is used where none was chosen; undefined when it lists none. */
  defaultModel(provider: Provider): ModelOption | undefined {
    const rows = this.models(provider);
    const wanted = defaultModelId(provider);
    // Lists may name the dated builds of a model only: claude-sonnet-4-5-20250929.
    const dated = (id: string): boolean =>
      wanted !== undefined && /^-\d/.test(id.slice(wanted.length)) && id.startsWith(wanted);
    return rows.find(({ id }) => id === wanted) ?? rows.find(({ id }) => dated(id)) ?? rows[0];
  }

  /** True when a provider's rows come from its list as it was within the last day at this address. */
  isFresh(provider: Provider, baseUrl: string): boolean {
    const list = this.#lists.get(provider);
    return list !== undefined && list.baseUrl === baseUrl && this.#options.now() - list.fetchedAt < STALE_AFTER_MS;
  }

  /**
   * Reads a provider's list again. Falls back on the stored list, else on the built-in one, and then reports why in
   * `failure`. Never rejects but by `signal`.
   */
  async refresh(
    provider: Provider,
    access: ProviderAccess,
    signal: AbortSignal,
  ): Promise<{ readonly source: RowSource; readonly count: number; readonly failure?: Error }> {
    const { fetch, now } = this.#options;
    const generation = this.#generation;
    try {
      let rows = await fetchModels(provider, access, { fetch, signal });
      if (provider === 'openrouter') rows = await this.#withRouting(rows, access, signal);
      signal.throwIfAborted();
      if (generation === this.#generation) {
        this.#lists.set(provider, { fetchedAt: now(), baseUrl: access.baseUrl, models: rows });
        await this.#save();
      }
      return { source: 'remote', count: this.models(provider).length };
    } catch (thrown) {
      signal.throwIfAborted();
      const source = this.#lists.has(provider) ? 'cache' : 'fallback';
      return { source, count: this.models(provider).length, failure: thrown as Error };
    }
  }

  /** Returns the routing providers of a model on OpenRouter, read now and stored in its row. Fails with `provider_error`. */
  async routingProviders(id: string, access: ProviderAccess, signal: AbortSignal): Promise<readonly string[]> {
    // A model id without an author has no list of providers; `..` must not leave the list of models.
    if (!/^[^/]+\/[^/]+$/.test(id) || id.split('/').some((part) => part === '.' || part === '..')) return [];
    const names = await fetchRoutingProviders(id, access, { fetch: this.#options.fetch, signal });
    const list = this.#lists.get('openrouter');
    if (list?.models.some((row) => row.id === id)) {
      const rows = list.models.map((row) => (row.id === id ? { ...row, routingProviders: names } : row));
      this.#lists.set('openrouter', { ...list, models: rows });
      await this.#save();
    }
    return names;
  }

  async clear(): Promise<void> {
    this.#generation += 1;
    this.#lists.clear();
    await this.#writes.idle();
    await removePrivateFile(this.#file);
  }

  /** Stores the lists. Never rejects: a list that cannot be stored is only read again. */
  #save(): Promise<void> {
    return this.#writes.run(async () => {
      const text = JSON.stringify({ version: 1, lists: Object.fromEntries(this.#lists) });
      await writePrivateFile(this.#file, `${text}\n`).catch((thrown: Error) =>
        this.#options.log.warn('the model list could not be stored', { reason: thrown.message }),
      );
    });
  }

  /** Returns the rows with their routing providers; those that cannot be read stay as they were. */
  async #withRouting(
    rows: readonly ModelOption[],
    access: ProviderAccess,
    signal: AbortSignal,
  ): Promise<readonly ModelOption[]> {
    const { fetch } = this.#options;
    const known = new Map(this.#lists.get('openrouter')?.models.map((row) => [row.id, row.routingProviders]));
    const ahead = rows.length <= MAX_ROUTED_AHEAD;
    return Promise.all(
      rows.map(async (row) => {
        const asked = ahead && row.id.includes('/');
        const names = asked
          ? await fetchRoutingProviders(row.id, access, { fetch, signal }).catch(() => undefined)
          : undefined;
        return { ...row, routingProviders: names ?? known.get(row.id) ?? [] };
      }),
    );
  }
}

/** Returns the usable entries of the cache file. */
function readLists(text: string | undefined): [Provider, StoredList][] {
  if (text === undefined) return [];
  let stored: Readonly<Record<string, unknown>>;
  try {
    stored = record(record(JSON.parse(text)).lists);
  } catch {
    return [];
  }
  return PROVIDERS.flatMap((provider) => {
    const { fetchedAt, baseUrl, models } = record(stored[provider]);
    // This file wrote the rows; a row without its essentials is foreign.
    const rows = records(models).filter((row) => textOf(row.id) && textOf(row.label) && row.provider === provider);
    const address = textOf(baseUrl);
    if (typeof fetchedAt !== 'number' || address === undefined || rows.length === 0) return [];
    return [[provider, { fetchedAt, baseUrl: address, models: rows as unknown as ModelOption[] }]];
  });
}

/** Fails with the protocol's words when a provider lists no such model. */
export function requireModel(catalogue: Catalogue, provider: Provider, id: string): ModelOption {
  const option = catalogue.find(provider, id);
  if (option === undefined) {
    throw fail('not_found', `unknown model for provider ${provider}: ${id}`, { provider, model: id });
  }
  return option;
}
