/**
 * The report on the public interface: its content, and its refusal of types that users could not name.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { reportOn } from '../scripts/generate-api.ts';

const folder = mkdtempSync(join(tmpdir(), 'handfast-api-test-'));
after(() => rmSync(folder, { recursive: true }));

function emitted(files: Readonly<Record<string, string>>) {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
  }
  return reportOn(folder, { '.': { types: './dist/index.d.ts' }, './more': { types: './dist/more.d.ts' } });
}

test('each subpath lists its declarations without comments and private members; the second time by reference', () => {
  const { text, unnamed } = emitted({
    'index.d.ts': "export { open, type Door as Gate } from './parts/door.js';\n",
    'more.d.ts': "export * from './parts/door.js';\n",
    'parts/door.d.ts':
      '/** A door. */\nexport declare class Door {\n    #private;\n    /** Its width. */\n    readonly width: number;\n}\n' +
      'export declare function open(width: number): Door;\n',
  });
  assert.deepEqual(unnamed, []);
  assert.match(
    text,
    /## `handfast`\n\n```ts\nclass Door {\n {4}readonly width: number;\n}\nfunction open\(width: number\): Door;/,
  );
  assert.match(text, /## `handfast\/more`\n\n```ts\nDoor: see handfast\nopen: see handfast\n/);
});

test('a type that a public declaration uses and no subpath exports is reported with its users', () => {
  const { unnamed } = emitted({
    'index.d.ts': "export { run } from './run.js';\n",
    'more.d.ts': 'export declare const one: number;\n',
    'run.d.ts':
      "import type { Hidden } from './hidden.js';\nexport declare function run(hidden: Hidden): Promise<void>;\n",
    'hidden.d.ts': 'export interface Hidden {\n    readonly a: string;\n}\n',
  });
  assert.deepEqual(unnamed, ['handfast: run uses Hidden of hidden.ts']);
});
