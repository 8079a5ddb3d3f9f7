/**
 * The capability as a value, for `plugins:` of a host, `connect` of an agent and the command line.
 */
import { defineCapability } from 'handfast/capability';
import { NotesClient } from './client.ts';
import { commands } from './commands.ts';
import type { NotesOptions } from './plugin.ts';

declare module 'handfast/capability' {
  interface CapabilityClients {
    readonly notes: NotesClient;
  }
}

export const capability = defineCapability({
  name: 'notes',
  about: 'Notes that the agents of a principal share',
  options: {
    type: 'object',
    properties: {
      max_notes: { type: 'integer', minimum: 1, maximum: 1000, default: 1000, description: 'Notes of one principal.' },
    },
    required: ['max_notes'],
  },
  // Agents never load the plugin.
  plugin: async (options) => (await import('./plugin.ts')).notesPlugin(options as unknown as NotesOptions),
  client: (agent) => new NotesClient(agent),
  commands,
  check: ({ maxNotes }) => [{ status: 'ok', message: `up to ${maxNotes} notes for each principal` }],
});

export { type Note, type NoteChange, NotesClient } from './client.ts';
export { failure } from './errors.ts';
