/**
 * The adapter of the `agy` command line (`agy --print`). It reports neither its model nor its tokens nor its conversation: the
 * conversation's id is read from the file with the last one of each directory, so turns that start one run one after the
 * other; and the output of a later turn starts with the output before, which is removed.
 * @see docs/fleet-executors.md
 */
import { createHash } from 'node:crypto';
import { readFile, realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProgramEnd } from '../../../base/program.ts';
import type { AgyConfig } from '../config.ts';
import type { ExecutorEvents } from '../executor.ts';
import { UNKNOWN_USAGE } from '../usage.ts';
import type { Cli, CliReader, CliReply, CliTurn, Printed } from './cli.ts';
import type { OwnedFlags } from './flags.ts';
import { objectOf } from './frame.ts';
import { killAfter, wholeSeconds } from './timers.ts';

const OWNED: OwnedFlags = {
  '-p': false,
  '--print': false,
  '--prompt': true,
  '-i': true,
  '--prompt-interactive': true,
  '-c': false,
  '--continue': false,
  '--conversation': true,
  '--dangerously-skip-permissions': false,
  '--add-dir': true,
  '--print-timeout': true,
  '--sandbox': false,
};

const TIMEOUT_MS = 900_000;
/** How much later than its own timer ours is. */
const GRACE_MS = 60_000;
/** It has run by then, in a conversation of its own choice. */
const NOT_FOUND = /^Warning: conversation ".*" not found\.$/;

/** Makes the adapter. `home` is the home directory the program has. */
export function agyCli({ sandbox = false, timeoutMs = TIMEOUT_MS, conversationsFile }: AgyConfig, home: string): Cli {
  const seconds = wholeSeconds(timeoutMs);
  const file = conversationsFile ?? join(home, '.gemini', 'antigravity-cli', 'cache', 'last_conversations.json');
  return {
    kind: 'agy',
    program: 'agy',
    owned: OWNED,
    signIn: 'run `agy` once and sign in',
    version: ['--version'],
    killMs: killAfter(seconds * 1000, GRACE_MS),
    exclusive: ({ conversation: kept }) => kept === undefined,
    argv: ({ prompt, cwd, conversation: kept, extra }) => [
      ...(kept === undefined ? [] : ['--conversation', kept.session]),
      ...['--print', prompt, '--dangerously-skip-permissions', '--add-dir', cwd, '--print-timeout', `${seconds}s`],
      ...(sandbox ? ['--sandbox'] : []),
      ...extra,
    ],
    env: () => ({ AGY_CLI_DISABLE_LATEX: '1' }),
    read: async (turn, events) => new AgyReader(turn, events, file, await conversationOf(file, turn.cwd)),
  };
}

/** The last conversation of a directory; undefined when there is none to be read. */
async function conversationOf(file: string, cwd: string): Promise<string | undefined> {
  try {
    const known = objectOf(JSON.parse(await readFile(file, 'utf8')));
    const id = known?.[cwd] ?? known?.[await realpath(cwd)];
    return typeof id === 'string' && id !== '' ? id : undefined;
  } catch {
    return undefined;
  }
}

class AgyReader implements CliReader {
  readonly session = undefined;
  readonly #turn: CliTurn;
  readonly #events: ExecutorEvents;
  readonly #file: string;
  /** The directory's conversation before this turn. */
  readonly #before: string | undefined;

  constructor(turn: CliTurn, events: ExecutorEvents, file: string, before: string | undefined) {
    this.#turn = turn;
    this.#events = events;
    this.#file = file;
    this.#before = before;
  }

  line(): void {
    this.#events.progress('running');
  }

  async finish({ code, stdout, stderr, truncated }: ProgramEnd, stopped: boolean): Promise<CliReply> {
    const warnings: string[] = [];
    const facts: Record<string, unknown> = {};
    const [firstLine = ''] = stdout.split('\n', 1);
    const onStdout = NOT_FOUND.test(firstLine.trim());
    const lost = onStdout || NOT_FOUND.test((stderr.split('\n', 1)[0] ?? '').trim());
    const printed = onStdout ? stdout.slice(firstLine.length).replace(/^\r?\n/, '') : stdout;
    const kept = lost ? undefined : this.#turn.conversation;
    if (lost) warnings.push('the earlier conversation was not found; it was run in a new one');
    const earlier = kept?.printed;
    const goesOn = earlier === undefined || beginsWith(printed, earlier);
    const text = goesOn ? printed.slice(earlier?.characters ?? 0) : printed;
    if (!goesOn && printed.trim() !== '') {
      warnings.push('its output does not begin with what it printed before; earlier replies may be part of this one');
      facts.drift = true;
    }
    // One that was cut off did not print what it will print again: what was known before is still there.
    const cut = truncated || (!goesOn && (stopped || code !== 0 || printed.trim() === ''));
    const known = cut ? earlier : printedOf(printed);
    const session = kept?.session ?? (await this.#begun());
    if (session === undefined) warnings.push('its conversation could not be told; the next turn begins another one');
    return {
      text: text.trim(),
      usage: UNKNOWN_USAGE,
      ...(warnings.length > 0 && { warnings }),
      ...(Object.keys(facts).length > 0 && { facts }),
      ...(session !== undefined && { conversation: { session, ...(known !== undefined && { printed: known }) } }),
    };
  }

  /** The conversation this turn has started: one that was not the directory's before. */
  async #begun(): Promise<string | undefined> {
    const now = await conversationOf(this.#file, this.#turn.cwd);
    return now === this.#before ? undefined : now;
  }
}

const printedOf = (text: string): Printed => ({
  characters: text.length,
  sha256: createHash('sha256').update(text).digest('hex'),
});

const beginsWith = (text: string, { characters, sha256 }: Printed): boolean =>
  text.length >= characters && printedOf(text.slice(0, characters)).sha256 === sha256;
