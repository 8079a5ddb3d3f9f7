import assert from 'node:assert/strict';
import { link, mkdir, mkdtemp, realpath, rename, rm, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { PathGuard } from '../../../src/base/workspace/protected-paths.ts';
import { acceptPrompt, type ReadPromptOptions, readPrompt } from '../../../src/control/rounds/prompt.ts';
import type { ImageReference } from '../../../src/protocol/session-types.ts';

const PNG = Buffer.from('iVBORw0KGgo=', 'base64');
const PNG_URL = 'data:image/png;base64,iVBORw0KGgo=';

/** Makes a folder with a session's directory in it and something beside that. */
async function folders(t: TestContext): Promise<{ cwd: string; outside: string }> {
  const outside = await realpath(await mkdtemp(join(tmpdir(), 'handfast-prompt-')));
  t.after(() => rm(outside, { recursive: true, force: true }));
  const cwd = join(outside, 'work dir');
  await mkdir(join(cwd, 'shots'), { recursive: true });
  await writeFile(join(cwd, 'shots', 'a.png'), PNG);
  await writeFile(join(outside, 'secret.png'), PNG);
  return { cwd, outside };
}

const read = (images: readonly ImageReference[], options: ReadPromptOptions, text = 'look') =>
  readPrompt({ text, images }, options);

const readPath = async (path: string, options: ReadPromptOptions) => (await read([{ path }], options)).images[0];

const messageOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => assert.fail('it did not fail'),
    (error: Error) => error.message,
  );

test('text is trimmed; without text and image there is no prompt', () => {
  assert.deepEqual(acceptPrompt('  hello \n', undefined), { text: 'hello', images: [] });
  for (const images of [undefined, null, 'x', {}, [], [{}], [null, 1, 'x', []], [{ path: '  ', data_url: '' }]]) {
    assert.equal(acceptPrompt('  ', images), undefined);
  }
  assert.deepEqual(acceptPrompt(undefined, [{ path: ' a.png ' }]), { text: '', images: [{ path: 'a.png' }] });
});

test('images are taken under either spelling; a data URL without a path gets a label', () => {
  const images = [
    { path: 'a.png', dataUrl: PNG_URL, mimeType: 'image/png' },
    { data_url: PNG_URL, mime_type: 'image/gif', other: 1 },
    { path: 3 },
  ];
  assert.deepEqual(acceptPrompt('x', images, () => 1234)?.images, [
    { path: 'a.png', mime_type: 'image/png', data_url: PNG_URL },
    { path: 'rpc-image-1234.png', mime_type: 'image/gif', data_url: PNG_URL },
  ]);
});

test('a data URL becomes an image; mime_type overrides its own type', async () => {
  const options = { cwd: '/nowhere' };
  const [image] = (await read([{ path: 'shot.png', data_url: PNG_URL }], options)).images;
  assert.deepEqual(image, { path: 'shot.png', mimeType: 'image/png', dataUrl: PNG_URL, byteSize: 8 });
  const [other] = (await read([{ path: 'x', data_url: PNG_URL, mime_type: 'IMAGE/JPG' }], options)).images;
  assert.deepEqual([other?.mimeType, other?.dataUrl.slice(0, 22)], ['image/jpeg', 'data:image/jpeg;base64']);
});

test('images that are not named in the text are marked behind it', async () => {
  const image = { path: 'x', data_url: PNG_URL };
  const textOf = async (text: string, count: number) =>
    (await read(Array(count).fill(image), { cwd: '/nowhere' }, text)).text;
  assert.equal(await textOf('', 1), '[Image 1]');
  assert.equal(await textOf('what is this', 1), 'what is this [Image 1]');
  assert.equal(await textOf('see [image 1]', 1), 'see [image 1]');
  assert.equal(await textOf('first [IMAGE 2]', 3), 'first [IMAGE 2] [Image 1] [Image 3]');
  assert.equal(await textOf('no image', 0), 'no image');
});

test('data URLs that are none are refused in the words of the protocol', async () => {
  const failure = (data_url: string, mime_type?: string) =>
    messageOf(read([{ path: 'x', data_url, mime_type }], { cwd: '/nowhere' }));
  assert.equal(await failure('bogus'), 'invalid image data_url. expected data:<mime>;base64,<payload>');
  assert.equal(await failure('data:image/png,abc'), 'invalid image data_url. expected data:<mime>;base64,<payload>');
  assert.equal(await failure('data:text/plain;base64,QQ=='), 'unsupported image mime type: text/plain');
  assert.equal(await failure(PNG_URL, 'image/tiff'), 'unsupported image mime type: image/tiff');
  assert.equal(await failure('data:image/png;base64,%%%'), 'invalid image data_url payload');
  assert.equal(await failure('data:image/png;base64,AAAAA'), 'invalid image data_url payload');
  assert.equal(await failure('data:image/png;base64,'), 'image payload is empty');
});

