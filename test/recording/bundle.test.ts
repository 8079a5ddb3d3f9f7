/**
 * Bundles that are damaged, cut, or malicious: each is refused with an error of the table, and no file is written
 * elsewhere.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  truncateSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { VolatilePaths } from '../../src/recording/compare.ts';
import { MANIFEST_FILE, MAX_MANIFEST_BYTES, MAX_MESSAGES_BYTES, MESSAGES_FILE } from '../../src/recording/format.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { ReplayHost } from '../../src/recording/replay-host.ts';
import { exportBundle, importBundle } from '../../src/recording/single-file.ts';
import { echo } from '../support/tools.ts';
import { cleanUp, freshFolder, recorded, scratchFile } from './recorded.ts';

after(cleanUp);

const folder = freshFolder();
await recorded({ tools: [echo] }, (agent) => agent.tools.call('echo', { text: 'grüße' }), { folder });
const whole = freshFolder();
await exportBundle(folder, whole);
const exported = readFileSync(whole);

/** Returns a copy of the bundle with a changed file. */
function changed(file: string, change: (text: string) => string): string {
  const copy = freshFolder();
  cpSync(folder, copy, { recursive: true });
  writeFileSync(join(copy, file), change(readFileSync(join(copy, file), 'utf8')));
  return copy;
}

const manifest = (change: (manifest: Record<string, unknown>) => object): string =>
  changed(MANIFEST_FILE, (text) => JSON.stringify(change(JSON.parse(text))));

const refused = (path: string, message: RegExp): void =>
  void assert.throws(() => readBundle(path), { code: 'recording.invalid', message });

test('a folder and its exported file are the same recording, and come back by an import', async () => {
  const there = readBundle(folder);
  assert.deepEqual(readBundle(whole), there);
  const copy = freshFolder();
  await importBundle(whole, copy);
  assert.deepEqual(readBundle(copy), there);
  assert.deepEqual(readFileSync(join(copy, MESSAGES_FILE)), readFileSync(join(folder, MESSAGES_FILE)));
});

