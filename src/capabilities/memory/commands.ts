/** `handfast memory …`: the commands of the memory capability. */
import { counted } from '../../base/counted.ts';
import { parseExactJson } from '../../base/exact-json.ts';
import { parseWrittenTimestamp, TIMESTAMP_FORM } from '../../base/timestamp.ts';
import type { CapabilityCommand, CommandContext } from '../../packages/capability.ts';
import { fileError, oneOf, unexpected, wholeNumber } from '../../packages/command-values.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import { type Memory, MemoryClient, type MemoryForget, type MemoryNewEntry, type MemoryTier } from './client.ts';
import type { MemoryKey } from './key.ts';
import type { MemoryEntry } from './messages.ts';

type Options = CapabilityCommand['options'];

const which = [
  ['--namespace <name>', 'name of the memory (default: default)'],
  ['--agent <name>', 'the memory of this agent, with its episodic tier'],
] as const;
const tierOption = ['--tier <tier>', 'working, episodic or semantic'] as const;
const spaceOption = ['--space <name>', 'search this shared space too'] as const;
/** Entries per request of an import. */
const IMPORT_BATCH = 200;
const MAX_SHOWN = 100;
/** Characters of a wrong word that an error shows. */
const MAX_WORD = 60;

const options = (...more: NonNullable<Options>[number][]): Options => [...which, ...more];

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);

const open = async ({ agent, options, signal, terminal }: CommandContext): Promise<Memory> => {
  const space = text(options.space);
  const agentId = text(options.agent);
  const client = new MemoryClient(agent);
  const name = {
    ...(options.namespace !== undefined && { namespace: String(options.namespace) }),
    ...(space !== undefined && { spaces: [space] }),
    ...(agentId !== undefined && { agentId }),
  };
  const memory = await client.open(name, { signal });
  if (space !== undefined) {
    const spaces = (await client.spaces({ signal })).map((one) => one.space);
    if (!spaces.includes(space)) {
      const others = spaces.length === 0 ? '' : `; spaces with entries: ${spaces.join(', ')}`;
      terminal.note(`nothing is published in the space ${space}${others}`);
    }
  }
  return memory;
};

/** Returns the tier of new entries: facts for every agent of the user, or those of one agent where the option names it. */
const defaultTier = ({ options }: CommandContext): MemoryTier =>
  tierOf(options.tier) || (options.agent === undefined ? 'semantic' : 'episodic');

const tierOf = (value: unknown): MemoryTier | '' =>
  value === undefined ? '' : oneOf(String(value), '--tier', ['working', 'episodic', 'semantic']);

/** Reads a key of the command line: JSON where it is an object, else a text. */
function keyOfWord(word: string): string | MemoryKey {
  if (word === '') throw fail('usage', 'the key is empty; name the entry, such as: handfast memory add city Lisbon');
  if (!word.startsWith('{')) return word;
  return parsed(word, 'the key') as MemoryKey;
}

function parsed(word: string, what: string): unknown {
  try {
    return parseExactJson(word);
  } catch (error) {
    throw fail('usage', `${what} is not valid JSON (${(error as Error).message}): ${word.slice(0, MAX_WORD)}`);
  }
}

/** Returns the key as the user wrote it: `a` for `{"key":"a"}`. */
function keyText(key: Readonly<Record<string, unknown>>): string {
  const names = Object.keys(key);
  return names.length === 1 && typeof key.key === 'string' ? key.key : JSON.stringify(key);
}

const contentText = (content: unknown): string => (typeof content === 'string' ? content : JSON.stringify(content));

const timeText = (at: number | null | undefined): string =>
  at === null || at === undefined ? '' : new Date(at * 1000).toISOString().replace(/\.000Z$/, 'Z');

const DATE = /^\d{4}-\d\d-\d\d$/;

/** Reads a time of the command line as epoch seconds; a date alone means its first moment in UTC. */
function instant(value: unknown, flag: string): number | undefined {
  if (value === undefined) return undefined;
  const text = String(value);
  const at = parseWrittenTimestamp(DATE.test(text) ? `${text}T00:00:00Z` : text);
  if (at === undefined) throw unexpected(flag, `a date, such as 2026-03-01, or a time of ${TIMESTAMP_FORM}`, value);
  return at / 1000;
}

const list = (value: unknown): string[] => (text(value) ?? '').split(',').filter((word) => word !== '');

