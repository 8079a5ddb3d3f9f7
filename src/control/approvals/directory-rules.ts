/**
 * Remembered answers for a working directory, in one JSON file of the data directory: owner → directory → rules.
 *
 * The file is 0600 and replaced as a whole; one that cannot be read is quarantined and nothing is remembered, which means
 * asking again.
 */

import { rename } from 'node:fs/promises';
import { isOutOfSpace } from '../../base/disk-space.ts';
import type { Log } from '../../base/log.ts';
import { readRegular } from '../../base/regular-file.ts';
import { replaceFile } from '../../base/replace-file.ts';
import { fail, type HandfastError } from '../../wire/errors.ts';
import type { DirectoryRule, DirectoryRules } from './remembered.ts';

export interface DirectoryRulesOptions {
  /** The file; made with its folder when the first rule is added. */
  readonly file: string;
  readonly log: Log;
  /** Epoch milliseconds; part of the name of a quarantined file. */
  readonly now?: () => number;
}

/** Rules that outlive the process. */
export interface DirectoryRuleFile extends DirectoryRules {
  /**
   * Resolves when everything added so far is on disk. Rejects with `disk_full` or `runtime_error` when it could not be stored.
   */
  flushed(): Promise<void>;
}

/** Maximum number of rules of one directory; past it the oldest is removed. */
const MAX_RULES = 512;

type Stored = Record<string, Record<string, DirectoryRule[]>>;

/** Opens the file. Never rejects: failures are logged. */
export async function directoryRules({ file, log, now = Date.now }: DirectoryRulesOptions): Promise<DirectoryRuleFile> {
  const rules = await load(file, log, now);
  let writing: Promise<void> = Promise.resolve();
  let waiting = false;
  let failure: HandfastError | undefined;
  const write = async (): Promise<void> => {
    waiting = false;
    try {
      await replaceFile(file, `${JSON.stringify(rules, null, 2)}\n`);
      failure = undefined;
    } catch (error) {
      log.error('a remembered answer could not be stored', { file, error });
      failure = notStored(error);
    }
  };
  return {
    get: (owner, cwd) => rules[owner]?.[cwd] ?? [],
    add(owner, cwd, rule) {
      rules[owner] ??= Object.create(null) as Record<string, DirectoryRule[]>;
      const ofOwner = rules[owner];
      const others = (ofOwner[cwd] ?? []).filter(({ key }) => key !== rule.key);
      ofOwner[cwd] = [...others, rule].slice(-MAX_RULES);
      // A write that has not started includes all that is added meanwhile.
      if (!waiting) {
        waiting = true;
        writing = writing.then(write);
      }
    },
    async flushed() {
      await writing;
      if (failure !== undefined) throw failure;
    },
  };
}

function notStored(cause: unknown): HandfastError {
  const [code, remedy] = isOutOfSpace(cause)
    ? (['disk_full', 'free space'] as const)
    : (['runtime_error', 'see the log'] as const);
  const message = `the answer holds until the server ends; it could not be stored for its folder: ${remedy}, then answer so again`;
  return fail(code, message, {}, cause);
}

async function load(file: string, log: Log, now: () => number): Promise<Stored> {
  // Without a prototype: owners and directories may have any name.
  const rules = Object.create(null) as Stored;
  try {
    const text = await readRegular(file).catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === 'ENOENT') return '{}';
      throw cause;
    });
    for (const [owner, directories] of Object.entries(JSON.parse(text) as object)) {
      rules[owner] = Object.create(null) as Stored[string];
      for (const [cwd, list] of Object.entries(directories as object)) {
        if (!Array.isArray(list)) throw new Error(`the rules of ${cwd} are not a list`);
        rules[owner]![cwd] = list.filter(isRule);
      }
    }
    return rules;
  } catch (error) {
    const aside = `${file}.unreadable-${now()}`;
    await rename(file, aside).catch(() => {});
    log.error('the remembered answers cannot be read and were set aside', { file, aside, error });
    return Object.create(null) as Stored;
  }
}

function isRule(value: unknown): value is DirectoryRule {
  if (typeof value !== 'object' || value === null) return false;
  const { key, decision } = value as Partial<DirectoryRule>;
  return typeof key === 'string' && (decision === 'allow' || decision === 'deny');
}
