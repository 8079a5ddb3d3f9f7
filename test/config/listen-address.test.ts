/**
 * Addresses that a host may listen on: loopback always, others only with a token and an explicit setting.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkBind, isLoopback, parseListenAddress } from '../../src/config/listen-address.ts';

test('addresses are taken apart, and what is none is not', () => {
  assert.deepEqual(parseListenAddress('http://127.0.0.1:4700'), { kind: 'http', host: '127.0.0.1', port: 4700 });
  assert.deepEqual(parseListenAddress('http://LocalHost:0/'), { kind: 'http', host: 'localhost', port: 0 });
  assert.deepEqual(parseListenAddress('tcp://[::1]:65535'), { kind: 'tcp', host: '::1', port: 65_535 });
  assert.deepEqual(parseListenAddress('unix:///run/hf.sock'), { kind: 'unix', path: '/run/hf.sock' });
  assert.deepEqual(parseListenAddress('unix://run/hf.sock'), { kind: 'unix', path: 'run/hf.sock' });
  for (const wrong of [
    '',
    '4700',
    '127.0.0.1:4700',
    'http://127.0.0.1',
    'http://127.0.0.1:65536',
    'http://127.0.0.1:4700/path',
    'http://user:secret@127.0.0.1:4700',
    'https://127.0.0.1:4700',
    'tcp://:4700',
    'tcp://::1:4700',
    'unix://',
    'unix:///a\0b',
    ' tcp://127.0.0.1:1',
  ]) {
    assert.equal(parseListenAddress(wrong), undefined, wrong);
  }
});

test('only what this machine alone can reach counts as loopback', () => {
  for (const host of [
    '127.0.0.1',
    '127.255.0.9',
    'localhost',
    'LOCALHOST',
    '::1',
    '0:0:0:0:0:0:0:1',
    '::ffff:127.0.0.1',
  ]) {
    assert.ok(isLoopback(host), host);
  }
  for (const host of [
    '0.0.0.0',
    '::',
    '10.0.0.1',
    '192.168.1.1',
    '169.254.1.1',
    '128.0.0.1',
    '127.0.0.1.nip.io',
    'localhost.evil.example',
    'evil.localhost.example',
    '127.1',
    '127.0.0.256',
    '2130706433',
    '::ffff:10.0.0.1',
    'fe80::1',
    '',
  ]) {
    assert.ok(!isLoopback(host), host);
  }
});

test('loopback and Unix sockets need neither token nor consent', () => {
  for (const address of ['http://127.0.0.1:1', 'tcp://[::1]:1', 'tcp://localhost:1', 'unix:///tmp/x']) {
    assert.deepEqual(checkBind(address, { hasToken: false, insecure: false }), parseListenAddress(address));
  }
});

test('an address other machines can reach needs both, and the refusal names what is missing', () => {
  for (const address of ['http://0.0.0.0:1', 'tcp://[::]:1', 'tcp://10.1.2.3:1', 'http://box.lan:1']) {
    const refuse = (hasToken: boolean, insecure: boolean, message: RegExp) =>
      assert.throws(() => checkBind(address, { hasToken, insecure }), { code: 'config_invalid', message });
    refuse(false, false, /or a token \(auth\.tokens\) and insecure_bind: true .*--insecure-bind.*not encrypted, got /);
    refuse(false, true, /or a token \(auth\.tokens\), got .* which other machines can reach/);
    refuse(true, false, /or insecure_bind: true/);
    assert.deepEqual(checkBind(address, { hasToken: true, insecure: true }), parseListenAddress(address));
  }
  assert.throws(() => checkBind('0.0.0.0:1', { hasToken: true, insecure: true }), { code: 'config_invalid' });
});
