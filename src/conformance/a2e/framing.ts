/**
 * Cases of lines, of bytes that are no message, and of messages without a known type.
 */
import { expect, Skip } from '../case.ts';
import type { Fields } from '../line-peer.ts';
import type { A2eConnection } from './connection.ts';
import { type A2eContext, casesOf } from './context.ts';

const WIRE = 'Message protocol: Wire Format';
const ERRORS = 'Message protocol: Error Handling';
const BASE = 'Message protocol: A2EMessage Base';
const TYPES = 'Message protocol: Type Registry';

/** Beyond ASCII, beyond the basic plane, and every character that some reader breaks lines at. */
const TEXT = 'été 東京 😀 \u2028\u2029\u0085\u007f \\ " \t';

/** Time after which no more messages are expected, if only a silence can show it. Milliseconds. */
const QUIET_MS = 300;

/** Skips the case where bytes cannot be cut anywhere. */
async function byteStream(context: A2eContext): Promise<A2eConnection> {
  const connection = await context.session();
  if (!connection.peer.isByteStream) throw new Skip('this binding has frames or bodies in place of a byte stream');
  return connection;
}

/** Sends text that is no message, and expects an error for it. */
async function complains(context: A2eContext, line: string, codes: readonly string[]): Promise<Fields> {
  const connection = await context.session();
  const error = await connection.complaint(line);
  expect(error !== undefined, 'error', 'nothing, but the connection is usable');
  expect(codes.includes(String(error.code)), `error with code ${codes.join(' or ')}`, error);
  return error;
}

/** Sends a ping whose id is this text, and expects it unchanged in the pong. */
async function echoed(connection: A2eConnection, line: (id: string) => string): Promise<void> {
  const id = `${connection.id()} ${TEXT}`;
  connection.peer.line(line(id));
  const pong = await connection.answer(id, 'a pong with the id unharmed in req_id');
  expect(pong.type === 'pong', 'pong', pong);
}

