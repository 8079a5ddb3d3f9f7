/**
 * The contenders of subagents: children of `fork` over the channel of Node, and calls of a function.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { bounded } from '../control.ts';
import { TEXT, type Team, WORDS } from './team.ts';
import { wordsIn } from './words.mjs';

const WAIT_MS = 30_000;
const program = join(import.meta.dirname, 'child.mjs');

/** A child that does one task at a time. */
class PlainChild {
  readonly #child: ChildProcess = fork(program, { execArgv: [] });
  #task = 0;

  async run(): Promise<void> {
    this.#task += 1;
    const reply = once(this.#child, 'message');
    this.#child.send({ id: this.#task, text: TEXT });
    const [{ id, result }] = (await bounded(reply, 'a child did not reply', WAIT_MS)) as [
      { readonly id: number; readonly result: { readonly words: number } },
    ];
    if (id !== this.#task || result.words !== WORDS) throw new Error('a child replied something else');
  }

  async events(count: number): Promise<void> {
    const all = Promise.withResolvers<void>();
    let seen = 0;
    const listener = ({ content }: { readonly content: { readonly message: string } }): void => {
      if (content.message !== `step ${seen}`) all.reject(new Error('an event is missing'));
      seen += 1;
      if (seen === count) all.resolve();
    };
    this.#child.on('message', listener);
    this.#child.send({ id: 0, events: count });
    await bounded(all.promise, 'events did not come', WAIT_MS);
    this.#child.off('message', listener);
  }

  async end(): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill();
    await exited;
  }
}

/** Returns children of `fork`, `count` of which stay for tasks. */
export function plainChildren(count: number): Team {
  const standing = Array.from({ length: count }, () => new PlainChild());
  return {
    async lifetime() {
      const child = new PlainChild();
      await child.run();
      await child.end();
    },
    task: (at) => (standing[at] as PlainChild).run(),
    events: (events) => (standing[0] as PlainChild).events(events),
    async close() {
      await Promise.all(standing.map((child) => child.end()));
    },
  };
}

/** Calls of a function of this process. */
export const plainFunction: Pick<Team, 'lifetime'> = {
  async lifetime() {
    if (wordsIn(TEXT) !== WORDS) throw new Error('the words were not counted');
  },
};
