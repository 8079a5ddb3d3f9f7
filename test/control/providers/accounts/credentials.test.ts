/**
 * Storage of secrets: sealed with a key from the keyring, or in a private file; and keyrings that fail in every way.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Log } from '../../../../src/base/log.ts';
import { CredentialStore } from '../../../../src/control/providers/accounts/credentials.ts';
import { type Keyring, systemKeyring } from '../../../../src/control/providers/accounts/keyring.ts';
import { temporaryFolder } from '../../../host/temporary-folder.ts';

interface TestKeyring extends Keyring {
  readonly entries: Map<string, string>;
  reachable: boolean;
  reads: number;
}

function memoryKeyring(): TestKeyring {
  const entries = new Map<string, string>();
  const keyring: TestKeyring = {
    entries,
    reachable: true,
    reads: 0,
    async read(account) {
      keyring.reads += 1;
      if (!keyring.reachable) throw new Error('locked');
      return entries.get(account);
    },
    async write(account, secret) {
      if (!keyring.reachable) throw new Error('locked');
      entries.set(account, secret);
    },
    async remove(account) {
      if (!keyring.reachable) throw new Error('locked');
      entries.delete(account);
    },
  };
  return keyring;
}

function collected() {
  const lines: string[] = [];
  const take = (message: string, fields?: object) => void lines.push(`${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: take, info: take, warn: take, error: take };
  return { log, lines };
}

const KEY = { kind: 'api_key', key: 'sk-secret' } as const;

test('with a keyring the file holds nothing readable, and a restart reads it back', async (t) => {
  const home = temporaryFolder(t);
  const keyring = memoryKeyring();
  const { log, lines } = collected();
  const first = await CredentialStore.open({ home, keyring, log });
  assert.equal(keyring.reads, 0, 'the keyring is left alone until there is a secret');
  await first.set('openrouter', KEY);
  await first.set('exa', { kind: 'api_key', key: 'exa-secret' });
  assert.equal(first.protection, 'keyring');
  const text = readFileSync(join(home, 'credentials.json'), 'utf8');
  assert.ok(!text.includes('secret') && !text.includes('openrouter'));
  assert.equal(keyring.entries.size, 1);

  const second = await CredentialStore.open({ home, keyring, log });
  assert.deepEqual(second.get('openrouter'), { ...KEY, baseUrl: undefined });
  await second.clear();
  assert.equal(keyring.entries.size, 0);
  assert.ok(!existsSync(join(home, 'credentials.json')));
  assert.ok(!lines.join().includes('secret'));
});

test('two data directories have a key each', async (t) => {
  const keyring = memoryKeyring();
  const { log } = collected();
  for (const home of [temporaryFolder(t), temporaryFolder(t)]) {
    await (await CredentialStore.open({ home, keyring, log })).set('exa', KEY);
  }
  assert.equal(keyring.entries.size, 2);
});

test('without a keyring, or with one that fails, the private file is used and the keyring is not asked again', async (t) => {
  const { log, lines } = collected();
  const home = temporaryFolder(t);
  const keyring = memoryKeyring();
  keyring.reachable = false;
  const store = await CredentialStore.open({ home, keyring, log });
  await store.set('exa', KEY);
  await store.set('openrouter', KEY);
  assert.equal(store.protection, 'file');
  assert.equal(keyring.reads, 1);
  assert.match(lines.join(), /no keyring available/);
  assert.match(readFileSync(join(home, 'credentials.json'), 'utf8'), /sk-secret/);

  // Once the keyring is there, the next change seals the file.
  keyring.reachable = true;
  const later = await CredentialStore.open({ home, keyring, log });
  await later.set('exa', undefined);
  assert.ok(!readFileSync(join(home, 'credentials.json'), 'utf8').includes('sk-secret'));
  assert.equal(later.get('openrouter')?.kind, 'api_key');
});

test('a keyring that takes a key and loses it is not trusted with the credentials', async (t) => {
  const { log } = collected();
  const home = temporaryFolder(t);
  const keyring: Keyring = {
    ...memoryKeyring(),
    async read() {
      return undefined;
    },
  };
  const store = await CredentialStore.open({ home, keyring, log });
  await store.set('exa', KEY);
  assert.equal(store.protection, 'file');
});

test('sealed credentials whose key is out of reach are kept, and set aside by the next change', async (t) => {
  const { log, lines } = collected();
  const home = temporaryFolder(t);
  const keyring = memoryKeyring();
  await (await CredentialStore.open({ home, keyring, log })).set('openrouter', KEY);
  const sealed = readFileSync(join(home, 'credentials.json'), 'utf8');

  keyring.reachable = false;
  const locked = await CredentialStore.open({ home, keyring, log });
  assert.equal(locked.get('openrouter'), undefined);
  assert.match(lines.join(), /unlock the keyring and restart/);
  assert.equal(readFileSync(join(home, 'credentials.json'), 'utf8'), sealed);
  await locked.set('exa', KEY);
  assert.equal(readFileSync(join(home, 'credentials.json.unusable'), 'utf8'), sealed);

  // A file changed by another process is noticed, not believed.
  keyring.reachable = true;
  const changed = JSON.parse(sealed);
  changed.sealed.data = Buffer.from('{"exa":{"kind":"api_key","key":"theirs"}}').toString('base64');
  writeFileSync(join(home, 'credentials.json'), JSON.stringify(changed), { mode: 0o600 });
  assert.equal((await CredentialStore.open({ home, keyring, log })).get('exa'), undefined);
});

/** Writes a stand-in for the keyring library: the module that the child process imports. */
function libraryFile(t: TestContext, body: string): { module: string; folder: string } {
  const folder = temporaryFolder(t);
  const file = join(folder, 'library.mjs');
  writeFileSync(file, body);
  return { module: pathToFileURL(file).href, folder };
}

