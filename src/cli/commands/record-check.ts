/**
 * `handfast record check`: checks that a recording is whole and unchanged, and shows its content.
 */
import { counted } from '../../base/counted.ts';
import { whatIsMissing } from '../../recording/missing.ts';
import { readBundle } from '../../recording/read-bundle.ts';
import type { Terminal } from '../output/terminal.ts';

/** Fails with `recording.invalid` and the fault, or `not_found`. */
export async function recordCheck(path: string, terminal: Terminal): Promise<void> {
  const recording = readBundle(path);
  const { manifest, entries } = recording;
  const missing = whatIsMissing(recording);
  const { complete, protocol, started_at: started, redacted } = manifest;
  const connections = entries.filter((entry) => 'event' in entry && entry.event === 'opened').length;
  const messages = entries.filter((entry) => 'from' in entry).length;
  if (terminal.json) {
    terminal.document({
      valid: true,
      complete,
      missing: missing ?? null,
      protocol,
      connections,
      messages,
      started_at: started,
      redacted,
    });
    return;
  }
  terminal.line(missing ?? 'complete');
  terminal.line(
    `${protocol}, ${counted(messages, 'message')} of ${counted(connections, 'connection')}, since ${started}`,
  );
  for (const { rule, count, values } of redacted)
    terminal.line(`  ${rule}: ${count} places, ${values} different values`);
}