test('an image may be too large, alone or together with the others, and there may be too many', async () => {
  const image = { path: 'x', data_url: PNG_URL };
  const options = { cwd: '/nowhere' };
  assert.match(await messageOf(read([image], { ...options, maxImageBytes: 7 })), /^image too large \(.*\)\. max is /);
  const big = { path: 'x', data_url: `data:image/png;base64,${'A'.repeat(12 * 1024 * 1024)}` };
  assert.equal(await messageOf(read([big], options)), 'image too large (9 MiB). max is 8 MiB');
  assert.match(await messageOf(read([image, image], { ...options, maxTotalBytes: 15 })), /^images too large together/);
  assert.equal(await messageOf(read(Array(17).fill(image), options)), 'too many images (17). max is 16');
  assert.equal((await read(Array(16).fill(image), options)).images.length, 16);
});

test('a path may be relative, absolute, quoted, a file URL, or begin with the home', async (t) => {
  const { cwd, outside } = await folders(t);
  const absolute = join(cwd, 'shots', 'a.png');
  const options = { cwd, home: cwd };
  for (const path of [
    'shots/a.png',
    './shots/../shots/a.png',
    absolute,
    `"${absolute}"`,
    "'shots/a.png'",
    pathToFileURL(absolute).href,
    '~/shots/a.png',
  ]) {
    const image = await readPath(path, options);
    assert.deepEqual([image?.mimeType, image?.dataUrl, image?.byteSize], ['image/png', PNG_URL, 8], path);
  }
  assert.equal(await messageOf(readPath('~/shots/a.png', { cwd })), 'file not found: ~/shots/a.png');
  assert.equal((await readPath(join(outside, 'secret.png'), { cwd, roots: [cwd, outside] }))?.byteSize, 8);
});

test('what is not an image by its name, not a file, or missing, is reported in the words of the protocol', async (t) => {
  const { cwd } = await folders(t);
  await writeFile(join(cwd, 'notes.txt'), 'secret notes');
  await writeFile(join(cwd, 'empty.png'), '');
  await writeFile(join(cwd, 'big.png'), Buffer.alloc(100));
  assert.equal(await messageOf(readPath('missing.png', { cwd })), 'file not found: missing.png');
  assert.equal(await messageOf(readPath('shots', { cwd })), 'not a file: shots');
  const unsupported = 'unsupported image type: .txt. supported: .png, .jpg, .jpeg, .webp, .gif';
  assert.equal(await messageOf(readPath('notes.txt', { cwd })), unsupported);
  assert.equal(await messageOf(readPath('empty.png', { cwd })), 'image payload is empty');
  assert.match(await messageOf(readPath('big.png', { cwd, maxImageBytes: 99 })), /^image too large/);
});

test('weakness 27: a path outside the allowed folders gets the answer of one that does not exist', async (t) => {
  const { cwd, outside } = await folders(t);
  await symlink(join(outside, 'secret.png'), join(cwd, 'link.png'));
  await symlink(outside, join(cwd, 'up'));
  await writeFile(join(outside, 'secret.txt'), 'x');
  const paths = [
    join(outside, 'secret.png'),
    join(outside, 'missing.png'),
    join(outside, 'secret.txt'),
    outside,
    '/etc/passwd',
    '../secret.png',
    'link.png',
    'up/secret.png',
    pathToFileURL(join(outside, 'secret.png')).href,
    'file://elsewhere/a.png',
    'nul\0.png',
  ];
  for (const path of paths) {
    await assert.rejects(readPath(path, { cwd }), { code: 'not_found', message: `file not found: ${path}` });
  }
});

test('F-93: a protected file gets the answer of one that does not exist, through any link', async (t) => {
  const { cwd } = await folders(t);
  await writeFile(join(cwd, 'token'), 'secret');
  await symlink('token', join(cwd, 'symbolic.png'));
  await link(join(cwd, 'token'), join(cwd, 'hard.png'));
  const guard = new PathGuard([{ path: join(cwd, 'token'), kind: 'file', deny: 'all' }]);
  for (const path of ['symbolic.png', 'hard.png', 'token']) {
    await assert.rejects(readPath(path, { cwd, guard }), { code: 'not_found', message: `file not found: ${path}` });
  }
  assert.ok((await readPath('symbolic.png', { cwd }))?.byteSize);
  assert.ok((await readPath('shots/a.png', { cwd, guard }))?.byteSize);
});

test('weakness 27: a link that is exchanged while the path is looked up never leads out', async (t) => {
  const { cwd, outside } = await folders(t);
  await writeFile(join(outside, 'secret.png'), Buffer.from('secret'));
  const target = join(cwd, 'swap.png');
  let swapping = true;
  const swaps = (async () => {
    for (let at = 0; swapping; at += 1) {
      await symlink(at % 2 === 0 ? join(outside, 'secret.png') : join(cwd, 'shots', 'a.png'), `${target}.new`);
      await rename(`${target}.new`, target);
    }
  })();
  try {
    for (let at = 0; at < 300; at += 1) {
      const image = await readPath('swap.png', { cwd }).catch(() => undefined);
      if (image !== undefined) assert.equal(image.dataUrl, PNG_URL);
    }
  } finally {
    swapping = false;
    await swaps;
    await unlink(target);
  }
  await symlink(join(cwd, 'shots', 'a.png'), target);
  assert.equal((await readPath('swap.png', { cwd }))?.dataUrl, PNG_URL, 'a link that stays inside is followed');
});

test('an over-long path is not repeated whole', async () => {
  const message = await messageOf(readPath(`${'x'.repeat(5000)}.png`, { cwd: '/nowhere' }));
  assert.ok(message.length < 300);
});
