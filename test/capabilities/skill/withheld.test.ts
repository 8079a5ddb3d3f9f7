/**
 * In the tier `process` no function of Node tells whether a file of the host exists: its outcome is equal for existing and
 * missing files.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { agentOf, skillHost, skipTier, writeSkill } from './support.ts';

/** Calls every function of some modules with a path, in several forms, and compares the outcomes of two paths. */
const CODE = `export default async ({ there, missing }) => {
  const load = (name) => process.getBuiltinModule('node:' + name);
  const own = ['exit', 'abort', 'reallyExit', 'emit', 'emitWarning', 'nextTick', 'on', 'once', 'addListener', 'prependListener', 'prependOnceListener', 'setUncaughtExceptionCaptureCallback', 'uptime', 'freemem', 'availableMemory'];
  const shown = (value, path) => {
    if (value instanceof Error) return (value.code + ' ' + value.message).replaceAll(path, 'PATH');
    return typeof value === 'object' ? Object.prototype.toString.call(value) : String(value).replaceAll(path, 'PATH');
  };
  const soon = (work) => Promise.race([work, new Promise((resolve) => setTimeout(resolve, 300, 'nothing yet'))]);
  const settled = async (action, path) => {
    const outcomes = [];
    const later = new Promise((resolve) => {
      let value;
      try { value = action(path, (error, found) => resolve(error ?? found)); } catch (error) { value = error; }
      outcomes.push(value);
      if (typeof value?.then === 'function') value.then(resolve, resolve);
      else if (typeof value?.on === 'function') value.on('error', resolve);
    });
    outcomes.push(await soon(later));
    return outcomes.map((each) => (typeof each?.then === 'function' ? 'a promise' : shown(each, path))).join(' | ');
  };
  const targets = [];
  for (const [name, members] of Object.entries({ fs: load('fs'), promises: load('fs').promises, process, vm: load('vm'), v8: load('v8'), os: load('os'), tls: load('tls'), url: load('url') })) {
    for (const key of Object.getOwnPropertyNames(members)) {
      if (typeof members[key] === 'function' && !key.startsWith('_') && !own.includes(key)) targets.push([name + '.' + key, members[key].bind(members)]);
    }
  }
  const native = load('fs').realpathSync.native;
  targets.push(['native', native], ['connect', (path) => load('net').connect({ path })], ['import', (path) => import('file://' + path)]);
  const differ = [];
  await Promise.all(targets.flatMap(([name, call]) =>
    [(path, done) => call(path, done), (path) => call(path), (path) => call(path, path), (path) => call(path, {})].map(async (form, at) => {
      const [one, other] = await Promise.all([settled(form, there), settled(form, missing)]);
      if (one !== other) differ.push(name + ' ' + at + ': ' + one + ' / ' + other);
    })));
  return { differ, count: targets.length };
};`;

test('no function tells whether a file is there', { timeout: 120_000, ...skipTier('process') }, async (t) => {
  const site = await skillHost(t, { skill: { tier: 'process' } });
  writeSkill(site.root, 'compare', { code: CODE, front: 'timeout_seconds: 60' });
  const agent = await agentOf(t, site);
  const { data } = await agent.skill.call<{ differ: string[]; count: number }>('compare', {
    there: import.meta.filename,
    missing: `${import.meta.filename}/none/at-all`,
  });
  assert.deepEqual(data?.differ, []);
  assert.ok((data?.count ?? 0) > 150, `${data?.count}`);
});
