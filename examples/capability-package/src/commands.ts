/** `handfast notes …` */
import type { CapabilityCommand } from 'handfast/capability';
import { NotesClient } from './client.ts';

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'ls [prefix]',
    about: 'list the notes',
    async run({ args: [prefix], agent, signal, terminal }) {
      const notes = await new NotesClient(agent).list(prefix as string | undefined, { signal });
      if (terminal.json) terminal.document(notes);
      else for (const { key, text } of notes) terminal.line(`${key}: ${text}`);
      return undefined;
    },
  },
  {
    usage: 'set <key> <text>',
    about: 'write a note',
    options: [['--quiet', 'print nothing']],
    async run({ args: [key, text], options, agent, signal, terminal }) {
      const note = await new NotesClient(agent).set(key as string, text as string, { signal });
      if (terminal.json) terminal.document(note);
      else if (options.quiet !== true) terminal.note(`${note.key}, revision ${note.revision}`);
      return undefined;
    },
  },
];
