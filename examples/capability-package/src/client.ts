/** The agent's side: `agent.notes`. */
import type { AgentSession, Call, CallOptions } from 'handfast/capability';
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

export interface Note {
  readonly key: string;
  readonly text: string;
  readonly revision: number;
}

export interface NoteChange {
  readonly key: string;
  /** 0 for a note that was deleted. */
  readonly revision: number;
}

export class NotesClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /** Rejects with `notes.read_only`, `notes.full`. */
  set(key: string, text: string, options: CallOptions = {}): Call<Note> {
    return this.#agent.calls.call(setNote, { key, text }, options);
  }

  list(prefix = '', options: CallOptions = {}): Call<readonly Note[]> {
    return this.#agent.calls.call(listNotes, { prefix }, options, ({ notes }) => notes);
  }

  /** Sets a note to the content of a file of the host's workspace. */
  import(key: string, path: string, options: CallOptions = {}): Call<Note> {
    return this.#agent.calls.call(importNote, { key, path }, options);
  }

  export(options: CallOptions = {}): Call<{ readonly path: string; readonly count: number }> {
    return this.#agent.calls.call(exportNotes, {}, options);
  }

  /** Deletes a note after `confirm` returned true. Rejects with `notes.missing`, `notes.kept`. */
  async delete(key: string, confirm: (key: string) => boolean | Promise<boolean>): Promise<void> {
    const done = this.#agent.serve(confirmDelete, async (question) => ({ yes: await confirm(question.key) }));
    try {
      await this.#agent.calls.call(deleteNote, { key });
    } finally {
      done();
    }
  }

  /** Calls `listener` for each change, by any client. Returns the function that ends it. */
  onChange(listener: (change: NoteChange) => unknown): () => void {
    return this.#agent.on(notesChanged, listener);
  }

  /** Yields the changes of notes whose key begins with `prefix`, from now on: `limit` of them, or until the loop is left. */
  async *watch(prefix = '', limit?: number): AsyncGenerator<NoteChange> {
    const call = this.#agent.calls.call(
      watchNotes,
      { prefix, ...(limit && { limit }) },
      { keepStream: true, streaming: true },
    );
    for await (const { fields } of call) yield fields as unknown as NoteChange;
  }
}
