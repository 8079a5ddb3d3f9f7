/**
 * The adapter of the `agy` command line (`agy --print`). It reports neither its model nor its tokens nor its conversation. The
 * id of a conversation is read from the program's file with the last one of each directory, so turns that start a conversation
 * run one after the other. The output of a later turn repeats the earlier output, which is removed.
 * @see docs/fleet-executors.md
 */

import { createHash } from 'node:crypto';
import { realpath } from 'node:fs/promises';
import { join } from 'node:path';
import type { ProgramEnd } from '../../../base/program.ts';
import { readRegular } from '../../../base/regular-file.ts';
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
/** Time by which the executor's timer fires later than the program's own, milliseconds. */
const GRACE_MS = 60_000;
/** Printed when the program has run in a new conversation instead. */
const NOT_FOUND = /^Warning: conversation ".*" not found\.$/;

/** Makes the adapter. `home` is the home directory of the program. */
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
    exclusive: ({ conversation: stored }) => stored === undefined,
    argv: ({ prompt, cwd, conversation: stored, extra }) => [
      ...(stored === undefined ? [] : ['--conversation', stored.session]),
      ...['--print', prompt, '--dangerously-skip-permissions', '--add-dir', cwd, '--print-timeout', `${seconds}s`],
      ...(sandbox ? ['--sandbox'] : []),
      ...extra,
    ],
    env: () => ({ AGY_CLI_DISABLE_LATEX: '1' }),
    read: async (turn, events) => new AgyReader(turn, events, file, await conversationOf(file, turn.cwd)),
  };
}

/** Returns the last conversation of a directory; undefined when none can be read. */
async function conversationOf(file: string, cwd: string): Promise<string | undefined> {
  try {
    const known = objectOf(JSON.parse(await readRegular(file)));
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
    const stored = lost ? undefined : this.#turn.conversation;
    if (lost) warnings.push('the earlier conversation was not found; the turn ran in a new one');
    const earlier = stored?.printed;
    const continues = earlier === undefined || startsWith(printed, earlier);
    const text = continues ? printed.slice(earlier?.characters ?? 0) : printed;
    if (!continues && printed.trim() !== '') {
      warnings.push('its output does not start with its earlier output; this reply may contain earlier ones');
      facts.drift = true;
    }
    // A run that was cut off did not print the whole conversation, so the earlier baseline stays valid.
    const cut = truncated || (!continues && (stopped || code !== 0 || printed.trim() === ''));
    const known = cut ? earlier : printedOf(printed);
    const session = stored?.session ?? (await this.#startedSession());
    if (session === undefined) warnings.push('the id of its conversation is unknown; the next turn starts a new one');
    return {
      text: text.trim(),
      usage: UNKNOWN_USAGE,
      ...(warnings.length > 0 && { warnings }),
      ...(Object.keys(facts).length > 0 && { facts }),
      ...(session !== undefined && { conversation: { session, ...(known !== undefined && { printed: known }) } }),
    };
  }

  /** Returns the conversation that this turn started: the directory's last one, if it changed during the turn. */
  async #startedSession(): Promise<string | undefined> {
    const now = await conversationOf(this.#file, this.#turn.cwd);
    return now === this.#before ? undefined : now;
  }
}

const printedOf = (text: string): Printed => ({
  characters: text.length,
  sha256: createHash('sha256').update(text).digest('hex'),
});

const startsWith = (text: string, { characters, sha256 }: Printed): boolean =>
  text.length >= characters && printedOf(text.slice(0, characters)).sha256 === sha256;
