/** The conversations that `rpc/` answers alone: framing, handshake, and how the server ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  mismatch,
  play,
  type Vector,
  type VectorConnection,
  vectorsOf,
} from '../../../src/conformance/session-rpc/player.ts';
import { createRpcServer } from '../../../src/control/rpc/rpc-server.ts';
import { listenTcp, parseTcpAddress } from '../../../src/transport/socket.ts';
import { dialSocket } from '../../support/carriers.ts';
import type { Peer } from '../../support/peer.ts';
import { fakeControl, stubsFor } from './fake-control.ts';
import { startControl } from './stdio-peer.ts';

/** Starts a fresh server that answers every method, in this process and over a real socket. */
async function fresh(): Promise<VectorConnection> {
  const control = fakeControl();
  const handlers = [...control.handlers, ...stubsFor(control.handlers, createRpcServer(control).methods)];
  const server = createRpcServer({ ...control, handlers });
  const listener = await listenTcp({ port: 0 }, (link) => server.accept(link));
  const peer = await dialSocket(parseTcpAddress(listener.address));
  const connection = over(peer);
  return {
    ...connection,
    async close() {
      await connection.close();
      await listener.close();
    },
  };
}

/** Starts the same in a separate process, which must end with the conversation. */
function process(): VectorConnection {
  const { peer, exit } = startControl('complete');
  const connection = over(peer);
  return {
    ...connection,
    async close() {
      await connection.close();
      assert.equal(await exit(), 0);
    },
  };
}

function over(peer: Peer): VectorConnection {
  return {
    write: (text) => peer.write(`${text}\n`),
    listen(onLine) {
      let told = 0;
      const tell = (): void => {
        while (told < peer.lines.length) onLine(peer.lines[told++] as string);
      };
      const bytes = peer.bytes.bind(peer);
      peer.bytes = (chunk) => {
        bytes(chunk);
        tell();
      };
      tell();
    },
    async close() {
      peer.end();
      await peer.closed();
    },
  };
}

describe('vectors', { concurrency: 2 }, () => {
  for (const [conversation, server] of [
    ['00-framing', fresh],
    ['01-handshake', fresh],
    ['12-shutdown', process],
    ['13-shutdown-no-reason', process],
  ] as const) {
    test(`${conversation} holds, word for word`, async () => {
      const outcomes = await play(vectorsOf(conversation), await server(), { level: 'verbatim' });
      assert.deepEqual(
        outcomes.filter(({ outcome }) => outcome !== 'passed'),
        [],
      );
      assert.ok(outcomes.length > 0);
    });
  }

  test('ping and debugging of 02-system hold', async () => {
    const mine = vectorsOf('02-system').filter(({ name }) => /ping|debug\.set|handshake/.test(name));
    const outcomes = await play(mine, await fresh(), { level: 'verbatim' });
    assert.deepEqual(
      outcomes.filter(({ outcome }) => outcome !== 'passed'),
      [],
    );
    assert.equal(outcomes.length, 12);
  });
});