function shown({ terminal }: CommandContext, entries: readonly MemoryEntry[]): void {
  if (entries.length === 0) return terminal.note('no entries');
  const scored = entries.some(({ parts }) => parts !== undefined);
  terminal.table(
    ['KEY', 'CONTENT', 'TIER', scored ? 'SCORE' : 'SINCE'],
    entries.map(({ key, content, tier, space, score, valid_from, parts }) => [
      keyText(key),
      contentText(content),
      space === undefined ? tier : `${tier} of ${space}`,
      parts === undefined ? timeText(valid_from) : (score ?? 0).toFixed(3),
    ]),
  );
}

const add: CapabilityCommand = {
  usage: 'add <key> <content>',
  about: 'store an entry; content is JSON where it is an object, an array or quoted, else text',
  options: options(
    tierOption,
    ['--tag <tags>', 'labels, separated by commas'],
    ['--source <text>', 'where it comes from'],
    ['--ttl <seconds>', 'delete it after this time'],
    ['--valid-from <time>', 'the fact holds from here on (default: now)'],
    ['--valid-until <time>', 'it holds until here'],
    ['--supersedes <key>', 'this key no longer holds'],
  ),
  async run(context) {
    const [key, content] = context.args as string[];
    const { options, signal, terminal } = context;
    const memory = await open(context);
    const entry: MemoryNewEntry = {
      key: keyOfWord(key as string),
      content: /^\s*[[{"]/.test(content as string) ? parsed(content as string, 'the content') : content,
      tier: defaultTier(context),
      tags: list(options.tag),
      source: text(options.source) ?? 'handfast memory add',
      ttl: wholeNumber(options.ttl, '--ttl') ?? 0,
      valid_from: instant(options.validFrom, '--valid-from') ?? null,
      valid_until: instant(options.validUntil, '--valid-until') ?? null,
      supersedes: options.supersedes === undefined ? [] : [keyOfWord(String(options.supersedes))],
    };
    const { stored, errors } = await memory.store(entry, { signal });
    if (errors.length > 0) throw fail('schema_violation', errors[0] as string);
    if (terminal.json) terminal.document({ stored });
    else terminal.note(`stored ${keyText(stored[0] as MemoryKey)} in the ${entry.tier} tier`);
    return undefined;
  },
};

const search: CapabilityCommand = {
  usage: 'search <words...>',
  about: 'find entries by words, parts of text and similarity',
  options: options(
    tierOption,
    spaceOption,
    ['--limit <n>', 'most entries (default 10)'],
    ['--tag <tags>', 'only entries with any of these labels'],
    ['--as-of <time>', 'what was valid then'],
    ['--ranking <name>', 'hybrid, lexical or vector'],
  ),
  async run(context) {
    const { args, options, signal, terminal } = context;
    const memory = await open(context);
    const asOf = instant(options.asOf, '--as-of');
    const page = await memory.search(
      (args[0] as readonly string[]).join(' '),
      {
        tier: tierOf(options.tier),
        limit: wholeNumber(options.limit, '--limit') ?? 10,
        tags: list(options.tag),
        ...(asOf !== undefined && { asOf }),
        ...(options.ranking !== undefined && {
          ranking: oneOf(String(options.ranking), '--ranking', ['hybrid', 'lexical', 'vector']),
        }),
      },
      { signal },
    );
    if (terminal.json) terminal.document(page);
    else shown(context, page.entries);
    if (page.degraded !== undefined && !terminal.json) terminal.note(`words alone: ${page.degraded}`);
    return undefined;
  },
};

const get: CapabilityCommand = {
  usage: 'get <key>',
  about: 'print the content of an entry',
  options: options(tierOption, spaceOption, ['--as-of <time>', 'what was valid then']),
  async run(context) {
    const { args, options, signal, terminal } = context;
    const asOf = instant(options.asOf, '--as-of');
    const key = keyOfWord(args[0] as string);
    const entry = await (await open(context)).get(
      key,
      { tier: tierOf(options.tier), ...(asOf !== undefined && { asOf }) },
      { signal },
    );
    if (entry === undefined) {
      throw fail(
        'not_found',
        `no entry ${args[0]} in this memory; "handfast memory ls" lists the entries, --agent and --namespace choose the memory`,
      );
    }
    if (terminal.json) terminal.document(entry);
    else terminal.line(contentText(entry.content));
    return undefined;
  },
};

const ls: CapabilityCommand = {
  usage: 'ls',
  about: 'list entries, the newest first',
  options: options(
    tierOption,
    spaceOption,
    ['--tag <tags>', 'only entries with any of these labels'],
    ['--limit <n>', 'most entries (default 20)'],
  ),
  async run(context) {
    const { options, signal, terminal } = context;
    const page = await (await open(context)).list(
      { tier: tierOf(options.tier), tags: list(options.tag), limit: wholeNumber(options.limit, '--limit') ?? 20 },
      { signal },
    );
    if (terminal.json) terminal.document(page);
    else shown(context, page.entries);
    if (page.total > page.entries.length && !terminal.json)
      terminal.note(
        `the newest ${page.entries.length} of ${counted(page.total, 'entry', 'entries')}; more with --limit`,
      );
    return undefined;
  },
};

const history: CapabilityCommand = {
  usage: 'history <key>',
  about: 'all versions of an entry, and of what it superseded',
  options: options(tierOption),
  async run(context) {
    const { args, options, signal, terminal } = context;
    const entries = await (await open(context)).history(keyOfWord(args[0] as string), tierOf(options.tier), { signal });
    if (terminal.json) terminal.document(entries);
    else if (entries.length === 0) terminal.note('no entries');
    else {
      terminal.table(
        ['FROM', 'UNTIL', 'KEY', 'CONTENT'],
        entries
          .slice(0, MAX_SHOWN)
          .map(({ key, content, valid_from, valid_until, current }) => [
            timeText(valid_from),
            valid_until === null || valid_until === undefined ? (current === true ? 'now' : '') : timeText(valid_until),
            keyText(key),
            contentText(content),
          ]),
      );
      if (entries.length > MAX_SHOWN) {
        terminal.note(`the first ${MAX_SHOWN} of ${entries.length} versions; --json prints all`);
      }
    }
    return undefined;
  },
};

const forget: CapabilityCommand = {
  usage: 'forget [keys...]',
  about: 'delete entries with all their versions, also from the files',
  options: options(
    tierOption,
    ['--tag <tags>', 'entries with any of these labels'],
    ['--source <text>', 'entries of this source'],
    ['--before <time>', 'only what was last stored before then'],
    ['--space <name>', 'from this shared space'],
  ),
  help: 'Without --tier: every tier of the memory.',
  async run(context) {
    const { args, options, signal, terminal } = context;
    const before = instant(options.before, '--before');
    const keys = (args[0] as readonly string[]).map(keyOfWord);
    const tags = list(options.tag);
    const source = text(options.source);
    const space = text(options.space);
    if (keys.length + tags.length === 0 && source === undefined && before === undefined) {
      throw fail('usage', 'name what to forget: keys, --tag, --source or --before');
    }
    const what: MemoryForget = {
      keys,
      tags,
      tier: tierOf(options.tier),
      ...(source !== undefined && { sources: [source] }),
      ...(before !== undefined && { before }),
      ...(space !== undefined && { space }),
    };
    const memory = await open({ ...context, options: { ...options, space: undefined } });
    const { deleted = 0, erased } = await memory.forget(what, { signal });
    if (terminal.json) terminal.document({ deleted, erased });
    else terminal.note(`${counted(deleted, 'entry', 'entries')} deleted`);
    return undefined;
  },
};

const spaces: CapabilityCommand = {
  usage: 'spaces',
  about: 'list the shared spaces',
  async run({ agent, signal, terminal }) {
    const found = await new MemoryClient(agent).spaces({ signal });
    if (terminal.json) terminal.document(found);
    else if (found.length === 0) terminal.note('no shared spaces; "handfast memory publish" makes one');
    else
      terminal.table(
        ['SPACE', 'ENTRIES', 'RIGHTS'],
        found.map(({ space, entries, write }) => [space, String(entries), write ? 'read, write' : 'read']),
      );
    return undefined;
  },
};

const publish: CapabilityCommand = {
  usage: 'publish <space> [keys...]',
  about: 'move semantic entries into a shared space',
  options: options(['--tag <tags>', 'entries with any of these labels']),
  async run(context) {
    const { args, options, signal, terminal } = context;
    const [space, keys] = args as [string, readonly string[]];
    const tags = list(options.tag);
    if (keys.length + tags.length === 0) throw fail('usage', 'name what to publish: keys or --tag');
    const published = await (await open(context)).publish(space, { keys: keys.map(keyOfWord), tags }, { signal });
    if (published.length === 0) {
      const of = keys.length > 0 ? `the key ${keys.join(' or ')}` : `the label ${tags.join(' or ')}`;
      throw fail(
        'not_found',
        `no semantic entry of this memory has ${of}; "handfast memory ls --tier semantic" lists them`,
      );
    }
    if (terminal.json) terminal.document({ published });
    else terminal.note(`${counted(published.length, 'entry is', 'entries are')} in ${space}`);
    return undefined;
  },
};

const stats: CapabilityCommand = {
  usage: 'stats',
  about: 'how much is stored, of how much',
  async run({ agent, signal, terminal }) {
    const found = await new MemoryClient(agent).stats({ signal });
    if (terminal.json) {
      terminal.document(found);
      return undefined;
    }
    const { tiers, used, quota, embedder, pending, problem } = found;
    const rows = Object.entries(tiers as Record<string, { entries: number; bytes: number }>);
    terminal.table(
      ['TIER', 'ENTRIES', 'BYTES'],
      [
        ...rows.map(([tier, amount]) => [tier, String(amount.entries), String(amount.bytes)]),
        ['all', `${used.entries} of ${quota.entries}`, `${used.bytes} of ${quota.bytes}`],
      ],
    );
    terminal.note(
      `vectors: ${embedder}${pending > 0 ? `, ${counted(pending, 'entry waits for its vector', 'entries wait for theirs')}` : ''}`,
    );
    if (problem !== undefined) terminal.note(problem);
    return undefined;
  },
};

const exportEntries: CapabilityCommand = {
  usage: 'export',
  about: 'print every entry as a line of JSON, old versions too',
  options: options(tierOption, spaceOption, ['--current', 'only what holds now']),
  async run(context) {
    const { options, signal, terminal } = context;
    const memory = await open(context);
    let count = 0;
    const entries = memory.all({ tier: tierOf(options.tier), allVersions: options.current !== true }, { signal });
    for await (const entry of entries) {
      terminal.document(entry);
      count += 1;
    }
    if (!terminal.json) terminal.note(counted(count, 'entry', 'entries'));
    return undefined;
  },
};

const importEntries: CapabilityCommand = {
  usage: 'import <file>',
  about: 'store the entries of a file of JSON lines, as export prints them; - is standard input',
  options: options(),
  async run(context) {
    const { args, signal, terminal } = context;
    const memory = await open(context);
    const { createReadStream } = await import('node:fs');
    const { createInterface } = await import('node:readline');
    const file = args[0] as string;
    const input = file === '-' ? process.stdin : createReadStream(file);
    let batch: { entry: MemoryNewEntry; line: number }[] = [];
    const problems: string[] = [];
    let count = 0;
    let expired = 0;
    const flush = async (): Promise<void> => {
      // The oldest version first, as they were stored; export prints the newest first.
      const { stored, errors } = await memory.store(
        batch.map(({ entry }) => entry),
        { signal },
      );
      count += stored.length;
      problems.push(
        ...errors.map((error) => error.replace(/^entries\[(\d+)\]/, (_, at) => `line ${batch[Number(at)]?.line}`)),
      );
      batch = [];
    };
    let number = 0;
    try {
      for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
        number += 1;
        if (line.trim() === '') continue;
        const entry = withExpiry(imported(line, number));
        if ((entry.expires_at ?? Number.POSITIVE_INFINITY) * 1000 <= Date.now()) {
          expired += 1;
          continue;
        }
        batch.push({ entry, line: number });
        if (batch.length === IMPORT_BATCH) await flush();
      }
    } catch (thrown) {
      throw fileError(thrown, file, 'JSON lines, as "handfast memory export" prints them');
    }
    if (batch.length > 0) await flush();
    if (terminal.json) terminal.document({ stored: count, expired, errors: problems });
    else terminal.note(`${counted(count, 'entry', 'entries')} stored`);
    if (!terminal.json && expired > 0) {
      terminal.note(`${counted(expired, 'entry', 'entries')} had expired`);
    }
    if (!terminal.json) for (const problem of problems) terminal.note(problem);
    return problems.length > 0 ? 1 : undefined;
  },
};

/** Adds the time of expiry: the ttl of an entry counts from its last storing, not from the import. */
function withExpiry(entry: MemoryNewEntry): MemoryNewEntry {
  const { ttl, created_at, updated_at = created_at } = entry as MemoryNewEntry & Partial<MemoryEntry>;
  if (typeof ttl !== 'number' || ttl <= 0 || typeof updated_at !== 'number') return entry;
  return { expires_at: updated_at + ttl, ...entry };
}

function imported(line: string, number: number): MemoryNewEntry {
  let entry: unknown;
  try {
    entry = parseExactJson(line);
  } catch (error) {
    throw fail(
      'usage',
      `line ${number} is not JSON (${(error as Error).message}): ${line.slice(0, MAX_WORD)}; each line is an entry, as "handfast memory export" prints them`,
    );
  }
  if (!isObject(entry)) throw fail('usage', `line ${number} is not an object`);
  return entry as unknown as MemoryNewEntry;
}

export const commands: readonly CapabilityCommand[] = [
  add,
  search,
  get,
  ls,
  history,
  forget,
  publish,
  spaces,
  stats,
  exportEntries,
  importEntries,
];