describe('a bundle is refused', () => {
  test('with a byte changed anywhere, or cut anywhere', () => {
    // The numbers of this generator are the same in every run.
    let seed = 20_261;
    const next = (below: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
      return seed % below;
    };
    const path = freshFolder();
    const reference = readBundle(whole);
    const firstLine = exported.indexOf(10);
    let survived = 0;
    for (let round = 0; round < 400; round++) {
      const at = next(exported.length);
      const bytes = round % 4 === 0 ? exported.subarray(0, at) : Buffer.from(exported);
      if (round % 4 !== 0) bytes[at] = (bytes[at]! + 1 + next(255)) % 256;
      writeFileSync(path, bytes);
      try {
        const read = readBundle(path);
        survived += 1;
        // Its hash holds the messages; a manifest of other words is still one.
        assert.ok(at <= firstLine && round % 4 !== 0, `a change at ${at} was not noticed`);
        assert.deepEqual(read.entries, reference.entries);
        new ReplayHost(read);
      } catch (thrown) {
        const { code } = thrown as { code?: string };
        assert.equal(code, 'recording.invalid', String(thrown));
      }
    }
    assert.ok(survived < 200);
  });

  test('with a manifest of another format, or without a member', () => {
    refused(
      manifest((all) => ({ ...all, format: 'har' })),
      /no valid "format"/,
    );
    refused(
      manifest((all) => ({ ...all, format_version: 99 })),
      /format version 99, and 1 is read/,
    );
    for (const member of [
      'protocol',
      'volatile',
      'redacted',
      'transports',
      'software',
      'connections',
      'complete',
      'edges',
    ]) {
      refused(
        manifest((all) => ({ ...all, [member]: undefined })),
        new RegExp(member),
      );
    }
    refused(
      manifest((all) => ({ ...all, files: {} })),
      /no valid size and hash/,
    );
    refused(
      manifest((all) => ({ ...all, messages: 1 })),
      /and the manifest says 1/,
    );
    refused(
      manifest((all) => ({ ...all, volatile: { client: [], host: ['cost'] } })),
      /"cost" is no JSON Pointer/,
    );
  });

  test('that names another file, by a path or by a second name', () => {
    for (const name of ['../../escape', '/etc/passwd', 'second.ndjson', '__proto__x']) {
      refused(
        manifest((all) => ({
          ...all,
          files: { ...(all.files as object), [name]: { bytes: 0, sha256: '0'.repeat(64) } },
        })),
        /names the file/,
      );
    }
  });

  test('with a link, a folder or a pipe in the place of a file', () => {
    const linked = freshFolder();
    cpSync(folder, linked, { recursive: true });
    execFileSync('rm', [join(linked, MESSAGES_FILE)]);
    symlinkSync(join(folder, MESSAGES_FILE), join(linked, MESSAGES_FILE));
    refused(linked, /messages\.ndjson is a link/);
    const nested = freshFolder();
    mkdirSync(join(nested, MANIFEST_FILE), { recursive: true });
    refused(nested, /manifest\.json is not a file/);
    const piped = freshFolder();
    mkdirSync(piped);
    execFileSync('mkfifo', [join(piped, MANIFEST_FILE)]);
    refused(piped, /manifest\.json is not a file/);
  });

  test('with lines that are not in order, of no connection, or nested without end', () => {
    const incomplete = (change: (lines: string[]) => string[]): string => {
      const copy = changed(MESSAGES_FILE, (text) => change(text.trimEnd().split('\n')).join('\n').concat('\n'));
      const file = join(copy, MANIFEST_FILE);
      writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), complete: false, files: {} }));
      return copy;
    };
    refused(
      incomplete((lines) => lines.slice(1)),
      /"seq" does not count/,
    );
    refused(
      incomplete((lines) => [lines[0]!, lines[0]!.replace('"seq":1', '"seq":2')]),
      /connections are not numbered/,
    );
    refused(
      incomplete((lines) => [lines[0]!, lines[1]!.replace('"conn":1', '"conn":7')]),
      /connection that is not open/,
    );
    refused(
      incomplete((lines) => [lines[0]!, lines[1]!.replace('"from":"client"', '"from":"nobody"')]),
      /"from" is neither/,
    );
    refused(
      incomplete(([first = '']) => [first, `{"seq":2,"ms":1e6,"conn":1,"from":"host","message":${'['.repeat(5000)}`]),
      /nested too deeply|not JSON/,
    );
    refused(
      incomplete(([first = '']) => [first, '{"seq":2,"ms":-1,"conn":1,"from":"host","text":""}']),
      /runs backwards/,
    );
    refused(
      incomplete(([first = '']) => [first.replace(/"ms":[^,]*/, '"ms":1e999')]),
      /"ms" is no number/,
    );
    refused(
      incomplete(([first = '']) => [first, 'null']),
      /no JSON object/,
    );
  });
});

