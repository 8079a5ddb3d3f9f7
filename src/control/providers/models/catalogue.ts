/**
 * The models that can be chosen: each provider's own list, remembered in `<home>/models-cache.json`, so that looking
 * something up never waits for a network.
 *
 * `refresh` is the only thing here that asks one; `model-methods.ts` and `control/providers/methods/auth-methods.ts` decide when.
 */
import { join } from 'node:path';
import type { Log } from '../../../base/log.ts';
import { readPrivateFile, removePrivateFile, writePrivateFile } from '../../../base/private-file.ts';
import { type ModelOption, PROVIDERS, type Provider } from '../../../protocol/session-types.ts';
import { fail } from '../../../wire/errors.ts';
import type { ProviderAccess } from '../../contract/providers.ts';
import { type Fetch, record, records, textOf } from '../http/http-json.ts';
import { firstRows, modelRow } from './known-models.ts';
import { fetchModels, fetchRoutingProviders } from './model-sources.ts';

/** A list older than this is read again at the next start. */
const STALE_AFTER_MS = 24 * 60 * 60 * 1_000;
/** The routing providers of a model cost a request each, so only short lists are requested ahead. */
const MAX_ROUTED_AHEAD = 16;

/** Where rows come from: read just now, remembered, or built in because nothing was ever read. */
export type RowSource = 'remote' | 'cache' | 'fallback';

export interface Catalogue {
  /** The rows of a provider. From memory. */
  models(provider: Provider): readonly ModelOption[];
  /** One row; undefined when the provider does not list it. */
  find(provider: Provider, id: string): ModelOption | undefined;
  /** Whether a provider's rows come from its list as it was within the last day at this address. */
  isFresh(provider: Provider, baseUrl: string): boolean;
  /**
   * Reads a provider's list again. Falls back on the stored list, else on the built-in one, and then reports why in
   * `failure`. Never rejects but by `signal`.
   */
  refresh(
    provider: Provider,
    access: ProviderAccess,
    signal: AbortSignal,
  ): Promise<{ readonly source: RowSource; readonly count: number; readonly failure?: Error }>;
  /** Who serves a model on OpenRouter, asked now and remembered in its row. Fails with `provider_error`. */
  routingProviders(id: string, access: ProviderAccess, signal: AbortSignal): Promise<readonly string[]>;
  clear(): Promise<void>;
}

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

/** Reads the stored lists. A damaged file counts as none; it is replaced after the next list. */
export async function openCatalogue(options: CatalogueOptions): Promise<Catalogue> {
  const { home, fetch, log, now, compatibleModels } = options;
  const file = join(home, 'models-cache.json');
  const lists = new Map<Provider, StoredList>(readLists(await readPrivateFile(file, log)));
  let last: Promise<unknown> = Promise.resolve();
  /** Grows with `clear`, so that what was being read meanwhile does not come back. */
  let generation = 0;

  /** Writes behind the answers: a list that is lost is only read again. */
  function save(): Promise<void> {
    const done = last.then(() =>
      writePrivateFile(file, `${JSON.stringify({ version: 1, lists: Object.fromEntries(lists) })}\n`),
    );
    last = done.catch((thrown: Error) => log.warn('the model list could not be stored', { reason: thrown.message }));
    return last as Promise<void>;
  }

  function models(provider: Provider): readonly ModelOption[] {
    const listed = lists.get(provider)?.models ?? firstRows(provider);
    if (provider !== 'compatible') return listed;
    const missing = compatibleModels.filter((id) => !listed.some((row) => row.id === id));
    return [...listed, ...missing.map((id) => modelRow('compatible', { id }))];
  }

  /** The rows with their routing providers; those that cannot be read stay as they were. */
  async function withRouting(
    rows: readonly ModelOption[],
    access: ProviderAccess,
    signal: AbortSignal,
  ): Promise<readonly ModelOption[]> {
    const known = new Map(lists.get('openrouter')?.models.map((row) => [row.id, row.routingProviders]));
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

  return {
    models,
    find: (provider, id) => models(provider).find((row) => row.id === id),
    isFresh(provider, baseUrl) {
      const list = lists.get(provider);
      return list !== undefined && list.baseUrl === baseUrl && now() - list.fetchedAt < STALE_AFTER_MS;
    },
    async refresh(provider, access, signal) {
      const begun = generation;
      try {
        let rows = await fetchModels(provider, access, { fetch, signal });
        if (provider === 'openrouter') rows = await withRouting(rows, access, signal);
        signal.throwIfAborted();
        if (begun === generation) {
          lists.set(provider, { fetchedAt: now(), baseUrl: access.baseUrl, models: rows });
          await save();
        }
        return { source: 'remote', count: models(provider).length };
      } catch (thrown) {
        signal.throwIfAborted();
        const source = lists.has(provider) ? 'cache' : 'fallback';
        return { source, count: models(provider).length, failure: thrown as Error };
      }
    },
    async routingProviders(id, access, signal) {
      // Without an author there is nothing to ask about; `..` must not leave the list of models.
      if (!/^[^/]+\/[^/]+$/.test(id) || id.split('/').some((part) => part === '.' || part === '..')) return [];
      const names = await fetchRoutingProviders(id, access, { fetch, signal });
      const list = lists.get('openrouter');
      if (list?.models.some((row) => row.id === id)) {
        const rows = list.models.map((row) => (row.id === id ? { ...row, routingProviders: names } : row));
        lists.set('openrouter', { ...list, models: rows });
        await save();
      }
      return names;
    },
    async clear() {
      generation += 1;
      lists.clear();
      await last;
      await removePrivateFile(file);
    },
  };
}

/** What of the cache file can be used. */
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
    // We wrote the rows; a row without its essentials is not ours.
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
