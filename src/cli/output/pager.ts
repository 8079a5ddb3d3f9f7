/**
 * Long output goes through the user's pager: output that fits the screen is not held back, longer output is read page by page.
 * `PAGER` names the program (default `less`); empty or `cat` turns it off.
 *
 * Only where stdout is a terminal.
 */
import { NOT_FOUND, startAtTerminal, type TerminalProgram } from '../../base/terminal-program.ts';

type Environment = Readonly<Record<string, string | undefined>>;

/** Returns the command line of the pager; undefined where none is set. */
export function pagerOf(env: Environment, platform: NodeJS.Platform = process.platform): string | undefined {
  const line = env.PAGER?.trim() ?? (platform === 'win32' || env.TERM === 'dumb' ? '' : 'less');
  return line === '' || line === 'cat' ? undefined : line;
}

/** Collects output until it is longer than the screen, then gives it to the pager. */
export class Pager {
  readonly #line: string;
  readonly #env: Environment;
  readonly #screen: { readonly rows: number; readonly columns: number };
  readonly #start: typeof startAtTerminal;
  #text = '';
  #rows = 0;
  #program: TerminalProgram | undefined;

  constructor(
    line: string,
    env: Environment,
    screen: { readonly rows: number; readonly columns: number },
    start = startAtTerminal,
  ) {
    this.#line = line;
    this.#env = env;
    this.#screen = screen;
    this.#start = start;
  }

  /** Takes the output so far, as it must be written when the pager does not show it. */
  write(text: string): void {
    this.#text += text;
    if (this.#program !== undefined) return this.#program.write(text);
    for (const line of text.split('\n').slice(1)) this.#rows += 1 + Math.floor(line.length / this.#screen.columns);
    if (this.#rows < this.#screen.rows) return;
    // As other commands do it: leave at once where it fits, keep colours, keep the screen.
    this.#program = this.#start(this.#line, { LESS: 'FRX', ...this.#env });
    this.#program.write(this.#text);
  }

  /** Waits until the user has left the pager. Resolves with the text that no pager has shown. */
  async end(): Promise<string> {
    if (this.#program === undefined) return this.#text;
    return (await this.#program.end()) === NOT_FOUND ? this.#text : '';
  }
}
