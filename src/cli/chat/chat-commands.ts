/** The slash commands of `handfast chat`: some run in this terminal, all others on the server. */

import { fail } from '../../wire/errors.ts';
import { folderFor } from '../connect/open-control.ts';
import { oneLine } from '../output/tool-summary.ts';
import { list, note } from './chat-lists.ts';
import type { ChatPlace } from './chat-place.ts';
import { chooseAuth, chooseModel, chooseQueued, chooseSession } from './choosing.ts';

const HELP = `Type a prompt. While the agent works, what you type steers its turn.
Alt-Enter, or a backslash before Enter, starts a new line. Tab completes /commands and @files.
Ctrl-O shows what was folded. Esc or Ctrl-C stops the turn. Ctrl-C again, or with nothing running, leaves, and so does
Ctrl-D; Ctrl-C first clears what is typed.`;

interface Command {
  readonly about: string;
  run(place: ChatPlace, text: string): unknown;
}

/** The server may have other clients; only this one leaves. */
const quit: Command = { about: 'leave; a server that was already running continues', run: (place) => place.leave() };

const commands: Readonly<Record<string, Command>> = {
  '/new': {
    about: 'start a new session',
    async run(place) {
      await place.enter(await place.control.create({ ...folderFor(place.control), parallelTools: true }));
      note(place, `· new session ${place.session.id}`);
    },
  },
  '/sessions': {
    about: 'choose another session of this folder; with an id, continue that one',
    run: chooseSession,
  },
  '/queue': {
    about: 'prompts that wait: choose one to take it back',
    run: chooseQueued,
  },
  '/model': {
    about: 'choose the model of this session and how much it thinks; with an id, and a level, use those',
    run: chooseModel,
  },
  '/auth': {
    about: 'choose a provider: store a key, sign in, remove that again',
    run: chooseAuth,
  },
  '/retitle': {
    about: 'give this session a title',
    async run(place, title) {
      if (title === '') throw fail('usage', '/retitle needs a title');
      await place.control.rpc.sessionRename({ session_id: place.session.id, title });
    },
  },
  '/quit': quit,
  '/exit': quit,
};

/** Runs a command. Fails as the server does. */
export async function chatCommand(place: ChatPlace, text: string): Promise<void> {
  const [name = '', ...words] = text.split(/\s+/);
  if (Object.hasOwn(commands, name)) return void (await commands[name]?.run(place, words.join(' ')));
  const call = { session_id: place.session.id, raw_command: text };
  // No timeout: a compaction asks the model, which may be slow.
  const { output } = await place.control.rpc.commandExecute(call, { timeoutMs: 0 });
  if (place.terminal.json) return place.terminal.document(output ?? null);
  if (name === '/help') return help(place, rowsOf(output) ?? []);
  const rows = rowsOf(output);
  if (rows !== undefined) return list(place, rows);
  const { error } = (output ?? {}) as { error?: unknown };
  if (typeof error === 'string') throw fail('usage', `${error}; /help lists the commands`);
  place.terminal.line(JSON.stringify(output ?? null, null, 2));
}

/**
 * Returns all commands of a conversation with their descriptions: those of this terminal, and those of the server. Fails as the
 * server does.
 */
export async function commandRows({
  control,
  session,
}: ChatPlace): Promise<(readonly [name: string, about: string])[]> {
  const { output } = await control.rpc.commandExecute({ session_id: session.id, raw_command: '/help' });
  return withOurs(rowsOf(output) ?? []);
}

function withOurs(others: readonly (readonly string[])[]): (readonly [string, string])[] {
  const own = Object.entries(commands).map(([name, { about }]) => [name, about] as const);
  return [
    ...own,
    ...others.flatMap(([name = '', about = '']) => (Object.hasOwn(commands, name) ? [] : [[name, about] as const])),
  ];
}

function help(place: ChatPlace, others: readonly (readonly string[])[]): void {
  place.terminal.line(HELP);
  list(place, withOurs(others));
}

/** Returns the list in an output, if it is one of things with a name and a description. */
function rowsOf(output: unknown): readonly (readonly string[])[] | undefined {
  const lists = Object.values((output ?? {}) as object).filter((value): value is object[] => Array.isArray(value));
  const [items] = lists;
  if (items === undefined || lists.length > 1 || items.length === 0) return undefined;
  const rows = items.map((item) => item as { name?: unknown; description?: unknown });
  if (rows.some(({ name, description }) => typeof name !== 'string' || typeof description !== 'string'))
    return undefined;
  return rows.map(({ name, description }) => [String(name), oneLine(description)]);
}
