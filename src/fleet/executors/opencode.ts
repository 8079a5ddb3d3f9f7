/**
 * The adapter of the `opencode` command line (`opencode run --format json`). Its session has an id of its own, on every
 * line of its output, and is kept.
 * @see docs/fleet-executors.md
 */
import type { ProgramEnd } from '../program.ts';
import { type Cli, type CliReader, type CliReply, type CliTurn, hasSignal, noteOf } from './cli.ts';
import type { OpencodeConfig } from './config.ts';
import type { ExecutorEvents } from './executor.ts';
import type { OwnedFlags } from './flags.ts';
import { killAfter } from './timers.ts';
import { type Frame, frameOf, OpencodeMeter, objectOf, wordOf } from './usage.ts';

const OWNED: OwnedFlags = {
  '--format': true,
  '--dangerously-skip-permissions': false,
  '--auto': false,
  '--yolo': false,
  '-s': true,
  '--session': true,
  '-c': false,
  '--continue': false,
  '--fork': false,
  '-m': true,
  '--model': true,
  '--agent': true,
  '--attach': true,
  '--dir': true,
  '--command': true,
  '-i': false,
  '--interactive': false,
  '--mini': false,
};

const NOT_FOUND = ['error: session not found'];

/** Makes the adapter. */
export function opencodeCli({ agent, model, timeoutMs }: OpencodeConfig): Cli {
  return {
    kind: 'opencode',
    program: 'opencode',
    owned: OWNED,
    signIn: 'run `opencode auth login`, or configure a provider',
    version: ['--version'],
    killMs: killAfter(timeoutMs),
    argv: ({ prompt, kept, extra }) => [
      'run',
      ...(kept === undefined ? [] : ['--session', kept.session]),
      prompt,
      ...['--format', 'json', '--dangerously-skip-permissions'],
      ...(agent === undefined ? [] : ['--agent', agent]),
      ...(model === undefined ? [] : ['--model', model]),
      ...extra,
    ],
    read: (turn, events) => new OpencodeReader(turn, events),
  };
}

class OpencodeReader implements CliReader {
  readonly #turn: CliTurn;
  readonly #events: ExecutorEvents;
  readonly #meter = new OpencodeMeter();
  readonly #texts: string[] = [];
  #session: string | undefined;
  #failure: string | undefined;
  #begun = false;
  #noise = '';

  constructor(turn: CliTurn, events: ExecutorEvents) {
    this.#turn = turn;
    this.#events = events;
  }

  get session(): string | undefined {
    return this.#session;
  }

  line(line: string): void {
    const frame = frameOf(line);
    if (frame === undefined) {
      this.#noise = `${this.#noise}${line}\n`.slice(-8192);
      return;
    }
    if (typeof frame.sessionID === 'string' && frame.sessionID !== '') this.#session = frame.sessionID;
    this.#meter.take(frame);
    const part = objectOf(frame.part);
    switch (frame.type) {
      case 'text':
        this.#begun = true;
        if (typeof part?.text === 'string') this.#texts.push(part.text);
        this.#events.progress('running', noteOf(part?.text));
        return;
      case 'tool_use':
        this.#begun = true;
        this.#events.progress('running', toolNote(part));
        return;
      case 'step_finish':
        this.#begun = true;
        this.#events.usage(this.#meter.soFar());
        return;
      case 'error':
        this.#failure = errorNote(objectOf(frame.error));
        return;
      default:
        this.#events.progress('running');
    }
  }

  retry(end: ProgramEnd): 'begin' | undefined {
    if (this.#turn.kept === undefined || this.#begun) return undefined;
    return hasSignal(`${end.stderr}\n${this.#noise}`, NOT_FOUND) ? 'begin' : undefined;
  }

  finish(): CliReply {
    const session = this.#session ?? this.#turn.kept?.session;
    return {
      // A part may begin with a fence, which must stand on a line of its own.
      text: this.#texts.join('\n'),
      usage: this.#meter.total(),
      ...(this.#failure !== undefined && { failure: `opencode: ${this.#failure}` }),
      ...(session !== undefined && { kept: { session } }),
    };
  }
}

function toolNote(part: Frame | undefined): string | undefined {
  const state = objectOf(part?.state);
  return noteOf(`${wordOf(part?.tool)} ${wordOf(state?.title)}`);
}

function errorNote(error: Frame | undefined): string {
  return noteOf(objectOf(error?.data)?.message) ?? noteOf(error?.message) ?? noteOf(error?.name) ?? 'the turn failed';
}
