/** The members of `options` of the `memory` plugin in `handfast.yaml`; never imported at run time. */
import { group, integer, optional, text, variable } from '../../config/shared.schema.ts';
import { Type } from '../../wire/schema.ts';
import { MEMORY_DEFAULTS as defaults } from './limits.ts';

export const options = group('Memory that outlives sessions.', {
  max_entries: integer(
    'Entries of one principal; each stored version counts. All shared spaces together have the same.',
    [1, 10_000_000],
    defaults.maxEntries,
  ),
  max_bytes: integer(
    'Bytes of the entries of one principal, without indexes and vectors. All shared spaces together have the same.',
    [65_536, 1_099_511_627_776],
    defaults.maxBytes,
  ),
  max_entry_bytes: integer('Bytes of one entry.', [1024, 16_777_216], defaults.maxEntryBytes),
  history_versions: integer('Versions of a key stored beside the newest.', [0, 10_000], defaults.historyVersions),
  working_days: integer(
    'Days after which the working tier of a session is deleted that never ended in order.',
    [1, 365],
    defaults.workingDays,
  ),
  embedder: optional(
    group(
      'A server that computes vectors, with the embeddings call of the OpenAI API. Without it: hashed n-grams, here.',
      {
        base_url: Type.String({
          pattern: '^https?:\\/\\/[^\\s@?#]+$',
          expected: 'an http:// or https:// address',
          description: 'Address of its API. Texts of entries and queries are sent there.',
          example: 'http://127.0.0.1:11434/v1',
        }),
        model: text('The model.', 'the name of a model', 'nomic-embed-text'),
        api_key_env: optional(variable('The variable with its key, if it wants one.', 'EMBEDDINGS_API_KEY')),
        timeout_ms: integer('Longest wait for it, with retries.', [100, 600_000], defaults.embedderTimeoutMs),
      },
    ),
  ),
});
