/** The messages of the capability. Host and agent import the same values; types and checks come from the schemas. */
import { method, push } from 'handfast/capability';

const text = { type: 'string' } as const;
const note = {
  type: 'object',
  properties: { key: text, text, revision: { type: 'integer' } },
  required: ['key', 'text', 'revision'],
} as const;
const base = { capability: 'notes', event: 'notes/event' } as const;

export const setNote = method({
  ...base,
  request: 'notes/set/req',
  reply: 'notes/set/resp',
  params: { type: 'object', properties: { key: text, text }, required: ['key', 'text'] },
  result: note,
});

export const listNotes = method({
  ...base,
  request: 'notes/list/req',
  reply: 'notes/list/resp',
  params: { type: 'object', properties: { prefix: text } },
  result: { type: 'object', properties: { notes: { type: 'array', items: note } }, required: ['notes'] },
});

/** Asks the agent before it deletes: see {@link confirmDelete}. */
export const deleteNote = method({
  ...base,
  request: 'notes/delete/req',
  reply: 'notes/delete/resp',
  params: { type: 'object', properties: { key: text }, required: ['key'] },
  result: { type: 'object', properties: { deleted: { type: 'boolean' } }, required: ['deleted'] },
});

/** Sets a note to the content of a file of the workspace, which the host's `read_file` tool reads. */
export const importNote = method({
  ...base,
  request: 'notes/import/req',
  reply: 'notes/import/resp',
  params: { type: 'object', properties: { key: text, path: text }, required: ['key', 'path'] },
  result: note,
});

/** Writes all notes into a file of the plugin's data folder, and replies with its path. */
export const exportNotes = method({
  ...base,
  request: 'notes/export/req',
  reply: 'notes/export/resp',
  params: { type: 'object', properties: {} },
  result: { type: 'object', properties: { path: text, count: { type: 'integer' } }, required: ['path', 'count'] },
});

/** A subscription: replies with the number of notes, then sends an event for each change of keys that begin with `prefix`. */
export const watchNotes = method({
  ...base,
  request: 'notes/watch/req',
  reply: 'notes/watch/resp',
  event: 'notes/watch/event',
  params: { type: 'object', properties: { prefix: text, limit: { type: 'integer', minimum: 1 } } },
  result: { type: 'object', properties: { count: { type: 'integer' } }, required: ['count'] },
  events: { type: 'object', properties: { key: text, revision: { type: 'integer' } }, required: ['key', 'revision'] },
});

/** A request of the host to the agent. */
export const confirmDelete = method({
  ...base,
  request: 'notes/confirm/req',
  reply: 'notes/confirm/resp',
  params: { type: 'object', properties: { key: text }, required: ['key'] },
  result: { type: 'object', properties: { yes: { type: 'boolean' } }, required: ['yes'] },
});

/** Sent to every session of a principal whose notes changed. */
export const notesChanged = push({
  push: 'notes/changed/push',
  capability: 'notes',
  content: { type: 'object', properties: { key: text, revision: { type: 'integer' } }, required: ['key', 'revision'] },
});
