/**
 * The common part of readers for programs that report each step as a line of JSON. Each such program extends it.
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
  /** The model was called: from then on a text about sessions is the model's, and not an error of the program. */
  protected started = false;
  #noise = '';

  constructor(turn: CliTurn, events: ExecutorEvents) {
    this.turn = turn;
    this.events = events;
  }

  /** Reads a line. One that is not an object is a notice of the program or a cut line, and not part of the reply. */
  line(line: string): void {
    const frame = frameOf(line);
    if (frame === undefined) this.#noise = `${this.#noise}${line}\n`.slice(-NOISE_CHARACTERS);
    else this.read(frame);
  }

  abstract finish(end: ProgramEnd, stopped: boolean): CliReply;

  protected abstract read(frame: Frame): void;

  /** True when the program printed one of these before the model was called; `more`: the text of its frames. */
  protected refused({ stderr }: ProgramEnd, signals: readonly string[], more = ''): boolean {
    return !this.started && hasSignal([stderr, this.#noise, more].join('\n'), signals);
  }
}
