/**
 * The outgoing log of an HTTP session against the simplest correct model: a list and a position.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EventLog } from '../../../src/transport/http/http-event-log.ts';
import fc from '../../support/properties.ts';

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ append: fc.string({ maxLength: 20 }).map((text) => text.replace(/[^a-z]/g, 'x')) }),
  },
  { weight: 3, arbitrary: fc.record({ write: fc.integer({ min: 1, max: 200 }) }) },
  { weight: 1, arbitrary: fc.record({ resume: fc.double({ min: 0, max: 1, noNaN: true }) }) },
);

test('in any order of writes, deliveries and resumes, a reader gets each message once and in order, or the gap', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 300 }), fc.integer({ min: 0, max: 300 }), (steps, replayBytes) => {
      const log = new EventLog(replayBytes);
      const texts: string[] = [];
      let position = 0;
      for (const { append, write, resume } of steps as { append?: string; write?: number; resume?: number }[]) {
        if (append !== undefined) {
          texts.push(append);
          log.append(append);
        } else if (write !== undefined) {
          const frames = log.next(write);
          assert.equal(frames === undefined, position === texts.length);
          if (frames === undefined) continue;
          const expected = texts
            .slice(position, frames.lastId)
            .map((text, index) => `id: ${position + index + 1}\ndata: ${text}\n\n`);
          assert.equal(frames.text, expected.join(''));
          assert.ok(
            frames.text.length - expected.at(-1)!.length < write,
            'no more than asked for, but for the last one',
          );
          log.delivered(frames.lastId);
          position = frames.lastId;
        } else if (resume !== undefined) {
          const id = Math.floor(resume * texts.length);
          const lost = log.resumeAfter(id);
          if (lost !== undefined) {
            assert.equal(lost.from, id + 1);
            assert.ok(lost.to <= Math.max(position, id));
          }
          position = lost?.to ?? id;
        }
        assert.equal(log.lastId, texts.length);
        assert.equal(log.waiting, texts.length - position);
        assert.equal(
          log.waitingBytes,
          texts.slice(position).reduce((sum, text) => sum + text.length, 0),
        );
      }
    }),
    { numRuns: 300 },
  );
});

test('what fits the replay bound is always there for a returning reader, what does not is lost from the front', () => {
  const log = new EventLog(100);
  for (let n = 0; n < 5_000; n++) {
    log.append('0123456789');
    log.delivered(n + 1);
  }
  assert.equal(log.resumeAfter(4_990), undefined);
  assert.equal(log.waitingBytes, 100);
  assert.deepEqual(log.resumeAfter(4_000), { from: 4_001, to: 4_990 });
  assert.equal(log.waiting, 10);
});
