/**
 * The slash commands of `handfast chat`: some run in this terminal, all others on the server.
 *
 * Called by `conversation.ts`.
 */
import type { ControlClient } from '../../control-client/control.ts';
import type { ControlSession } from '../../control-client/session.ts';
import { fail } from '../../wire/errors.ts';
import type { TerminalOutput } from '../output/terminal.ts';
import { oneLine } from '../output/tool-summary.ts';

/** The conversation a command is given in. */
export interface ChatPlace {
  readonly control: ControlClient;
  readonly terminal: TerminalOutput;
  readonly session: ControlSession;
  enter(session: ControlSession): Promise<void>;
  leave(): void;
}

/** Most rows of a list. */
const LISTED = 20;

const HELP = `Type a prompt. While the agent works, what you type steers its turn.
Ctrl-C stops the turn; twice, or with nothing running, leaves. Ctrl-D leaves.`;

interface Command {
  readonly about: string;
  run(place: ChatPlace, text: string): unknown;
}

/** The server may have other clients; leaving is ours alone. */
const quit: Command = { about: 'leave; a server that was already running continues', run: (place) => place.leave() };

const commands: Readonly<Record<string, Command>> = {
  '/new': {
    about: 'start a new session',
    async run(place) {
      await place.enter(await place.control.create({ cwd: process.cwd(), parallelTools: true }));
      note(place, `· new session ${place.session.id}`);
    },
  },
  '/sessions': {
    about: 'the sessions of this folder; with an id, continue that one',
    async run(place, id) {
      const found: { session_id: string; title: string }[] = [];
      for await (const session of place.control.sessions({ cwd: process.cwd() })) {
        if (id !== '' && !session.session_id.startsWith(id)) continue;
        if (id !== '') return place.enter(await place.control.open(session.session_id));
        if (found.push(session) === LISTED) break;
      }
      if (id !== '') throw fail('session_not_found', `no session of this folder starts with ${id}`);
      list(
        place,
        found.map(({ session_id, title }) => [session_id, title]),
      );
    },
  },
  '/queue': {
    about: 'prompts that wait',
    async run(place) {
      const queue = await place.session.queue();
      if (queue.length === 0) note(place, '· nothing waits');
      else
        list(
          place,
          queue.map(({ id, text }) => [id, text]),
        );
    },
  },
  '/model': {
    about: 'the models that can be chosen; with an id, choose it for this session',
    async run(place, model) {
      const { rpc } = place.control;
      if (model !== '') {
        await rpc.sessionConfigure({ session_id: place.session.id, model });
        return note(place, `· this session uses ${model}`);
      }
      const { models, selected_model: selected } = await rpc.modelList({});
      if (models.length === 0) note(place, '· no models; set the key of a provider before the server starts');
      list(
        place,
        models.map(({ id, description }) => [
          id,
          id === selected ? `${description} (chosen for all sessions)` : description,
        ]),
      );
    },
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

/** All commands of a conversation with what they do: ours, and those of the server. Fails as the server does. */
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

/** The list in an output, if it is one of things with a name and a description. */
function rowsOf(output: unknown): readonly (readonly string[])[] | undefined {
  const lists = Object.values((output ?? {}) as object).filter((value): value is object[] => Array.isArray(value));
  const [items] = lists;
  if (items === undefined || lists.length > 1 || items.length === 0) return undefined;
  const rows = items.map((item) => item as { name?: unknown; description?: unknown });
  if (rows.some(({ name, description }) => typeof name !== 'string' || typeof description !== 'string'))
    return undefined;
  return rows.map(({ name, description }) => [String(name), oneLine(description)]);
}

function list({ terminal }: ChatPlace, rows: readonly (readonly string[])[]): void {
  if (terminal.json) return terminal.document(rows);
  const width = Math.max(0, ...rows.map(([name = '']) => name.length));
  for (const [name = '', about = ''] of rows) terminal.line(`${name.padEnd(width)}  ${oneLine(about)}`);
}

function note({ terminal }: ChatPlace, text: string): void {
  if (!terminal.json) terminal.note(text);
}
