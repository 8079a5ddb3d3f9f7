/**
 * The adapter of the `command` kind: any program as an executor.
 *
 * Each turn starts it once in the working directory, with stdin closed and the prompt as an argument. Its environment also has
 * `HANDFAST_TASK_ID`, `HANDFAST_CONTEXT_ID`, `HANDFAST_ACCESS` (`read` or `write`), `HANDFAST_TOKEN_BUDGET` if the task has a
 * budget, and `HANDFAST_SESSION` if an earlier turn reported one. Its stderr is for people. SIGTERM stops it.
 *
 * With `output: text` its stdout is the reply, and its usage is unknown. With `output: json_lines` each line is one of the
 * objects below; any other line is part of the reply:
 *
 * - `{"type":"text","text":"…"}`: a piece of the reply; pieces are joined without a separator.
 * - `{"type":"progress","note":"…","percent":40}`: its current activity; both members are optional.
 * - `{"type":"usage","input":900,"output":120,"reasoning":0,"cache_read":0,"cache_write":0,"cost_usd":0.01}`: total tokens of
 *   this turn so far; a missing member is 0. `input` excludes cached tokens, and `output` excludes `reasoning`.
 * - `{"type":"session","id":"…"}`: its id of the conversation, passed to the next turn in `HANDFAST_SESSION`.
 * - `{"type":"error","message":"…"}`: the turn failed.
 * @see docs/fleet-executors.md#command
 */

import type { ProgramEnd } from '../../../base/program.ts';
import type { Usage } from '../../../protocol/fleet.ts';
import type { CommandConfig } from '../config.ts';
import type { ExecutorEvents } from '../executor.ts';
import { ReplyText } from '../reply-text.ts';
import { UNKNOWN_USAGE } from '../usage.ts';
import { type Cli, type CliReader, type CliReply, type CliTurn, noteOf } from './cli.ts';
import { type Frame, frameOf } from './frame.ts';
import { killAfter } from './timers.ts';

/** Makes the adapter. */
export function commandCli({ command, args = [], output = 'text', timeoutMs }: CommandConfig): Cli {
  const withPrompt = args.some((arg) => arg.includes('{prompt}')) ? args : [...args, '{prompt}'];
  return {
    kind: 'command',
    program: command,
    owned: {},
    killMs: killAfter(timeoutMs),
    keepsEnd: true,
    argv: ({ prompt, cwd, conversation: stored, task }) => {
      const values = {
        prompt,
        cwd,
        task_id: task.taskId,
        context_id: task.contextId,
        session: stored?.session ?? '',
      };
      // One pass: an inserted value is data, even if it contains a placeholder.
      return withPrompt.map((arg) =>
        arg.replace(/\{(prompt|cwd|task_id|context_id|session)\}/g, (_, name: keyof typeof values) => values[name]),
      );
    },
    env: ({ task, conversation: stored }) => ({
      HANDFAST_TASK_ID: task.taskId,
      HANDFAST_CONTEXT_ID: task.contextId,
      HANDFAST_ACCESS: task.access,
      ...(task.tokenBudget !== null && { HANDFAST_TOKEN_BUDGET: String(task.tokenBudget) }),
      ...(stored !== undefined && { HANDFAST_SESSION: stored.session }),
    }),
    read: (turn, events) => new CommandReader(turn, events, output === 'json_lines'),
  };
}

const MAX_SESSION_CHARACTERS = 1024;

class CommandReader implements CliReader {
  readonly #turn: CliTurn;
  readonly #events: ExecutorEvents;
  readonly #framed: boolean;
  #session: string | undefined;
  #usage: Usage = UNKNOWN_USAGE;
  readonly #reply = new ReplyText();
  #failure: string | undefined;

  constructor(turn: CliTurn, events: ExecutorEvents, framed: boolean) {
    this.#turn = turn;
    this.#events = events;
    this.#framed = framed;
  }

  get session(): string | undefined {
    return this.#session;
  }

  line(line: string): void {
    const frame = this.#framed ? frameOf(line) : undefined;
    switch (frame?.type) {
      case 'text':
        if (typeof frame.text === 'string') this.#reply.add(frame.text);
        return this.#events.progress('running', noteOf(frame.text));
      case 'progress':
        return this.#events.progress('running', noteOf(frame.note), percentOf(frame.percent));
      case 'usage':
        this.#usage = usageOf(frame);
        return this.#events.usage(this.#usage);
      case 'session':
        if (typeof frame.id === 'string' && frame.id.length <= MAX_SESSION_CHARACTERS)
          this.#session = frame.id || undefined;
        return;
      case 'error':
        this.#failure = noteOf(frame.message) ?? 'it failed';
        return;
      default:
        if (this.#framed) this.#reply.add(`${line}\n`, this.#reply.atLineStart ? '' : '\n');
        this.#events.progress('running', noteOf(line));
    }
  }

  finish({ stdout }: ProgramEnd): CliReply {
    const session = this.#session ?? this.#turn.conversation?.session;
    return {
      text: (this.#framed ? this.#reply.text : stdout).trim(),
      usage: this.#usage,
      ...(this.#failure !== undefined && { failure: this.#failure }),
      ...(session !== undefined && { conversation: { session } }),
    };
  }
}

function usageOf(frame: Frame): Usage {
  const count = (name: string): number => {
    const value = frame[name];
    return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : 0;
  };
  const { cost_usd } = frame;
  return {
    source: 'measured',
    input: count('input'),
    output: count('output'),
    reasoning: count('reasoning'),
    cache_read: count('cache_read'),
    cache_write: count('cache_write'),
    ...(typeof cost_usd === 'number' && Number.isFinite(cost_usd) && cost_usd >= 0 && { cost_usd }),
  };
}

const percentOf = (value: unknown): number | undefined =>
  typeof value === 'number' && value >= 0 && value <= 100 ? value : undefined;
