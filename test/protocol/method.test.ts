/**
 * Methods that another package declares: by plain JSON Schemas and by TypeBox values, without Handfast's generator.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Type } from 'typebox';
import { method } from '../../src/protocol/method.ts';
import { violation } from '../../src/wire/check.ts';

const names = { request: 'notes/add/req', reply: 'notes/add/resp', event: 'notes/event', capability: 'notes' };
const envelope = { type: 'notes/add/req', id: '1', a2e: '1.0', version: '1.0', ts: 1 };

const plain = method({
  ...names,
  params: {
    type: 'object',
    properties: { text: { type: 'string' }, tags: { type: 'array', items: { type: 'string' } } },
    required: ['text'],
  },
  result: {
    type: 'object',
    properties: { note_id: { type: 'string' } },
    required: ['note_id'],
    additionalProperties: false,
  },
  streaming: ({ text }) => text === '',
});
const typed = method({
  ...names,
  params: Type.Object(
    { text: Type.String(), tags: Type.Optional(Type.Array(Type.String())) },
    { additionalProperties: false },
  ),
  result: Type.Object({ note_id: Type.String() }),
  limitMs: ({ tags }) => tags?.length,
});

describe('a method declared by its schemas', () => {
  for (const [kind, { checkRequest, checkReply }] of Object.entries({ 'plain JSON Schema': plain, TypeBox: typed })) {
    test(`checks requests and replies with their envelope, by ${kind}`, () => {
      assert.equal(checkRequest({ ...envelope, text: 'x' }), true);
      assert.equal(checkRequest({ ...envelope, tags: [] }), false);
      assert.match(violation('notes/add/req', checkRequest.errors).message, /notes\/add\/req: .*text/);
      assert.equal(checkRequest({ ...envelope, text: 'x', tags: [1] }), false);
      assert.equal(violation('notes/add/req', checkRequest.errors).detail.path, '/tags/0');
      assert.equal(checkReply?.({ ...envelope, req_id: '1', cursor: 3, note_id: 'n' }), true);
      assert.equal(checkReply?.({ ...envelope, note_id: 7 }), false);
    });
  }

  test('refuses other members where its schema does', () => {
    assert.equal(typed.checkRequest({ ...envelope, text: 'x', more: 1 }), false);
    assert.equal(plain.checkReply?.({ ...envelope, note_id: 'n', more: 1 }), false);
    assert.equal(plain.checkRequest({ ...envelope, text: 'x', more: 1 }), true);
  });

  test('has events with fields of their own, in a closed schema too', () => {
    const events = {
      type: 'object',
      properties: { step: { type: 'integer' } },
      required: ['step'],
      additionalProperties: false,
    };
    const { checkEvent } = method({ ...names, params: { type: 'object' }, result: { type: 'object' }, events });
    const event = { ...envelope, req_id: '1', kind: 'step', data: {}, seq: 0 };
    assert.equal(checkEvent?.({ ...event, step: 1 }), true);
    assert.equal(checkEvent?.(event), false);
    assert.equal(checkEvent?.({ ...event, step: 1, more: 1 }), false);
  });

  test('has the types of its schemas', () => {
    const streams: (request: { readonly text: string; readonly tags?: readonly string[] }) => boolean =
      plain.streaming!;
    assert.equal(streams({ text: '' }), true);
    assert.equal(typed.limitMs!({ text: 'x', tags: ['a'] }), 1);
    // @ts-expect-error: `text` is needed
    assert.equal(plain.streaming!({ tags: [] }), false);
  });

  test('whose schema is broken refuses every message and says why', () => {
    const broken = method({ ...names, params: { type: 'strng' }, result: { type: 'object' } });
    assert.equal(broken.checkRequest(envelope), false);
    assert.match(violation('notes/add/req', broken.checkRequest.errors).message, /its schema is broken \(type must be/);
  });
});
