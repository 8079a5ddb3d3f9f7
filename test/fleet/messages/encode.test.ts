/**
 * The writing side of the fleet protocol: the members that are filled in, and results that would be longer than a reader takes.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { decode, decodeValue } from '../../../src/fleet/messages/decode.ts';
import type { Reported } from '../../../src/fleet/messages/decoded.ts';
import { digestOf } from '../../../src/fleet/messages/digest.ts';
import {
  cutText,
  dispatchMessage,
  fleetMessage,
  resultFrom,
  resultMessage,
} from '../../../src/fleet/messages/encode.ts';
import type { TaskResult } from '../../../src/protocol/fleet.ts';
import fc from '../../support/properties.ts';
import { vectorsOf } from '../vectors.ts';

/** Returns the result as a reader gets it, from its text. */
function received(result: TaskResult): Reported {
  const decoded = decode(JSON.stringify(result));
  assert.deepEqual(decoded.errors, []);
  assert.ok(decoded.valid);
  return decoded.message as Reported;
}

test('a message has its type and version, and an envelope only where one is given', () => {
  assert.deepEqual(fleetMessage('TASK_POLL', { task_id: 't' }), {
    type: 'TASK_POLL',
    protocol_version: '2.0',
    task_id: 't',
  });
  const enveloped = dispatchMessage({ task: { task_id: 't' }, brief: 'x' }, { attempt: 2 });
  assert.deepEqual(enveloped.envelope, { attempt: 2 });
});

test('the digest of a dispatch that is sent is that of the dispatch that arrives', () => {
  const sent = dispatchMessage(
    { task: { task_id: 't', token_budget: 10 }, requirements: undefined, brief: 'Größe: 7 µm' },
    { attempt: 3, sent_at: '2026-06-01T12:00:00Z' },
  );
  const decoded = decode(JSON.stringify(sent));
  assert.equal(decoded.valid && decoded.message.type === 'TASK_DISPATCH' && decoded.message.digest, digestOf(sent));
});

describe('a result', () => {
  const mebibyte = 1024 * 1024;

  test('of ordinary size is written as it is', () => {
    const body = {
      task_id: 't',
      status: 'done',
      tokens_spent: 1,
      artifacts: { a: 1 },
      answer: [1],
      prose: 'x',
    } as const;
    assert.deepEqual(resultMessage(body), { type: 'TASK_RESULT', protocol_version: '2.0', ...body });
  });

  test('has the end of its prose, at most 262,144 bytes between characters, behind a line about the cut', () => {
    for (const start of ['', 'x', 'xy']) {
      const long = `${start}${'é'.repeat(200_000)} the answer is 42`;
      const { prose = '' } = resultMessage({ task_id: 't', status: 'done', prose: long });
      assert.ok(Buffer.byteLength(prose as string) <= 262_144 && Buffer.byteLength(prose as string) > 262_140);
      const [said, rest = ''] = (prose as string).split('\n');
      assert.match(said as string, /^\[The beginning of this reply was cut: .*\]$/);
      assert.ok(long.endsWith(rest) && rest.startsWith('é'));
    }
    const lines = Array.from({ length: 30_000 }, (_, at) => `line ${at}`).join('\n');
    const { prose = '' } = resultMessage({ task_id: 't', status: 'done', prose: lines });
    assert.match(prose as string, /\]\nline \d+\nline/);
    assert.ok((prose as string).endsWith('line 29999'));
  });

  test('that is too long loses its prose first, and says so', () => {
    const answer = 'x'.repeat(mebibyte - 100_000);
    const read = received(resultMessage({ task_id: 't', status: 'done', answer, prose: 'y'.repeat(200_000) }));
    assert.equal(read.status, 'done');
    assert.equal(read.answer, answer);
    assert.equal(read.prose, null);
    assert.deepEqual(read.next_steps, ['The result was longer than a message may be; left out: prose.']);
  });

  test('that loses the answer it was asked for is not done', () => {
    const read = received(
      resultMessage({
        task_id: 't',
        status: 'done',
        answer: 'x'.repeat(mebibyte),
        next_steps: ['Open a PR'],
        summary: 'All done.',
      }),
    );
    assert.equal(read.status, 'partial');
    assert.equal(read.answer, undefined);
    assert.equal(read.summary, 'All done.');
    assert.deepEqual(read.next_steps, ['Open a PR', 'The result was longer than a message may be; left out: answer.']);
  });

  test('is taken by its reader, however long any of its parts is', () => {
    const long = 'é'.repeat(mebibyte);
    const bodies: readonly Omit<TaskResult, 'type' | 'protocol_version'>[] = [
      { task_id: 't', status: 'done', answer: long, prose: long, summary: long, artifacts: { report: long } },
      { task_id: 't', status: 'error', error_summary: long, summary: long },
      { task_id: 't', status: 'blocked', blocked_reason: long, tokens_spent: 0 },
      { task_id: 't', status: 'partial', next_steps: Array.from({ length: 5000 }, () => 'x'.repeat(2000)) },
      {
        task_id: 't',
        status: 'blocked',
        tokens_spent: 0,
        blocked_reason: 'missing_mcp',
        blocked: {
          code: 'missing_mcp',
          retryable: false,
          missing: Array.from({ length: 9000 }, () => 'x'.repeat(900)),
        },
      },
    ];
    for (const body of bodies) {
      const read = received(resultMessage(body));
      assert.ok(read.status === body.status || (body.status === 'done' && read.status === 'partial'));
    }
  });

  test('that was received is written again as it means', () => {
    for (const { file, expect, vector } of vectorsOf('message')) {
      if (expect.type !== 'TASK_RESULT' || expect.valid !== true) continue;
      const read = received(vector as unknown as TaskResult);
      const again = resultFrom(read);
      assert.deepEqual(received(again), read, file);
      const decoded = decodeValue(again);
      // Odd members have been put right; an unknown figure is still unknown.
      assert.deepEqual(
        decoded.warnings.filter(({ code }) => !/^W_(TOKENS_UNKNOWN|BLOCKED_SPENT)$/.test(code)),
        [],
        file,
      );
    }
  });
});

test('a text is cut between characters', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.nat({ max: 40 }), (text, most) => {
      const cut = cutText(text, most);
      assert.ok(text.startsWith(cut) && Buffer.byteLength(cut) <= most && cut.isWellFormed());
      const next = String.fromCodePoint(text.codePointAt(cut.length) ?? 0x41);
      assert.ok(cut === text || Buffer.byteLength(cut + next) > most, 'and no earlier than it must');
    }),
  );
});