export const framingCases = casesOf([
  [
    'A2E-FR-001',
    'MUST',
    WIRE,
    'blank lines are ignored',
    async (context) => {
      const connection = await context.session();
      if (connection.peer.binding === 'http') throw new Skip('a blank body is not a line');
      const from = connection.peer.messages.length;
      connection.peer.write('\n   \n\t\n');
      await connection.alive();
      const errors = connection.peer.messages.slice(from).filter(({ type }) => type === 'error');
      expect(errors.length === 0, 'no error', errors);
    },
  ],
  [
    'A2E-FR-002',
    'MUST',
    WIRE,
    'a line may end with CRLF',
    async (context) => {
      const connection = await context.session();
      const ping = connection.message('ping');
      connection.peer.write(`${JSON.stringify(ping)}\r\n`);
      await connection.answer(ping.id, 'a pong');
    },
  ],
  [
    'A2E-FR-003',
    'SHOULD',
    WIRE,
    'blanks around a line are ignored',
    async (context) => {
      const connection = await context.session();
      const ping = connection.message('ping');
      connection.peer.write(`  \t${JSON.stringify(ping)}  \n`);
      await connection.answer(ping.id, 'a pong');
    },
  ],
  [
    'A2E-FR-004',
    'MUST',
    WIRE,
    'several messages in one write are each answered once',
    async (context) => {
      const connection = await byteStream(context);
      const pings = Array.from({ length: 20 }, () => connection.message('ping'));
      connection.peer.write(pings.map((ping) => `${JSON.stringify(ping)}\n`).join(''));
      for (const { id } of pings) await connection.answer(id, 'a pong for every ping of the write');
      await connection.alive();
      for (const { id } of pings) expect(connection.answers(id).length === 1, 'one answer', connection.answers(id));
    },
  ],
  [
    'A2E-FR-005',
    'MUST',
    WIRE,
    'a message may be cut anywhere, also within a character',
    async (context) => {
      const connection = await byteStream(context);
      const id = `${connection.id()} ${TEXT}`;
      const bytes = Buffer.from(`${JSON.stringify(connection.message('ping', { id }))}\n`);
      for (let at = 0; at < bytes.length; at += 7) {
        connection.peer.write(bytes.subarray(at, at + 7));
        // Each piece is a separate write.
        await new Promise((resolve) => setImmediate(resolve));
      }
      await connection.answer(id, 'a pong');
    },
  ],
  [
    'A2E-FR-006',
    'MUST',
    ERRORS,
    'a line that is not JSON gets error parse_error, and the connection stays usable',
    async (context) => {
      await complains(context, '{"type":"ping",', ['parse_error']);
    },
  ],
  [
    'A2E-FR-007',
    'SHOULD',
    ERRORS,
    'the error of a line that is not JSON has an empty req_id',
    async (context) => {
      const error = await complains(context, 'conformance', ['parse_error']);
      expect((error.req_id ?? '') === '', 'req_id ""', error);
    },
  ],
  [
    'A2E-FR-008',
    'MUST',
    WIRE,
    'bytes that are not UTF-8 leave the connection usable',
    async (context) => {
      const connection = await context.session();
      connection.peer.write(Buffer.from([0x7b, 0x22, 0xff, 0xfe, 0x80, 0x22, 0x7d, 0x0a]));
      await connection.alive();
    },
  ],
  ...['[1,2]', '"ping"', '17', 'null', 'true'].map(
    (line, at) =>
      [
        `A2E-FR-${String(9 + at).padStart(3, '0')}`,
        'SHOULD',
        ERRORS,
        `JSON that is not an object (${line}) gets error parse_error or invalid_message`,
        async (context: A2eContext) => {
          await complains(context, line, ['parse_error', 'invalid_message']);
        },
      ] as const,
  ),
  [
    'A2E-FR-014',
    'MUST',
    ERRORS,
    'an object without a type gets error, with its id in req_id',
    async (context) => {
      const connection = await context.session();
      await connection.refused('', { type: undefined }, 'invalid_message', 'parse_error', 'schema_violation');
    },
  ],
  [
    'A2E-FR-015',
    'SHOULD',
    ERRORS,
    'a type that is not a text gets error',
    async (context) => {
      const connection = await context.session();
      await connection.refused('', { type: 5 }, 'invalid_message', 'parse_error', 'schema_violation');
    },
  ],
  [
    'A2E-FR-016',
    'MUST',
    TYPES,
    'an unknown type leaves the connection usable',
    async (context) => {
      const connection = await context.session();
      connection.send('conformance/unknown/req');
      await connection.alive();
    },
  ],
  [
    'A2E-FR-017',
    'SHOULD',
    ERRORS,
    'an unknown type gets error invalid_message, with its id in req_id',
    async (context) => {
      const connection = await context.session();
      await connection.refused('conformance/unknown/req', {}, 'invalid_message', 'parse_error');
    },
  ],
  [
    'A2E-FR-018',
    'MUST',
    'Message protocol: A2EMessage Base',
    'unknown fields are ignored',
    async (context) => {
      const connection = await context.session();
      const extra = { conformance: { deep: [{}] }, constructor: 1, toString: 'x' };
      const pong = await connection.request('ping', extra);
      expect(pong.type === 'pong', 'pong', pong);
    },
  ],
  [
    'A2E-FR-019',
    'MUST',
    WIRE,
    'text beyond ASCII, sent as escapes, comes back unharmed',
    async (context) => {
      const connection = await context.session();
      await echoed(connection, (id) =>
        JSON.stringify(connection.message('ping', { id })).replaceAll(
          /[\u007f-\uffff]/g,
          (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
        ),
      );
    },
  ],
  [
    'A2E-FR-020',
    'MUST',
    WIRE,
    'text beyond ASCII, sent as UTF-8, comes back unharmed',
    async (context) => {
      const connection = await context.session();
      await echoed(connection, (id) => JSON.stringify(connection.message('ping', { id })));
    },
  ],
  [
    'A2E-FR-021',
    'SHOULD',
    WIRE,
    'what the target writes is ASCII: some readers break lines at U+0085, U+2028 and U+2029',
    async (context) => {
      const connection = await context.session();
      await echoed(connection, (id) => JSON.stringify(connection.message('ping', { id })));
      const raw = connection.peer.lines.find((line) => /[^\x20-\x7f\r\t]/.test(line));
      expect(raw === undefined, 'ASCII only', raw);
    },
  ],
  [
    'A2E-FR-022',
    'SHOULD',
    WIRE,
    'what the target writes is compact: no blanks between the tokens',
    async (context) => {
      const connection = await context.session();
      await connection.alive();
      const wide = connection.peer.lines.find((line) =>
        /^\s*\{\s|"\s+:|":\s|,\s+"/.test(line.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""')),
      );
      expect(wide === undefined, 'no blanks between the tokens', wide);
    },
  ],
  [
    'A2E-FR-023',
    'MUST',
    WIRE,
    'a message of 256 KiB after the handshake is answered',
    async (context) => {
      const connection = await context.session();
      const pong = await connection.request('ping', { padding: 'a'.repeat(256 * 1024) });
      expect(pong.type === 'pong', 'pong', pong);
    },
  ],
  [
    'A2E-FR-024',
    'MUST',
    WIRE,
    'a line of 8 MiB is answered or refused, and the target serves the next connection',
    async (context) => {
      const connection = await context.session();
      const id = connection.send('ping', { padding: 'a'.repeat(8 * 1024 * 1024) });
      const { peer } = connection;
      const answered = (message: Fields): boolean => message.req_id === id || message.type === 'error';
      const answer = await peer.sought(answered, 0, peer.patienceMs * 4);
      expect(answer !== undefined || peer.over, 'an answer, an error or the end of the connection', 'nothing');
      await (await context.session()).alive();
    },
  ],
  [
    'A2E-FR-025',
    'MUST',
    WIRE,
    'nesting 20,000 levels deep is answered or refused, and the target serves the next connection',
    async (context) => {
      const connection = await context.session();
      const id = connection.id();
      const depth = 20_000;
      connection.peer.line(
        `{"type":"ping","id":"${id}","version":"1.0","deep":${'['.repeat(depth)}${']'.repeat(depth)}}`,
      );
      const { peer } = connection;
      const answered = (message: Fields): boolean => message.req_id === id || message.type === 'error';
      const answer = await peer.sought(answered);
      expect(answer !== undefined || peer.over, 'an answer, an error or the end of the connection', 'nothing');
      await (await context.session()).alive();
    },
  ],
  [
    'A2E-FR-026',
    'SHOULD',
    TYPES,
    'answers that no request waits for are ignored',
    async (context) => {
      const connection = await context.session();
      const ids = ['pong', 'handshake/resp', 'tool/call/resp', 'error'].map((type) =>
        connection.send(type, { req_id: 'conformance', code: 'runtime_error', data: {} }),
      );
      await connection.alive();
      const answers = ids.flatMap((id) => connection.answers(id));
      expect(answers.length === 0, 'no answer', answers);
    },
  ],
  [
    'A2E-FR-027',
    'MUST',
    BASE,
    'everything that comes is a message: a JSON object with a type, one on each line',
    async (context) => {
      const connection = await context.session();
      await connection.alive();
      const { strange, messages } = connection.peer;
      expect(strange.length === 0, 'JSON objects only', strange);
      const bare = messages.find(({ type }) => typeof type !== 'string');
      expect(bare === undefined, 'a type in every message', bare);
    },
  ],
]);

export const exchangeCases = casesOf([
  [
    'A2E-EX-001',
    'MUST',
    TYPES,
    'ping is answered by pong with its id in req_id',
    async (context) => {
      const connection = await context.session();
      await connection.result('ping', {}, 'pong');
    },
  ],
  [
    'A2E-EX-002',
    'SHOULD',
    TYPES,
    'pong has uptime_seconds, and it does not fall',
    async (context) => {
      const connection = await context.session();
      const [one, other] = [await connection.alive(), await connection.alive()];
      const [first, second] = [one.uptime_seconds, other.uptime_seconds].map(Number) as [number, number];
      expect(first >= 0 && second >= first, 'uptime_seconds that does not fall', [one, other]);
    },
  ],
  [
    'A2E-EX-003',
    'MUST',
    'Message protocol: Correlation',
    '50 pings that are open at once are each answered once',
    async (context) => {
      const connection = await context.session();
      const ids = Array.from({ length: 50 }, () => connection.send('ping'));
      for (const id of ids) await connection.answer(id);
      await connection.alive();
      const repeated = ids.map((id) => connection.answers(id)).find((answers) => answers.length !== 1);
      expect(repeated === undefined, 'one answer for each', repeated);
    },
  ],
  [
    'A2E-EX-004',
    'MUST',
    BASE,
    'the ids of the messages of the target differ',
    async (context) => {
      const connection = await context.session();
      for (let count = 0; count < 5; count += 1) await connection.alive();
      const ids = connection.peer.messages.map(({ id }) => id);
      expect(new Set(ids).size === ids.length, 'a fresh id for every message', ids);
    },
  ],
  [
    'A2E-EX-005',
    'MUST',
    'Message protocol: Correlation',
    'requests of two connections with the same ids are answered on their own connection',
    async (context) => {
      const [one, other] = [await context.session(), await context.session()];
      for (const connection of [one, other]) connection.send('ping', { id: 'conformance-same' });
      for (const connection of [one, other]) await connection.answer('conformance-same');
      for (const connection of [one, other]) {
        await connection.alive();
        const answers = connection.answers('conformance-same');
        expect(answers.length === 1, 'one answer on each connection', answers);
      }
    },
  ],
  [
    'A2E-EX-006',
    'SHOULD',
    'Message protocol: Protocol Versioning',
    'a request of another major version gets error version_mismatch',
    async (context) => {
      const connection = await context.session();
      await connection.refused('ping', { a2e: '2.0', version: '2.0' }, 'version_mismatch');
    },
  ],
  [
    'A2E-EX-007',
    'MUST',
    'Message protocol: Error Handling',
    'an error has code, message, detail, retryable and capability_name of their types',
    async (context) => {
      const connection = await context.session();
      const error = (await connection.complaint('{')) as Fields;
      expect(error !== undefined, 'error', 'nothing');
      expect(typeof error.code === 'string' && error.code !== '', 'code as a non-empty text', error);
      for (const [name, type] of [
        ['message', 'string'],
        ['detail', 'object'],
        ['retryable', 'boolean'],
        ['capability_name', 'string'],
      ] as const) {
        const value = error[name];
        expect(value === undefined || (typeof value === type && value !== null), `${name} as ${type}`, error);
      }
    },
  ],
  [
    'A2E-EX-008',
    'MUST',
    'Message protocol: Message Lifecycle',
    'shutdown itself has no answer',
    async (context) => {
      const connection = await context.session();
      const id = connection.send('shutdown', { timeout: 1 });
      await connection.peer.ended(QUIET_MS);
      const answers = connection.answers(id);
      expect(answers.length === 0, 'no answer', answers);
    },
  ],
  [
    'A2E-EX-009',
    'SHOULD',
    'Message protocol: Message Lifecycle',
    'after shutdown the target closes the connection',
    async (context) => {
      const connection = await context.session();
      connection.send('shutdown', { timeout: 1 });
      const ended = await connection.peer.ended();
      expect(ended, 'the end of the connection', 'it is open');
    },
  ],
  [
    'A2E-EX-010',
    'MUST',
    'Message protocol: Message Lifecycle',
    'shutdown lets running work finish and delivers its answer',
    async (context) => {
      const { name, arguments: args } = context.tool();
      await context.granted('tools');
      const connection = await context.session(['tools']);
      const id = connection.send('tool/call/req', { tool_name: name, arguments: args, timeout: 10 });
      connection.send('shutdown', { timeout: 5 });
      await connection.answer(id, 'the answer to the call that was open');
    },
  ],
  [
    'A2E-EX-011',
    'MUST',
    'Message protocol: Message Lifecycle',
    'a connection that breaks in the middle of a message does not keep the target from serving the next one',
    async (context) => {
      const connection = await context.session();
      connection.peer.write('{"type":"ping","id":"cut');
      await connection.close();
      await (await context.session()).alive();
    },
  ],
  [
    'A2E-EX-012',
    'MAY',
    'extension handfast/cancel',
    'cancel of a request that has ended has no effect',
    async (context) => {
      const connection = await context.session([], { extensions: { 'handfast/cancel': {} } });
      const { extensions } = connection.terms ?? {};
      if (typeof extensions !== 'object' || extensions === null || !('handfast/cancel' in extensions))
        throw new Skip('the target does not know the extension handfast/cancel');
      const id = connection.send('ping');
      await connection.answer(id);
      connection.send('cancel', { req_id: id });
      await connection.alive();
      expect(connection.answers(id).length === 1, 'one answer', connection.answers(id));
    },
  ],
]);
