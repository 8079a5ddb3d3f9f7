/** The host's side: notes in the store of their principal, changes pushed to its sessions, watchers served. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  type CallContext,
  definePlugin,
  handle,
  type Plugin,
  type PluginContext,
  type SessionView,
  toolCall,
} from 'handfast/capability';
import { failure } from './errors.ts';
import {
  confirmDelete,
  deleteNote,
  exportNotes,
  importNote,
  listNotes,
  notesChanged,
  setNote,
  watchNotes,
} from './messages.ts';

export interface NotesOptions {
  readonly maxNotes: number;
}

interface Note {
  readonly key: string;
  readonly text: string;
  readonly revision: number;
}

/** A subscription that is open. */
interface Watcher {
  readonly call: CallContext;
  readonly prefix: string;
  /** Events until it ends. */
  left: number;
}

const PAGE = 1000;

export function notesPlugin({ maxNotes }: NotesOptions): Plugin {
  const sessions = new Set<SessionView>();
  const watchers = new Set<Watcher>();
  /** Notes by principal, for the offer. */
  const counts = new Map<string, number>();
  let host: PluginContext;

  const all = (context: CallContext, prefix = ''): Note[] =>
    context.store.principal.list<Note>({ prefix, limit: PAGE }).map(({ value }) => value);

  /** Pushes a change to all sessions and watchers of the principal. */
  const announce = (context: CallContext, key: string, revision: number): void => {
    const { principal } = context.session;
    counts.set(principal.name, all(context).length);
    for (const session of sessions) {
      if (session.principal.name !== principal.name) continue;
      session.push(notesChanged, { key, revision });
      host.changed(session);
    }
    for (const watcher of watchers) {
      const { call, prefix } = watcher;
      if (call.session.principal.name !== principal.name || !key.startsWith(prefix)) continue;
      void call.emit('status', {}, { key, revision });
      if (--watcher.left === 0) {
        watchers.delete(watcher);
        call.finishStream();
      }
    }
  };

  const write = async (context: CallContext, key: string, text: string): Promise<Note> => {
    const { write: may } = (context.grant ?? { write: true }) as { write: boolean };
    if (!may) throw failure('read_only', 'this principal may only read notes; grant it { notes: { write: true } }');
    const { principal, shared } = context.store;
    const known = principal.get<Note>(key);
    if (known === undefined && all(context).length >= maxNotes) {
      throw failure('full', `there are ${maxNotes} notes already`, { max_notes: maxNotes });
    }
    const note = { key, text, revision: (known?.revision ?? 0) + 1 };
    // The note and its line in the history are stored together, or neither.
    await principal.atomically(() => {
      void principal.set(key, note);
      void shared.rows('history').insert({ principal: context.session.principal.name, ...note });
    });
    announce(context, key, note.revision);
    return note;
  };

  return definePlugin({
    name: 'notes',
    type: 'notes',
    store: { quotaBytes: 16 * 1024 * 1024 },
    grant: { type: 'object', properties: { write: { type: 'boolean', default: false } }, additionalProperties: false },
    metadata: ({ principal }) => ({ max_notes: maxNotes, notes: counts.get(principal.name) ?? 0 }),
    start(context) {
      host = context;
    },
    opened(session) {
      sessions.add(session);
    },
    closed(session) {
      sessions.delete(session);
    },
    methods: [
      handle(setNote, ({ key, text }, context) => write(context, key, text)),
      handle(listNotes, ({ prefix }, context) => ({ notes: all(context, prefix) })),
      handle(deleteNote, async ({ key }, context) => {
        const note = context.store.principal.get<Note>(key);
        if (note === undefined) throw failure('missing', `there is no note ${JSON.stringify(key)}`, { key });
        const { yes } = await context.session.ask(
          confirmDelete,
          { key },
          { signal: context.signal, timeoutMs: 60_000 },
        );
        if (!yes) throw failure('kept', 'the agent did not confirm the deletion', { key });
        await context.store.principal.delete(key);
        announce(context, key, 0);
        return { deleted: true };
      }),
      handle(importNote, async ({ key, path }, context) => {
        const { data } = await context.call(toolCall, { tool_name: 'read_file', arguments: { path } });
        const { content } = data.data as { content: string };
        return write(context, key, content);
      }),
      handle(exportNotes, async (_, context) => {
        const notes = all(context);
        const path = join(await context.dataFolder(), `${context.session.id}.json`);
        await writeFile(path, JSON.stringify(notes), { mode: 0o600 });
        return { path, count: notes.length };
      }),
      handle(watchNotes, ({ prefix = '', limit = Number.POSITIVE_INFINITY }, context) => {
        context.keepStream();
        const watcher = { call: context, prefix, left: limit };
        watchers.add(watcher);
        context.signal.addEventListener('abort', () => watchers.delete(watcher), { once: true });
        return { count: all(context, prefix).length };
      }),
    ],
  });
}
