/** The chain messages: every line of other implementations is valid, and readers ignore unknown members. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as requests from '../../../src/capabilities/chains/chains.generated.ts';
import * as replies from '../../../src/capabilities/chains/chains.replies.generated.ts';
import { messageSetOf } from '../../support/message-set.ts';

const set = messageSetOf('chains', requests, replies);

test('every line of the set is valid, with unknown fields too', () => {
  set.mustBeValid(6);
});

test('a request may name a stored chain instead of nodes, and nodes are checked later', () => {
  const request = { type: 'chain/req', id: 'r', chain: { name: 'nightly', version: 3 }, durable: true };
  assert.ok(requests.ChainReq(request));
  assert.ok(requests.ChainReq({ ...request, nodes: [{ node_id: 'a', kind: 'teleport' }] }));
  assert.ok(!requests.ChainReq({ ...request, nodes: ['a'] }));
  assert.ok(!requests.ChainReq({ ...request, chain: {} }));
});
