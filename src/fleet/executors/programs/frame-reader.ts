/**
 * What readers of programs that print a line of JSON for everything they do have in common. Extended by `claude.ts`,
 * `codex.ts` and `opencode.ts`.
 */
import type { ProgramEnd } from '../../../base/program.ts';
import type { ExecutorEvents } from '../executor.ts';
import { type CliReader, type CliReply, type CliTurn, hasSignal } from './cli.ts';
import { type Frame, frameOf } from './frame.ts';

const NOISE_CHARACTERS = 8192;

export abstract class FrameReader implements CliReader {
  session: string | undefined;
  protected readonly turn: CliTurn;
  protected readonly events: ExecutorEvents;
  /** The model was asked. What it says of sessions is not what the program says of its own. */
  protected started = false;
  #noise = '';

  constructor(turn: CliTurn, events: ExecutorEvents) {
    this.turn = turn;
    this.events = events;
  }

  /** A line that is no object is no part of the reply: it may be cut short, or a word of the program's to its user. */
  line(line: string): void {
    const frame = frameOf(line);
    if (frame === undefined) this.#noise = `${this.#noise}${line}\n`.slice(-NOISE_CHARACTERS);
    else this.read(frame);
  }

  abstract finish(end: ProgramEnd, stopped: boolean): CliReply;

  protected abstract read(frame: Frame): void;

  /** True when the program said one of these before anything was run; `more`: what its frames said. */
  protected refused({ stderr }: ProgramEnd, signals: readonly string[], more = ''): boolean {
    return !this.started && hasSignal([stderr, this.#noise, more].join('\n'), signals);
  }
}
