/**
 * The client of a request: only the words of a named proxy are trusted.
 */
import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import { test } from 'node:test';
import { trustProxies } from '../../../src/base/http/client-address.ts';

const trust = trustProxies(['127.0.0.1', '10.0.0.0/8', '2001:db8:5::/48']);

function from(remoteAddress: string, headers: Record<string, string> = {}): string {
  return trust({ socket: { remoteAddress }, headers } as unknown as IncomingMessage);
}

test('without a named proxy the peer of the connection is the client, with any headers', () => {
  assert.equal(from('192.0.2.1'), '192.0.2.1');
  assert.equal(from('192.0.2.1', { 'x-forwarded-for': '203.0.113.9', forwarded: 'for=203.0.113.9' }), '192.0.2.1');
  assert.equal(from('::ffff:192.0.2.1'), '192.0.2.1');
});

test('the client is the last hop that is no named proxy', () => {
  const cases: [string, string][] = [
    ['203.0.113.9', '203.0.113.9'],
    // Written by the client itself, before the additions of the proxies.
    ['198.51.100.1, 203.0.113.9', '203.0.113.9'],
    ['198.51.100.1, 203.0.113.9, 10.1.2.3', '203.0.113.9'],
    ['203.0.113.9:4711', '203.0.113.9'],
    ['2001:db8:1::7', '2001:db8:1::7'],
    ['[2001:db8:1::7]:4711, 2001:db8:5::1', '2001:db8:1::7'],
    ['10.0.0.9, 10.0.0.8', '10.0.0.9'],
    // A text that is no address hides the client: the proxy before it counts as the client.
    ['203.0.113.9, unknown', '127.0.0.1'],
    ['203.0.113.9, unknown, 10.0.0.8', '10.0.0.8'],
    ['', '127.0.0.1'],
  ];
  for (const [chain, client] of cases) assert.equal(from('127.0.0.1', { 'x-forwarded-for': chain }), client, chain);
  assert.equal(from('::ffff:127.0.0.1', { 'x-forwarded-for': '203.0.113.9' }), '203.0.113.9');
});

test('Forwarded says the same in its own words', () => {
  const cases: [string, string][] = [
    ['for=203.0.113.9;proto=https;by=10.0.0.1', '203.0.113.9'],
    ['For="[2001:db8:1::7]:4711"', '2001:db8:1::7'],
    ['for=198.51.100.1, for=203.0.113.9, for=10.0.0.8', '203.0.113.9'],
    ['for=_hidden', '127.0.0.1'],
    ['proto=https', '127.0.0.1'],
  ];
  for (const [chain, client] of cases) assert.equal(from('127.0.0.1', { forwarded: chain }), client, chain);
});

test('two headers that disagree name no client: one of them may be what the client wrote', () => {
  const both = (old: string, standard: string) =>
    from('127.0.0.1', { 'x-forwarded-for': old, forwarded: `for=${standard}` });
  assert.equal(both('203.0.113.9', '203.0.113.9'), '203.0.113.9');
  assert.equal(both('203.0.113.9', '198.51.100.1'), '127.0.0.1');
});
