/** Cases of single bindings of A2E: a child process, and HTTP with server-sent events. */
import { trimmedEnd } from '../../base/trim-end.ts';
import { bodyText } from '../bounded.ts';
import { createSession } from '../carriers.ts';
import { expect } from '../case.ts';
import { type A2eContext, casesOf } from './context.ts';

const STDIO = 'Bindings: Subprocess';
const HTTP = 'Bindings: HTTP + SSE';

/** Bytes that a child may write to its stderr before a parent that never reads it makes it wait. */
const PIPE_BYTES = 64 * 1024;

/** Characters of a stream that are searched for a reply. */
const MAX_EARLY = 64 * 1024;

/** Asks the target; the body is read, and the wait is bounded. */
async function asked(
  context: A2eContext,
  path: string,
  init: RequestInit = {},
): Promise<{ response: Response; text: string }> {
  const signal = AbortSignal.timeout(context.target.patienceMs * 2);
  const url = `${trimmedEnd(context.target.address, '/')}${path}`;
  context.transcript.add(
    'sent',
    `${init.method ?? 'GET'} ${path} ${JSON.stringify(init.headers ?? {})} ${init.body ?? ''}`,
  );
  const response = await fetch(url, { signal, ...init });
  const text = await bodyText(response);
  context.transcript.add('received', `${response.status} ${text}`);
  return { response, text };
}

/** Expects a status, and a JSON body with `detail` for people. */
async function refused(context: A2eContext, status: number, path: string, init: RequestInit): Promise<void> {
  context.only('http');
  const { response, text } = await asked(context, path, init);
  expect(response.status === status, `status ${status}`, `${response.status} ${text}`);
  const detail = (() => {
    try {
      return (JSON.parse(text) as { detail?: unknown }).detail;
    } catch {
      return undefined;
    }
  })();
  expect(detail !== undefined, 'a JSON body with detail', text);
}

/** Opens the stream of a fresh session and passes on its response; ends it afterwards. */
async function streamed(
  context: A2eContext,
  check: (response: Response, id: string, signal: AbortSignal) => Promise<void>,
  before: (id: string) => Promise<void> = async () => {},
): Promise<void> {
  context.only('http');
  const stop = new AbortController();
  const signal = AbortSignal.any([stop.signal, AbortSignal.timeout(context.target.patienceMs * 2)]);
  const base = trimmedEnd(context.target.address, '/');
  try {
    const id = await createSession(base, signal);
    await before(id);
    const response = await fetch(`${base}/stream`, { headers: { 'X-Session-Id': id }, signal });
    expect(response.status === 200, 'status 200', response.status);
    await check(response, id, signal);
  } finally {
    stop.abort();
  }
}

