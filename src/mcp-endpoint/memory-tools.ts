/**
 * The memory of the principal as tools, for clients without a method for it: store, search, recall, forget. One memory
 * for every client of a principal, so that one client finds entries that another stored.
 *
 * They exist if the host grants `memory`.
 */
import type { MemoryTier } from '../capabilities/memory/client.ts';
import { type Memory, type MemoryAgent, MemoryClient } from '../capabilities/memory/client.ts';
import type { MemoryEntry } from '../capabilities/memory/messages.ts';
import { fail } from '../wire/errors.ts';
import { annotationsOf, type McpTool } from './tool-results.ts';

type Arguments = Readonly<Record<string, unknown>>;

/** The memory that all clients share. The agent id is part of the owner of a memory, so it must not depend on the client. */
const MEMORY = { namespace: 'mcp', agentId: 'mcp' };
const MAX_FOUND = 100;
/** An entry has to do with a text where its words or its meaning have at least this score, 0 to 1. */
const MIN_RELEVANCE = 0.2;
const TIERS: readonly string[] = ['working', 'episodic', 'semantic'];

const text = (description: string) => ({ type: 'string', description });
const texts = (description: string) => ({ type: 'array', items: { type: 'string' }, description });
const schema = (properties: object, required: readonly string[] = []) => ({
  type: 'object',
  properties,
  ...(required.length > 0 && { required }),
  additionalProperties: false,
});

const KEY = text(
  'The name of the fact, e.g. "user/timezone". Storing it again replaces the fact and keeps its history.',
);
const LIMIT = { type: 'integer', minimum: 1, maximum: MAX_FOUND, description: 'Entries at most. Default 10.' };

/** The risk flags of each tool that does more than read. */
const CHANGES: Readonly<Record<string, readonly string[]>> = {
  memory_store: ['writes'],
  memory_forget: ['writes', 'destructive'],
};

/** Returns the risk flags of one of the tools. */
export const memoryRisks = (name: string): readonly string[] => CHANGES[name] ?? ['reads'];

/** The tools. */
export const memoryTools: readonly McpTool[] = [
  {
    name: 'memory_store',
    description:
      'Remember a fact for later conversations, under a key. Use it for what the user says about themselves, decisions, and results worth keeping.',
    inputSchema: schema(
      {
        key: KEY,
        content: { description: 'The fact: a text, or any JSON.' },
        tags: texts('Labels to find it by.'),
        tier: {
          enum: TIERS,
          description: 'working: this conversation alone; episodic (default); semantic: general knowledge.',
        },
        ttl_seconds: { type: 'number', minimum: 0, description: 'It is deleted after this. Default: never.' },
      },
      ['key', 'content'],
    ),
    annotations: annotationsOf(memoryRisks('memory_store'), true),
  },
  {
    name: 'memory_search',
    description:
      'Search what was remembered, by words and by meaning; the best match first. Without a query: the newest.',
    inputSchema: schema({
      query: text('Literal text; empty lists the newest entries.'),
      tags: texts('Only entries with all of these labels.'),
      limit: LIMIT,
    }),
    annotations: annotationsOf(['reads'], true),
  },
  {
    name: 'memory_recall',
    description: 'The fact of one key as it holds now, with its earlier versions if asked for.',
    inputSchema: schema({ key: KEY, history: { type: 'boolean', description: 'Also earlier versions.' } }, ['key']),
    annotations: annotationsOf(['reads'], true),
  },
  {
    name: 'memory_forget',
    description: 'Delete facts by key or tag, with all their versions.',
    inputSchema: schema({ keys: texts('The keys.'), tags: texts('Everything with one of these labels.') }),
    annotations: annotationsOf(memoryRisks('memory_forget'), true),
  },
];

/** The memory of one session with a host. */
export class MemoryCalls {
  readonly #agent: MemoryAgent;
  readonly #source: string;
  #memory: Promise<Memory> | undefined;

  /** @param source the source of entries that are stored through it */
  constructor(agent: MemoryAgent, source = 'mcp') {
    this.#agent = agent;
    this.#source = source;
  }

  /** Calls one of the tools; rejects with `schema_violation` and as the memory does. */
  async call(name: string, args: Arguments, signal: AbortSignal): Promise<object> {
    const memory = await this.#open();
    switch (name) {
      case 'memory_store':
        return this.#store(memory, args, signal);
      case 'memory_search':
        return this.#search(memory, args, signal);
      case 'memory_recall': {
        const key = textIn(args, 'key');
        const entries = args.history === true ? await memory.history(key, '', { signal }) : [];
        const entry = await memory.get(key, {}, { signal });
        if (entry === undefined) throw fail('not_found', `nothing is remembered under ${JSON.stringify(key)}`);
        return { ...shownEntry(entry), ...(args.history === true && { history: entries.map(shownEntry) }) };
      }
      default: {
        const keys = textsIn(args, 'keys');
        const tags = textsIn(args, 'tags');
        if (keys.length + tags.length === 0) throw fail('schema_violation', 'give keys or tags of what to forget');
        return memory.forget({ keys, tags, tier: '' }, { signal });
      }
    }
  }

  /**
   * Calls the listener for changes, with the names of keys; `more`: further keys changed. Rejects at hosts that do not
   * announce changes.
   */
  async watch(listener: (names: readonly unknown[], more: boolean) => void): Promise<void> {
    await new MemoryClient(this.#agent).watch(MEMORY, ({ keys, more }) =>
      listener(
        keys.map((key) => nameOf({ key })),
        more,
      ),
    );
  }

