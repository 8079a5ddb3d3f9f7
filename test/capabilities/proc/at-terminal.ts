/** A command that a user runs at a terminal, in a shell that reports the state of the terminal afterwards. */
import type { TestContext } from 'node:test';
import { type Child, startChild } from '../../../src/base/child.ts';
import { openTerminal, type PseudoTerminal } from '../../../src/base/pseudo-terminal.ts';
import type { User } from '../../cli/command.ts';
import { until } from './support.ts';

export class AtTerminal {
  readonly terminal: PseudoTerminal = openTerminal({ cols: 90, rows: 25 });
  readonly child: Child;
  seen = '';

  constructor(t: TestContext, user: User, words: readonly string[]) {
    const line = user.line(words).map((word) => `'${word.replaceAll("'", "'\\''")}'`);
    const script = `stty -g > before; ${line.join(' ')}; echo "code=$?="; stty -g > after; cmp before after && echo same; exit`;
    this.child = startChild({
      argv: ['/bin/sh', '-c', script],
      cwd: user.cwd,
      env: { ...user.environment(), TERM: 'xterm' },
      terminal: this.terminal,
    });
    void (async () => {
      for await (const bytes of this.terminal.output()) this.seen += bytes.toString();
    })();
    t.after(async () => {
      await this.child.kill();
      this.terminal.destroy();
    });
  }

  async says(text: string | RegExp): Promise<string> {
    await until(
      () => (typeof text === 'string' ? this.seen.includes(text) : text.test(this.seen)),
      `${text} in ${JSON.stringify(this.seen.slice(-2_000))}`,
    ).catch((error: Error) => {
      throw new Error(`${error.message}: ${JSON.stringify(this.seen.slice(-2_000))}`);
    });
    const { seen } = this;
    this.seen = '';
    return seen;
  }
}