describe('a bundle that was made to do harm', () => {
  test('with files of endless size is refused before they are read', () => {
    for (const [file, bytes, why] of [
      [MESSAGES_FILE, MAX_MESSAGES_BYTES + 1, /messages\.ndjson .*larger than/],
      [MANIFEST_FILE, MAX_MANIFEST_BYTES + 1, /manifest\.json .*larger than/],
    ] as const) {
      const copy = changed(file, (text) => text);
      truncateSync(join(copy, file), bytes);
      refused(copy, why);
    }
    const single = freshFolder();
    cpSync(whole, single);
    truncateSync(single, MAX_MESSAGES_BYTES + MAX_MANIFEST_BYTES + 1);
    refused(single, /larger than/);
  });

  test('with a volatile field of many wildcards takes no time to match', () => {
    const wildcards = `/${'**/'.repeat(150)}nowhere`;
    const paths = new VolatilePaths([wildcards, '/**/a/**/b/*/c']);
    const deep = Array.from({ length: 1000 }, (_, at) => `m${at}`);
    assert.equal(paths.has(deep), false);
    assert.equal(paths.has([...deep, 'nowhere']), true);
    assert.equal(paths.has(['x', 'a', 'y', 'z', 'b', 'any', 'c']), true);
    assert.equal(paths.has(['x', 'a', 'b', 'c']), false);
    assert.equal(paths.has(['a', 'b', 'c', 'b', 'q', 'c']), true);
  });

  test('with members of every object leaves other objects as they are', () => {
    const copy = changed(MANIFEST_FILE, (text) => text.replace('{', '{"__proto__":{"complete":true,"stolen":1},'));
    const read = readBundle(copy);
    assert.equal(({} as { stolen?: number }).stolen, undefined);
    assert.equal(read.manifest.complete, true);
  });

  test('with a program in front, or scripts in its manifest, runs nothing and comes in as plain files', async () => {
    const program = freshFolder();
    writeFileSync(program, Buffer.concat([Buffer.from('#!/bin/sh\ntouch ran\n'), exported]), { mode: 0o755 });
    refused(program, /the manifest is not JSON/);
    const scripted = freshFolder();
    const [head = '', ...lines] = exported.toString('utf8').split('\n');
    const marker = scratchFile('ran');
    const scripts = { install: `touch ${marker}`, postinstall: `touch ${marker}` };
    writeFileSync(scripted, [JSON.stringify({ ...JSON.parse(head), scripts }), ...lines].join('\n'), { mode: 0o755 });
    const target = freshFolder();
    await importBundle(scripted, target);
    assert.deepEqual(readdirSync(target).sort(), [MANIFEST_FILE, MESSAGES_FILE]);
    for (const name of readdirSync(target)) assert.equal(statSync(join(target, name)).mode & 0o777, 0o600);
    assert.ok(!existsSync(marker));
  });
});

test('of a bundle that is not complete the last line may be cut', () => {
  const copy = changed(MESSAGES_FILE, (text) => text.slice(0, -10));
  const file = join(copy, MANIFEST_FILE);
  writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), complete: false, files: {} }));
  const { entries, manifest: read } = readBundle(copy);
  assert.equal(read.complete, false);
  assert.equal(entries.length, readBundle(folder).entries.length - 1);
});

describe('an import', () => {
  test('of a damaged file writes nothing', async () => {
    const path = freshFolder();
    const bytes = Buffer.from(exported);
    bytes[bytes.length - 30]! ^= 1;
    writeFileSync(path, bytes);
    const before = readdirSync(dirname(path)).sort();
    const target = `${path}-imported`;
    await assert.rejects(importBundle(path, target), { code: 'recording.invalid' });
    assert.ok(!existsSync(target));
    assert.deepEqual(readdirSync(dirname(path)).sort(), before);
  });

  test('into a folder with something in it, or over a file, is refused', async () => {
    await assert.rejects(importBundle(whole, folder), { code: 'usage' });
    await assert.rejects(importBundle(folder, whole), { code: 'usage' });
    await assert.rejects(exportBundle(folder, whole), { code: 'usage' });
  });

  test('onto a symbolic link is refused, and the link stays: one that leads nowhere, or to an empty folder', async () => {
    for (const target of [`${whole}-nowhere`, freshFolder()]) {
      const link = `${whole}-link`;
      symlinkSync(target, link);
      await assert.rejects(importBundle(whole, link), { code: 'usage', message: /link is a symbolic link/ });
      assert.ok(lstatSync(link).isSymbolicLink());
      unlinkSync(link);
    }
  });

  test('of an incomplete recording says so and has a hash from then on', async () => {
    const copy = changed(MESSAGES_FILE, (text) => text.slice(0, -10));
    const file = join(copy, MANIFEST_FILE);
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), complete: false, files: {} }));
    const [packed, unpacked] = [freshFolder(), freshFolder()];
    await exportBundle(copy, packed);
    await importBundle(packed, unpacked);
    const { manifest: read } = readBundle(unpacked);
    assert.equal(read.complete, false);
    assert.ok(read.files[MESSAGES_FILE] !== undefined);
  });
});