  /**
   * Returns entries that are related to a text, the best first. The search, which always has a first result, orders
   * them; results that neither share words with the text nor are near to it are left out.
   */
  async relevant(
    text: string,
    limit: number,
    signal: AbortSignal,
  ): Promise<{ readonly key: string; readonly text: string }[]> {
    const memory = await this.#open();
    const { entries } = await memory.search(text, { limit }, { signal });
    return entries
      .filter(({ parts }) => Math.max(parts?.lexical ?? 0, parts?.vector ?? 0) >= MIN_RELEVANCE)
      .map(({ key, content }) => {
        const name = nameOf({ key });
        return {
          key: typeof name === 'string' ? name : JSON.stringify(name),
          text: typeof content === 'string' ? content : JSON.stringify(content),
        };
      });
  }

  /** Returns the newest entries as resources. */
  async resources(signal: AbortSignal): Promise<object[]> {
    const memory = await this.#open();
    const { entries } = await memory.search('', { limit: MAX_LISTED }, { signal });
    return entries.flatMap((entry) => {
      const name = nameOf(entry);
      if (typeof name !== 'string') return [];
      const about = entry.tags?.length ? { description: `remembered: ${entry.tags.join(', ')}` } : {};
      return [{ uri: uriOfKey(name), name, mimeType: mimeOf(entry), ...about }];
    });
  }

  /** Returns the contents of the resource of a key; undefined if the memory has no entry under it. */
  async read(key: string, uri: string, signal: AbortSignal): Promise<object | undefined> {
    const memory = await this.#open();
    const entry = await memory.get(key, {}, { signal });
    if (entry === undefined) return undefined;
    const { content } = entry;
    return { uri, mimeType: mimeOf(entry), text: typeof content === 'string' ? content : JSON.stringify(content) };
  }

  #open(): Promise<Memory> {
    this.#memory ??= Promise.resolve(new MemoryClient(this.#agent).open(MEMORY));
    this.#memory.catch(() => {
      this.#memory = undefined;
    });
    return this.#memory;
  }

  async #store(memory: Memory, args: Arguments, signal: AbortSignal): Promise<object> {
    const { content, ttl_seconds, tier = 'episodic' } = args;
    if (content === undefined) throw fail('schema_violation', '/content is missing');
    if (!TIERS.includes(tier as string)) throw fail('schema_violation', `/tier must be one of ${TIERS.join(', ')}`);
    const key = textIn(args, 'key');
    const entry = {
      key,
      content,
      tier: tier as MemoryTier,
      tags: textsIn(args, 'tags'),
      source: this.#source,
      ...(typeof ttl_seconds === 'number' && { ttl: ttl_seconds }),
    };
    const { errors } = await memory.store(entry, { signal });
    if (errors[0] !== undefined) throw fail('tool_error', errors[0]);
    return { stored: key };
  }

  async #search(memory: Memory, args: Arguments, signal: AbortSignal): Promise<object> {
    const { query = '', limit = 10 } = args;
    if (typeof query !== 'string') throw fail('schema_violation', '/query must be a text');
    if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > MAX_FOUND) {
      throw fail('schema_violation', `/limit must be a whole number from 1 to ${MAX_FOUND}`);
    }
    const page = await memory.search(query, { tags: textsIn(args, 'tags'), limit: limit as number }, { signal });
    return { entries: page.entries.map(shownEntry), total: page.total };
  }
}

/** The resource of an entry of this key. */
export const MEMORY_TEMPLATE = 'memory://mcp/{key}';
const MEMORY_PREFIX = 'memory://mcp/';
/** Entries that are listed as resources: the newest. */
const MAX_LISTED = 100;

const uriOfKey = (key: string): string => `${MEMORY_PREFIX}${encodeURIComponent(key)}`;

/** Returns the key that an address of a resource means; undefined if it is not one of the memory. */
export function keyOfResource(uri: string): string | undefined {
  if (!uri.startsWith(MEMORY_PREFIX)) return undefined;
  try {
    return decodeURIComponent(uri.slice(MEMORY_PREFIX.length));
  } catch {
    return undefined;
  }
}

/** Returns the name of an entry: for a key of one text, that text; for another, the whole key. */
const nameOf = ({ key }: Pick<MemoryEntry, 'key'>): unknown =>
  Object.keys(key).length === 1 && typeof key.key === 'string' ? key.key : key;

/** Returns the part of an entry that a client sees. */
function shownEntry(entry: MemoryEntry): object {
  const { content, tier, tags = [], updated_at, score } = entry;
  return { key: nameOf(entry), content, tier, tags, updated_at, score };
}

const mimeOf = ({ content }: MemoryEntry): string => (typeof content === 'string' ? 'text/plain' : 'application/json');

function textIn(args: Arguments, field: string): string {
  const value = args[field];
  if (typeof value === 'string' && value !== '') return value;
  throw fail('schema_violation', `/${field} must be a text that is not empty`);
}

function textsIn(args: Arguments, field: string): string[] {
  const value = args[field] ?? [];
  if (Array.isArray(value) && value.every((each) => typeof each === 'string')) return value;
  throw fail('schema_violation', `/${field} must be a list of texts`);
}
