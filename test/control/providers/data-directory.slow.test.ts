/**
 * The data directory: one server at a time, private files, and the data that survives restarts and damage.
 */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';
import { startLoginService } from '../support/login-service.ts';
import { openSettings } from './open-settings.ts';

const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

test('weakness 30: a second process on a data directory is refused and told who has it', async (t) => {
  const home = temporaryFolder(t);
  const holder = spawn(process.execPath, [join(import.meta.dirname, 'fixtures', 'hold-data.ts'), home], {
    stdio: ['pipe', 'pipe', 'inherit'],
    timeout: 120_000,
  });
  await once(holder.stdout, 'data');
  await assert.rejects(openSettings(t, { home }), (error: HandfastError) => {
    assert.equal(error.code, 'journal_locked');
    assert.ok(error.message.includes(`in use by process ${holder.pid}`), error.message);
    assert.equal(error.detail.pid, holder.pid);
    assert.equal(error.retryable, true);
    return true;
  });
  // However the holder dies, the directory is free again.
  holder.kill('SIGKILL');
  await once(holder, 'close');
  await openSettings(t, { home });
});

test('weakness 30: two servers in one process are refused as well, and stopping frees the directory', async (t) => {
  const first = await openSettings(t);
  await assert.rejects(openSettings(t, { home: first.home }), { code: 'journal_locked' });
  await first.settings.stop();
  assert.deepEqual(
    readdirSync(first.home).filter((name) => name.endsWith('.pid')),
    [],
  );
  await openSettings(t, { home: first.home });
});

test('a start that fails lets go of the data directory', async (t) => {
  const home = temporaryFolder(t);
  mkdirSync(join(home, 'credentials.json'));
  await assert.rejects(openSettings(t, { home }), { code: 'config_invalid' });
  await assert.rejects(openSettings(t, { home }), { code: 'config_invalid' });
});

test('weakness 28: everything written is for its owner alone', { skip: process.platform === 'win32' }, async (t) => {
  const home = join(temporaryFolder(t), 'deep', 'data');
  const previous = process.umask(0);
  t.after(() => process.umask(previous));
  const { call } = await openSettings(t, { home });
  await call('auth.set.exa_key', { api_key: 'exa-secret' });
  await call('onboarding.complete');
  assert.equal(modeOf(home), '700');
  for (const name of readdirSync(home)) assert.equal(modeOf(join(home, name)), '600', name);
  assert.match(readFileSync(join(home, 'credentials.json'), 'utf8'), /exa-secret/);
});

test('weakness 28: a credentials file that others could read is closed, and said so', async (t) => {
  if (process.platform === 'win32') return t.skip('no permission bits');
  const home = temporaryFolder(t);
  chmodSync(home, 0o755);
  const file = join(home, 'credentials.json');
  writeFileSync(file, JSON.stringify({ version: 1, credentials: { openrouter: { kind: 'api_key', key: 'k' } } }));
  chmodSync(file, 0o644);
  const { call, logs } = await openSettings(t, { home, env: { OPENROUTER_BASE_URL: 'http://127.0.0.1:1' } });
  assert.equal(modeOf(file), '600');
  assert.equal(modeOf(home), '700');
  const warning = logs.find(({ level }) => level === 'warn');
  assert.match(warning!.message, /other users could read/);
  assert.deepEqual(warning!.fields, { file });
  assert.equal((await call('auth.status')).has_openrouter_key, true);
});

test('a pipe or a folder in the place of a file is refused instead of waited for', async (t) => {
  const home = temporaryFolder(t);
  symlinkSync('/dev/zero', join(home, 'settings.json'));
  await assert.rejects(openSettings(t, { home }), (error: HandfastError) => {
    assert.equal(error.code, 'config_invalid');
    assert.match(error.message, /settings\.json is not a file|belongs to another user/);
    return true;
  });
});

test('choices and credentials survive a restart', async (t) => {
  const first = await openSettings(t);
  await first.call('onboarding.complete');
  await first.call('auth.set.exa_key', { api_key: 'exa-secret' });
  await first.call('model.select', { model_id: 'gpt-5.2', provider: 'openai', thinking_level: 'low' });
  await first.settings.stop();
  const second = await openSettings(t, { home: first.home });
  assert.deepEqual(await second.call('onboarding.status'), { completed: true });
  assert.equal(second.settings.exaKey(), 'exa-secret');
  assert.deepEqual(second.settings.snapshotParts().model, {
    selectedModel: 'gpt-5.2',
    selectedThinking: 'LOW',
    selectedOpenRouterProvider: 'any',
    selectedProvider: 'openai',
  });
});

test('damaged settings are set aside, damaged credentials only once something is stored', async (t) => {
  const home = temporaryFolder(t);
  writeFileSync(join(home, 'settings.json'), '{"selected":');
  writeFileSync(join(home, 'credentials.json'), '{"credentials": sk-secret', { mode: 0o600 });
  writeFileSync(join(home, 'models-cache.json'), '[]', { mode: 0o600 });
  const { call, settings, logs } = await openSettings(t, { home });
  assert.equal(settings.snapshotParts().onboarding.completed, false);
  assert.ok(existsSync(join(home, 'settings.json.unusable')));
  assert.ok(!existsSync(join(home, 'credentials.json.unusable')));
  await call('auth.set.exa_key', { api_key: 'new' });
  assert.match(readFileSync(join(home, 'credentials.json.unusable'), 'utf8'), /sk-secret/);
  assert.match(readFileSync(join(home, 'credentials.json'), 'utf8'), /"new"/);
  assert.ok(!JSON.stringify(logs).includes('sk-secret'));
});

test('a change that cannot be written changes nothing', async (t) => {
  const { call, settings, home, events } = await openSettings(t);
  // A folder in the place of the file cannot be replaced by one.
  mkdirSync(join(home, 'settings.json', 'x'), { recursive: true });
  await assert.rejects(call('onboarding.complete'), { code: 'runtime_error' });
  assert.equal(settings.snapshotParts().onboarding.completed, false);
  assert.deepEqual(events, []);
  assert.deepEqual(
    readdirSync(home).filter((name) => name.endsWith('.new')),
    [],
  );
});

test('forgetting everything leaves neither file nor secret, and ends a sign-in under way', async (t) => {
  const login = await startLoginService();
  t.after(() => login[Symbol.asyncDispose]());
  login.behaviour.device = 'wait';
  const { call, settings, home, event } = await openSettings(t, { env: login.env });
  await call('auth.set.exa_key', { api_key: 'exa-secret' });
  await call('onboarding.complete');
  await call('model.select', { model_id: 'gpt-5.2', provider: 'openai', thinking_level: 'HIGH' });
  const pending = assert.rejects(call('auth.connect.openai', { mode: 'device_code' }), { code: 'cancelled' });
  await event('auth.flow.device_code');
  await settings.forgetEverything();
  await pending;
  assert.deepEqual(
    readdirSync(home).filter((name) => name.endsWith('.json')),
    [],
  );
  assert.equal(settings.exaKey(), undefined);
  assert.equal(settings.snapshotParts().model.selectedModel, '');
  assert.deepEqual(await call('onboarding.status'), { completed: false });
});
