/** `handfast record export` and `import`: a recording as one file, and back. */
import { exportBundle, importBundle } from '../../recording/single-file.ts';
import type { Terminal } from '../output/terminal.ts';

export async function recordExport(path: string, file: string, terminal: Terminal): Promise<void> {
  const { messages, complete } = await exportBundle(path, file);
  if (terminal.json) terminal.document({ file, messages, complete });
  else terminal.line(`wrote ${file}`);
}

export async function recordImport(file: string, folder: string, terminal: Terminal): Promise<void> {
  const { messages, complete } = await importBundle(file, folder);
  if (terminal.json) terminal.document({ folder, messages, complete });
  else terminal.line(`wrote ${folder}`);
}