export const bindingCases = casesOf([
  [
    'A2E-ST-001',
    'MUST',
    STDIO,
    'nothing but messages is written to stdout',
    async (context) => {
      context.only('stdio');
      const connection = await context.session();
      await connection.alive();
      connection.peer.end();
      await connection.peer.ended();
      expect(connection.peer.strange.length === 0, 'messages only', connection.peer.strange);
    },
  ],
  [
    'A2E-ST-002',
    'MUST',
    STDIO,
    'the program exits with 0 when its input ends',
    async (context) => {
      context.only('stdio');
      const connection = await context.session();
      connection.peer.end();
      const ended = await connection.peer.ended(context.target.patienceMs * 2);
      expect(ended, 'the end of the program', 'it runs');
      expect(connection.peer.exitCode === 0, 'exit code 0', connection.peer.exitCode);
    },
  ],
  [
    'A2E-ST-003',
    'SHOULD',
    STDIO,
    'little is written to stderr, since some agents never read it',
    async (context) => {
      context.only('stdio');
      const connection = await context.session();
      for (let count = 0; count < 50; count += 1) connection.send('ping');
      await connection.alive();
      const { stderrBytes } = connection.peer;
      expect(stderrBytes < PIPE_BYTES, `less than ${PIPE_BYTES} bytes`, `${stderrBytes} bytes`);
    },
  ],
  [
    'A2E-ST-004',
    'MUST',
    STDIO,
    'requests that were sent before the end of the input are answered',
    async (context) => {
      context.only('stdio');
      const connection = await context.session();
      const ids = Array.from({ length: 10 }, () => connection.send('ping'));
      connection.peer.end();
      for (const id of ids) await connection.answer(id);
    },
  ],
  [
    'A2E-HT-001',
    'MUST',
    HTTP,
    'POST /session answers 200 with a session_id',
    async (context) => {
      context.only('http');
      const { response, text } = await asked(context, '/session', { method: 'POST' });
      expect(response.status === 200, 'status 200', `${response.status} ${text}`);
      const { session_id: id } = JSON.parse(text) as { session_id?: unknown };
      expect(typeof id === 'string' && id !== '', 'a session_id', text);
    },
  ],
  [
    'A2E-HT-002',
    'MUST',
    HTTP,
    'POST /send without X-Session-Id answers 400 with detail',
    (context) =>
      refused(context, 400, '/send', { method: 'POST', body: '{}', headers: { 'Content-Type': 'text/plain' } }),
  ],
  [
    'A2E-HT-003',
    'MUST',
    HTTP,
    'POST /send to an unknown session answers 404 with detail',
    (context) =>
      refused(context, 404, '/send', {
        method: 'POST',
        body: '{}',
        headers: { 'Content-Type': 'text/plain', 'X-Session-Id': 'conformance-unknown' },
      }),
  ],
  [
    'A2E-HT-004',
    'MUST',
    HTTP,
    'GET /stream without X-Session-Id answers 400 with detail',
    (context) => refused(context, 400, '/stream', {}),
  ],
  [
    'A2E-HT-005',
    'MUST',
    HTTP,
    'GET /stream of an unknown session answers 404 with detail',
    (context) => refused(context, 404, '/stream', { headers: { 'X-Session-Id': 'conformance-unknown' } }),
  ],
  [
    'A2E-HT-006',
    'MUST',
    HTTP,
    'the stream is text/event-stream',
    (context) =>
      streamed(context, async ({ headers }) => {
        const type = headers.get('content-type') ?? '';
        expect(type.startsWith('text/event-stream'), 'Content-Type text/event-stream', type);
      }),
  ],
  [
    'A2E-HT-007',
    'SHOULD',
    HTTP,
    'the stream names its charset, utf-8: some readers take Latin-1 otherwise',
    (context) =>
      streamed(context, async ({ headers }) => {
        const type = headers.get('content-type') ?? '';
        expect(/charset=utf-8/i.test(type), 'charset=utf-8', type);
      }),
  ],
  [
    'A2E-HT-008',
    'SHOULD',
    HTTP,
    'the stream is sent chunked and is not cached',
    (context) =>
      streamed(context, async ({ headers }) => {
        expect(headers.get('transfer-encoding') === 'chunked', 'Transfer-Encoding chunked', [...headers]);
        expect(/no-cache|no-store/.test(headers.get('cache-control') ?? ''), 'Cache-Control no-cache', [...headers]);
      }),
  ],
  [
    'A2E-HT-009',
    'MUST',
    HTTP,
    'GET /health answers 200 {"status":"ok"}',
    async (context) => {
      context.only('http');
      const { response, text } = await asked(context, '/health');
      expect(response.status === 200, 'status 200', `${response.status} ${text}`);
      expect((JSON.parse(text) as { status?: unknown }).status === 'ok', '{"status":"ok"}', text);
    },
  ],
  [
    'A2E-HT-010',
    'MUST',
    HTTP,
    'POST /send acknowledges a message with 200',
    async (context) => {
      context.only('http');
      const connection = await context.session();
      await connection.alive();
      const { statuses } = connection.peer;
      expect(
        statuses.every((status) => status === 200),
        'status 200 for every body',
        statuses,
      );
    },
  ],
  [
    'A2E-HT-011',
    'SHOULD',
    HTTP,
    'a body that is no message is acknowledged with 200, and its error comes over the stream',
    async (context) => {
      context.only('http');
      const connection = await context.session();
      const error = await connection.complaint('conformance');
      const { statuses } = connection.peer;
      expect(
        statuses.every((status) => status === 200),
        'status 200 for every body',
        statuses,
      );
      expect(error !== undefined, 'error over the stream', 'nothing');
    },
  ],
  [
    'A2E-HT-012',
    'MUST',
    HTTP,
    'what is produced before a stream is attached waits in the session',
    async (context) => {
      const message = {
        type: 'handshake/req',
        id: 'conformance-early',
        a2e: '1.0',
        version: '1.0',
        ts: Date.now() / 1000,
      };
      const body = JSON.stringify({ ...message, ...context.asked([]) });
      await streamed(
        context,
        async (response) => {
          const decoder = new TextDecoder();
          let text = '';
          for await (const chunk of response.body as ReadableStream<Uint8Array>) {
            text = text.slice(-MAX_EARLY) + decoder.decode(chunk, { stream: true });
            if (text.includes('conformance-early')) return;
          }
          expect(false, 'the answer to the handshake', text);
        },
        async (id) => {
          const headers = { 'X-Session-Id': id, 'Content-Type': 'text/plain' };
          const { response, text } = await asked(context, '/send', { method: 'POST', headers, body });
          expect(response.status === 200, 'status 200', `${response.status} ${text}`);
        },
      );
    },
  ],
]);
