/**
 * The journal of a session as a recording, so that it can be compared with a recording: the lines that
 * `handfast tail SESSION --json` prints.
 */
import { readBounded } from '../base/bounded-file.ts';
import { isObject } from '../wire/json.ts';
import { defaultVolatile } from './compare.ts';
import {
  badRecording,
  type Entry,
  FORMAT,
  FORMAT_VERSION,
  MAX_MESSAGES_BYTES,
  PROTOCOL_VERSIONS,
  type Recording,
} from './format.ts';

/**
 * Reads the recording; undefined for a file whose first line is no entry of a journal. Throws `recording.invalid` for a
 * journal with a gap.
 */
export function readJournalFile(path: string): Recording | undefined {
  const read = readBounded(path, MAX_MESSAGES_BYTES);
  if (read.kind !== 'file') return undefined;
  const lines = read.bytes.toString('utf8').trimEnd().split('\n');
  const first = parsed(lines[0] ?? '');
  if (!isObject(first) || typeof first.cursor !== 'number' || !isObject(first.body)) return undefined;
  const entries: Entry[] = [{ seq: 1, ms: 0, conn: 1, event: 'opened', client: 'journal', host: 'journal' }];
  for (const [at, line] of lines.entries()) {
    const entry = parsed(line);
    if (isObject(entry) && entry.kind === 'gap') throw badRecording('the journal has a gap', at + 1);
    if (!isObject(entry) || !isObject(entry.body)) throw badRecording('a line is no entry of a journal', at + 1);
    const from = entry.kind === 'request' ? 'client' : 'host';
    entries.push({ seq: at + 2, ms: at + 1, conn: 1, from, message: entry.body });
  }
  return {
    fromJournal: true,
    entries,
    manifest: {
      format: FORMAT,
      format_version: FORMAT_VERSION,
      complete: true,
      protocol: 'a2e',
      protocol_version: PROTOCOL_VERSIONS.a2e,
      edges: [],
      transports: { client: [], host: [] },
      started_at: '',
      ended_at: null,
      software: {},
      connections: 1,
      messages: lines.length,
      redacted: [],
      skipped_secrets: [],
      volatile: defaultVolatile('a2e'),
      files: {},
    },
  };
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