describe('the runner', () => {
  const differs = (pattern: unknown, actual: unknown, verbatim = true) =>
    mismatch(pattern, actual, verbatim) !== undefined;

  test('members that are not named may be there, lists are compared whole, scalars with their type', () => {
    assert.equal(differs({ a: 1 }, { a: 1, b: 2 }), false);
    assert.equal(differs({ a: 1 }, { a: '1' }), true);
    assert.equal(differs({ a: 1 }, {}), true);
    assert.equal(differs([1], [1, 2]), true);
    assert.equal(differs({}, []), true);
    assert.equal(differs(null, undefined), true);
  });

  test('placeholders match what they say', () => {
    const cases: [string, unknown, unknown][] = [
      ['<any>', null, undefined],
      ['<absent>', undefined, null],
      ['<nonempty-string>', 'x', ''],
      ['<integer>', 1, 1.5],
      ['<boolean>', false, 0],
      ['<array>', [], {}],
      ['<object>', {}, []],
      ['<iso8601>', '2026-01-01T00:00:00.000Z', '2026-01-01'],
      ['<uuid>', '0f8fad5b-d9cb-469f-a165-70867728950e', '0F8FAD5B-D9CB-469F-A165-70867728950E'],
      ['<prefix:parse error: >', 'parse error: x', 'error'],
    ];
    for (const [pattern, fits, not] of cases) {
      assert.equal(differs({ a: pattern }, { a: fits }), false, pattern);
      assert.equal(differs({ a: pattern }, { a: not }), true, pattern);
    }
  });

  test('forms that stand for a list', () => {
    const list = [{ n: 1 }, { n: 2 }];
    const fits = [
      { $length: 2 },
      { $each: { n: '<integer>' } },
      { $contains: [{ n: 2 }] },
      { $containsBy: ['n', [2, 1]] },
      { $endsWith: [{ n: 2 }] },
    ];
    for (const pattern of fits) assert.equal(differs(pattern, list), false);
    const not = [
      { $length: 3 },
      { $each: { n: 1 } },
      { $contains: [{ n: 3 }] },
      { $containsBy: ['n', [3]] },
      { $endsWith: [{ n: 1 }] },
      { $endsWith: [1, 2, 3] },
    ];
    for (const pattern of not) assert.equal(differs(pattern, list), true);
    assert.equal(differs({ $sorted: true }, ['a', 'b']), false);
    assert.equal(differs({ $sorted: true }, ['b', 'a']), true);
    assert.equal(differs({ $length: 0 }, 'x'), true);
  });

  test('wording counts only word for word: messages of errors, texts of system lines', () => {
    const error = { error: { code: 1, message: 'a' } };
    assert.deepEqual(
      [differs(error, { error: { code: 1, message: 'b' } }, false), differs(error, { error: { code: 1 } })],
      [false, true],
    );
    const line = { kind: 'system', text: 'a' };
    assert.deepEqual(
      [differs(line, { kind: 'system', text: 'b' }, false), differs(line, { kind: 'system' })],
      [false, true],
    );
    assert.equal(differs({ kind: 'user', text: 'a' }, { kind: 'user', text: 'b' }, false), true);
    assert.equal(differs({ params: { message: 'a' } }, { params: { message: 'b' } }, false), true);
  });

  /** Returns the name in a vector of a value that another one captured. */
  const captured = (name: string): string => `$\{${name}}`;

  /** Makes a server that answers as a table says. */
  function scripted(answers: (message: { id: unknown; text?: string }) => object[]): VectorConnection {
    let hear: (line: string) => void = () => {};
    return {
      write: (text) => {
        for (const answer of answers(JSON.parse(text))) hear(JSON.stringify(answer));
      },
      listen: (onLine) => {
        hear = onLine;
      },
      close: async () => {},
    };
  }

  test('finds what is wrong, skips what needs a fixture and what depends on it, and continues', async () => {
    const vectors: Vector[] = [
      { name: 'right', send: { id: 1 }, expect: { id: 1, result: 'r1' }, capture: { R: 'result' } },
      { name: 'wrong', send: { id: 2 }, expect: { id: 2, result: 'other' } },
      {
        name: 'late',
        send: { id: 3, text: captured('R') },
        expect: { id: 3 },
        events: [{ method: 'event', of: captured('R') }],
      },
      { name: 'needs', send: { id: 4 }, expect: { id: 4 }, requires: 'scripted-model', capture: { M: 'result' } },
      { name: 'depends', send: { id: 5, text: captured('M') }, expect: { id: 5 } },
      { name: 'forbidden', send: { id: 6 }, expect: { id: 6 }, forbid: [{ method: 'event' }] },
      { name: 'not silent', send: { id: 7 }, expect: null },
      { name: 'never', send: { id: 'never' }, expect: { id: 'never' } },
    ];
    const connection = scripted(({ id, text }) => {
      if (id === 'never') return [];
      const answer = { id, result: `r${id}` };
      return id === 3 ? [answer, { method: 'event', of: text }] : id === 6 ? [{ method: 'event' }, answer] : [answer];
    });
    const outcomes = await play(vectors, connection, { level: 'wire', patienceMs: 20 });
    assert.deepEqual(
      outcomes.map(({ name, outcome }) => `${name}: ${outcome}`),
      [
        'right: passed',
        'wrong: failed',
        'late: passed',
        'needs: skipped',
        'depends: skipped',
        'forbidden: failed',
        'not silent: failed',
        'never: failed',
      ],
    );
  });

  test('gives a fixture the rounds of the vector before it is sent', async () => {
    const order: unknown[] = [];
    const vectors: Vector[] = [
      { name: 'turn', send: { id: 1 }, expect: { id: 1 }, requires: 'scripted-model', model: [{ text: 'hi' }] },
    ];
    const connection = scripted(({ id }) => {
      order.push('sent');
      return [{ id }];
    });
    await play(vectors, connection, {
      level: 'wire',
      fixtures: { 'scripted-model': (model) => order.push(model) },
    });
    assert.deepEqual(order, [[{ text: 'hi' }], 'sent']);
  });
});
