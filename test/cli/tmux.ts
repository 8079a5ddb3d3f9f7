/**
 * A terminal that can be looked at: tmux, with a separate server. The terminal gives the output of a command as rows of text,
 * so that a test sees the user's view and not the bytes that lead there.
 */
import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';

/** Reason why this machine has no such terminal, or false. */
export const noTmux = spawnSync('tmux', ['-V']).status === 0 ? false : 'needs tmux: install the package tmux';

/** Longest wait for a text that a command shows, in milliseconds: far above its need, also where two cores run other work. */
const PATIENCE_MS = 60_000;
/** Each look starts a program. */
const LOOK_MS = 150;

export interface TmuxOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
  readonly rows?: number;
}

export class TmuxTerminal {
  readonly #socket = `handfast-${randomUUID()}`;

  /** Runs a command in a new terminal. */
  constructor(command: readonly string[], { cwd, env, columns = 80, rows = 30 }: TmuxOptions) {
    const given = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const size = ['-x', String(columns), '-y', String(rows)];
    this.#tmux('-f', '/dev/null', 'new-session', '-d', ...size, '-c', cwd, 'cat');
    this.#tmux('set-option', '-g', 'history-limit', '200000');
    const words = ['env', '-i', ...given, 'TERM=screen-256color', ...command];
    const line = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    // tmux itself misses now and then how a command ended.
    this.#tmux('respawn-window', '-k', '-c', cwd, `${line}; echo exit code $?; exec cat`);
  }

  /**
   * Returns the rows of the screen; with `history` also those that scrolled away. `styled` keeps the colours, `joined` undoes
   * the cuts of the terminal.
   */
  screen({ history = false, styled = false, joined = false } = {}): string {
    const flags = [...(history ? ['-S', '-'] : []), ...(styled ? ['-e'] : []), ...(joined ? ['-J'] : [])];
    return this.#tmux('capture-pane', '-p', ...flags).stdout;
  }

  /** Types text exactly as given. */
  type(text: string): void {
    this.#tmux('send-keys', '-l', '--', text);
  }

  /** Presses keys by the names tmux has for them: `Enter`, `C-c`, `M-Enter`. */
  press(...keys: string[]): void {
    this.#tmux('send-keys', ...keys);
  }

  paste(text: string): void {
    this.#tmux('set-buffer', '--', text);
    this.#tmux('paste-buffer', '-p', '-r');
  }

  resize(columns: number, rows: number): void {
    this.#tmux('resize-window', '-x', String(columns), '-y', String(rows));
  }

  /** Waits until the screen shows a text; gives the screen. */
  async shows(wanted: string | RegExp, options: { history?: boolean; styled?: boolean } = {}): Promise<string> {
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      const screen = this.screen(options);
      if (typeof wanted === 'string' ? screen.includes(wanted) : wanted.test(screen)) return screen;
      if (performance.now() > until) throw new Error(`the terminal does not show ${wanted}:\n${screen}`);
      await delay(LOOK_MS);
    }
  }

  /** Waits for the end of the command; gives its exit code. */
  async ended(): Promise<number> {
    const [, code] = /^exit code (\d+)$/m.exec(await this.shows(/^exit code \d+$/m)) ?? [];
    return Number(code);
  }

  /** The title the command gave its terminal. */
  get title(): string {
    return this.#tmux('display-message', '-p', '#{pane_title}').stdout.trim();
  }

  close(): void {
    spawnSync('tmux', ['-L', this.#socket, 'kill-server']);
  }

  #tmux(...words: string[]): SpawnSyncReturns<string> {
    const ran = spawnSync('tmux', ['-L', this.#socket, ...words], { encoding: 'utf8', maxBuffer: 2 ** 28 });
    if (ran.status !== 0) throw new Error(`tmux ${words[0]}: ${ran.stderr}`);
    return ran;
  }
}
