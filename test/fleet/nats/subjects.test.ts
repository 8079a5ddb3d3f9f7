/** Ids inside subjects, keys and consumer names. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idOf, readConsumer, readEventSubject, subjects, tokenOf } from '../../../src/fleet/bus/nats/subjects.ts';
import fc from '../../support/properties.ts';

/** Ids as the protocol allows them, and some it does not; surrogates are paired, as in every text that was UTF-8. */
const id = fc.oneof(
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 256 }),
  fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 200 }),
  fc.constantFrom('a.b', 'a*', '>', 'a b', 'tenant:42', 'h=', `h@${'a'.repeat(62)}`, '=2E', 'ü'.repeat(200)),
);

test('a token is one level of any subject, and a key the client takes', () => {
  fc.assert(
    fc.property(id, (one) => {
      const token = tokenOf(one);
      assert.match(token, /^[A-Za-z0-9_=-]{1,120}$/);
      assert.equal(subjects.events('w', token).split('.').length, 6);
    }),
  );
});

test('two ids never share a token', () => {
  fc.assert(fc.property(id, id, (one, other) => (one === other) === (tokenOf(one) === tokenOf(other))));
});

test('an id that spells the hash of another does not get its token', () => {
  // Its escaped form begins with `h=` and two digits, like a hash.
  for (let tries = 0; tries < 2000; tries++) {
    const long = `${'x'.repeat(200)}${tries}`;
    const hash = tokenOf(long);
    const byte = Number.parseInt(hash.slice(2, 4), 16);
    // A byte that is escaped, and one character in UTF-8.
    if (byte < 0x21 || byte > 0x7e || /[a-f]/.test(hash.slice(2, 4))) continue;
    if (/[A-Za-z0-9_-]/.test(String.fromCharCode(byte))) continue;
    const impostor = `h${String.fromCharCode(byte)}${hash.slice(4)}`;
    assert.notEqual(tokenOf(impostor), hash);
    assert.match(tokenOf(impostor), /^h=[0-9a-f]{64}$/);
    return;
  }
  assert.fail('no hash of the right shape was found');
});

test('a token gives its id back, unless it is a hash', () => {
  fc.assert(
    fc.property(id, (one) => {
      const token = tokenOf(one);
      const back = idOf(token);
      assert.ok(back === one || (back === undefined && token.startsWith('h=')));
    }),
  );
  for (const wrong of ['=2', '=zz', '=2f', 'a.b', '', '=41']) assert.equal(idOf(wrong), undefined, wrong);
});

test('ids of many bytes become a hash, those of 120 do not', () => {
  assert.equal(tokenOf('a'.repeat(120)), 'a'.repeat(120));
  assert.match(tokenOf('a'.repeat(121)), /^h=[0-9a-f]{64}$/);
  assert.equal(tokenOf(':'.repeat(40)), '=3A'.repeat(40));
  assert.match(tokenOf(':'.repeat(41)), /^h=/);
});

test('the subjects of the events stream are distinguished, and others are none', () => {
  assert.deepEqual(readEventSubject(subjects.events('w=2E1', 't')), { kind: 'events', agent: 'w=2E1', task: 't' });
  assert.deepEqual(readEventSubject(subjects.announce('w')), { kind: 'announce', agent: 'w' });
  assert.deepEqual(readEventSubject(subjects.dead('w')), { kind: 'dead', agent: 'w' });
  assert.deepEqual(readEventSubject('$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.A2A_DISPATCH.agent-w'), {
    kind: 'max_deliveries',
    consumer: 'agent-w',
  });
  for (const other of [
    'a2a.agent.w.task.t.control',
    'a2a.agent.w.task.t.events.x',
    'a2a.agent.w',
    'b2b.agent.w.dead',
  ]) {
    assert.equal(readEventSubject(other), undefined);
  }
  assert.deepEqual(readConsumer('agent-w-1'), { agent: 'w-1' });
  assert.deepEqual(readConsumer('pool-p'), { pool: 'p' });
  assert.deepEqual(readConsumer('control-w'), {});
});