test('the keyring is asked in a child process, and no secret is among its arguments', async (t) => {
  const { module, folder } = libraryFile(
    t,
    `import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
     import { join } from 'node:path';
     export class Entry {
       constructor(service, account, options) {
         if (service !== 'handfast' || options.linux.store !== 'secret-service') throw new Error('wrong entry');
         if (process.argv.concat(process.execArgv).join().includes('the-secret')) throw new Error('secret in arguments');
         if (process.env.NODE_OPTIONS !== undefined) throw new Error('options of the parent');
         this.file = join(process.env.KEYRING_FOLDER, account);
       }
       getPassword() { return existsSync(this.file) ? readFileSync(this.file, 'utf8') : null; }
       setPassword(secret) { writeFileSync(this.file, secret); }
       deletePassword() { rmSync(this.file, { force: true }); return true; }
     }`,
  );
  const env = { KEYRING_FOLDER: folder, NODE_OPTIONS: '--no-warnings' };
  const keyring = systemKeyring({ module, env, timeoutMs: 60_000 })!;
  assert.equal(await keyring.read('one'), undefined);
  await keyring.write('one', 'the-secret');
  assert.equal(await keyring.read('one'), 'the-secret');
  await keyring.remove('one');
  assert.equal(await keyring.read('one'), undefined);
});

test('a keyring that never answers is given up after its deadline', async (t) => {
  // The real library on a session bus that accepts and says nothing: it holds its thread for good.
  const { module } = libraryFile(t, 'export class Entry { constructor() { for (;;); } }');
  const keyring = systemKeyring({ module, env: {}, timeoutMs: 300 })!;
  await assert.rejects(keyring.read('one'), {
    code: 'runtime_error',
    message: /the keyring did not respond within \d+ ms/,
  });
});

test('a keyring that fails is out of reach, with any message, and its words are not repeated', async (t) => {
  const { module } = libraryFile(t, "export class Entry { constructor() { throw new Error('secret words'); } }");
  await assert.rejects(systemKeyring({ module, env: {}, timeoutMs: 60_000 })!.read('one'), {
    code: 'runtime_error',
    message: 'the keyring cannot be reached',
  });
  const gone = systemKeyring({ module: 'file:///nowhere/library.mjs', env: {}, timeoutMs: 60_000 })!;
  await assert.rejects(gone.write('one', 'x'.repeat(100_000)), { code: 'runtime_error' });
});
