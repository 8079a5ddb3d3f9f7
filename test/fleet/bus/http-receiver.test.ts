/** A worker behind the upstream dialect, called by senders that know nothing but text, and by those that know more. */
import assert from 'node:assert/strict';
import { createServer } from 'node:net';
import { type TestContext, test } from 'node:test';
import { type HttpReceiver, httpReceiver, type ReceiverOptions } from '../../../src/fleet/bus/http/worker-server.ts';
import { type HttpListener, listenHttp, PORT_BANDS } from '../../../src/fleet/bus/plain/http-listener.ts';
import type { Reported } from '../../../src/fleet/messages/decoded.ts';
import { fleetMessage } from '../../../src/fleet/messages/encode.ts';
import { announceInReply } from '../../../src/fleet/phases/announce-reply.ts';
import { extractReply } from '../../../src/fleet/phases/reply.ts';
import { FLEET_EXTENSION } from '../../../src/protocol/fleet.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { ROLES } from '../../../src/session/roles.ts';
import { aDispatch } from '../bus-contract.ts';
import { blocked, type ScriptedOptions, ScriptedWorker } from '../support/scripted-worker.ts';
import { quiet } from '../support/stream-links.ts';
import { post, say } from '../support/upstream-sender.ts';

interface Stage {
  readonly worker: ScriptedWorker;
  readonly url: string;
  readonly receiver: HttpReceiver;
  readonly listener: HttpListener;
}

async function staged(
  context: TestContext,
  scripted: ScriptedOptions = {},
  options: Partial<ReceiverOptions> = {},
): Promise<Stage> {
  const worker = new ScriptedWorker({ agentId: 'codex-1', ...scripted });
  let url = '';
  const receiver = httpReceiver({ worker, repoPath: '/repo', url: () => url, log: quiet, ...options });
  const hasTokens = options.auth?.hasTokens ?? false;
  const listener = await listenHttp({ port: 0, hasTokens, handle: (...pair) => receiver.handle(...pair) });
  url = listener.address;
  context.after(async () => {
    worker.close();
    receiver.close();
    await listener.close();
  });
  return { worker, url, receiver, listener };
}

const resultIn = (text: string, taskId: string): Reported | null =>
  extractReply({ text, taskId, replySchema: 'structured', exitCode: null }).result;

const hints = (...lines: string[]): string => ['TASK DISPATCH (inline)', ...lines, '', 'Brief: do it'].join('\n');

test('a bare brief is done and answered in words, with the description of the worker beside the first reply', async (context) => {
  const { worker, url } = await staged(context, { resultOf: () => ({ prose: 'It is fixed.' }) });
  const first = await say(url, 'please fix it', { contextId: 'c-1' });
  const { profile, prose } = announceInReply(first.text);
  assert.equal(profile?.agent_id, 'codex-1');
  assert.equal(prose, 'It is fixed.');
  assert.deepEqual([first.role, first.contextId, first.data.length], ['agent', 'c-1', 0]);
  const second = await say(url, 'and now the tests', { contextId: 'c-1' });
  assert.equal(second.text, 'It is fixed.');
  const [dispatch] = [...worker.journal.values()].map((entry) => entry.dispatch);
  assert.deepEqual([dispatch?.brief, dispatch?.reply_schema], ['please fix it', 'prose']);
  assert.equal(dispatch?.envelope.context_id, 'c-1');
  await worker.until(() => worker.outbox.length === 0, 'both results to count as delivered');
});

test('hints in the text are requirements, and the reply ends with the result', async (context) => {
  const { worker, url } = await staged(context, { resultOf: () => ({ prose: 'It is fixed.' }) });
  const text = hints('task_id: t-1', 'priority: high', 'token_budget: 20k', 'required_mcp: [context-mode]');
  const said = await say(url, text, { method: 'SendMessage' });
  const result = resultIn(said.text, 't-1');
  assert.deepEqual([result?.status, result?.tokens_spent], ['done', 7]);
  const dispatch = worker.journal.get('t-1')?.dispatch;
  assert.deepEqual([dispatch?.priority, dispatch?.token_budget, dispatch?.brief], ['high', 20_000, 'do it']);
  assert.deepEqual(dispatch?.required_mcp, ['context_mode']);
});

test('a reply that is wanted as JSON is JSON and nothing else', async (context) => {
  const { url } = await staged(context);
  const said = await say(url, hints('task_id: t-1', 'reply_schema: json'));
  const parsed = JSON.parse(said.text);
  assert.deepEqual([parsed.type, parsed.task_id, parsed.status], ['TASK_RESULT', 't-1', 'done']);
  assert.deepEqual(
    said.data.map(({ type }) => type),
    ['SESSION_ANNOUNCE'],
  );
});

test('a dispatch in a data part is preferred to the text, and answered in data parts', async (context) => {
  const { worker, url } = await staged(context);
  const dispatch = aDispatch('t-1', { brief: 'the real brief' });
  const said = await say(url, 'something else', { data: [dispatch], contextId: 'c-1' });
  assert.equal(worker.journal.get('t-1')?.dispatch.brief, 'the real brief');
  assert.deepEqual(
    said.data.map(({ type }) => type),
    ['SESSION_ANNOUNCE', 'TASK_RESULT'],
  );
  assert.equal(resultIn(said.text, 't-1')?.status, 'done');
});

test('what is refused is said at once, and nothing was begun', async (context) => {
  const { worker, url } = await staged(context, {
    decide: (dispatch) => ({ kind: 'refused', result: blocked(dispatch.task_id, 'missing_mcp', false, 'trek') }),
  });
  const words = announceInReply((await say(url, 'do it', { contextId: 'c-1' })).text).prose;
  assert.equal(words, 'Not started: missing_mcp: trek');
  const result = resultIn((await say(url, hints('task_id: t-1'), { contextId: 'c-1' })).text, 't-1');
  assert.deepEqual([result?.status, result?.tokens_spent, result?.blocked?.code], ['blocked', 0, 'missing_mcp']);
  assert.deepEqual(worker.begun, []);
});

test('an empty brief and one that is too long are refused, not run', async (context) => {
  const { worker, url } = await staged(context);
  assert.equal(resultIn((await say(url, 'TASK DISPATCH\ntask_id: t-1\n\nBrief: ')).text, 't-1')?.status, 'blocked');
  const long = `${hints('task_id: t-2')} ${'x'.repeat(262_144)}`;
  assert.equal(resultIn((await say(url, long)).text, 't-2')?.status, 'blocked');
  assert.deepEqual(worker.begun, []);
});

test('a task that runs is busy: with the number of upstream for text, with ours for those who speak it', async (context) => {
  const { worker, url } = await staged(context, { byHand: true });
  const first = say(url, hints('task_id: t-1'));
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const second = await say(url, hints('task_id: t-1'));
  assert.equal(second.error?.code, -32001);
  assert.match(second.error?.message ?? '', /retry after 30 s/);
  worker.finish('t-1');
  assert.equal(resultIn((await first).text, 't-1')?.status, 'done');
  // The same text again is the same task.
  assert.equal(resultIn((await say(url, hints('task_id: t-1'))).text, 't-1')?.status, 'done');
  assert.deepEqual(worker.begun, ['t-1']);

  const other = say(url, '', { data: [aDispatch('t-2')] });
  await worker.until(() => worker.begun.length === 2, 'the other task to begin');
  const third = await say(url, '', { data: [aDispatch('t-2')] });
  assert.equal(third.error?.code, -31001);
  const [info] = (third.error?.data ?? []) as { reason: string; metadata: Record<string, string> }[];
  assert.deepEqual([info?.reason, info?.metadata.retry_after_s], ['FLEET_BUSY', '30']);
  worker.finish('t-2');
  assert.equal(resultIn((await other).text, 't-2')?.status, 'done');
});

test('a client that goes away loses nothing: the task continues, and its result is there when it asks again', async (context) => {
  const { worker, url } = await staged(context, { byHand: true });
  const impatient = new AbortController();
  const first = say(url, hints('task_id: t-1'), { signal: impatient.signal });
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  impatient.abort();
  await assert.rejects(first);
  worker.finish('t-1');
  assert.equal(resultIn((await say(url, hints('task_id: t-1'))).text, 't-1')?.status, 'done');
  assert.deepEqual(worker.begun, ['t-1']);
  await worker.until(() => worker.outbox.length === 0, 'the result to count as delivered');
});

test('a client that would wait too long gets an error, and the task continues', async (context) => {
  const { worker, url } = await staged(context, { byHand: true }, { replyTimeoutMs: 10 });
  const said = await say(url, hints('task_id: t-1'));
  assert.equal(said.error?.code, -32000);
  assert.match(said.error?.message ?? '', /^timeout: the task continues/);
  assert.deepEqual(worker.begun, ['t-1']);
});

test('poll, cancel and announce requests in data parts are answered', async (context) => {
  const { worker, url } = await staged(context, { byHand: true });
  void say(url, '', { data: [aDispatch('t-1')] }).catch(() => {});
  await worker.until(() => worker.begun.length === 1, 'the task to begin');
  const poll = await say(url, '', { data: [fleetMessage('TASK_POLL', { task_id: 't-1' })] });
  assert.deepEqual([poll.data[0]?.type, poll.data[0]?.state], ['TASK_ACK', 'running']);
  const announce = await say(url, '', { data: [fleetMessage('ANNOUNCE_REQUEST', {})] });
  assert.equal(announce.data[0]?.type, 'SESSION_ANNOUNCE');
  const cancel = await say(url, '', { data: [fleetMessage('TASK_CANCEL', { task_id: 't-1' })] });
  assert.equal(cancel.error, undefined);
  await worker.until(() => worker.journal.get('t-1')?.state === 'finished', 'the task to end');
  const wrong = await say(url, '', {
    data: [fleetMessage('SESSION_HEARTBEAT', { agent_id: 'a', incarnation: 'i', seq: 1, active_tasks: 0 })],
  });
  assert.equal(wrong.error?.code, -32602);
  const invalid = await say(url, '', { data: [{ ...aDispatch('t-9'), brief: ' ' }] });
  assert.deepEqual([invalid.data[0]?.status, invalid.data[0]?.task_id], ['blocked', 't-9']);
});

test('a managed worker acknowledges at once and calls back until its reply is taken', async (context) => {
  const calls: { text: string; contextId: string; data: unknown; authorization: string | null }[] = [];
  let refuse = 2;
  const orchestrator = await listenHttp({
    port: 0,
    hasTokens: false,
    handle: async (request, response) => {
      let body = '';
      for await (const chunk of request) body += chunk;
      const { message } = JSON.parse(body).params;
      const [{ text }, { data }] = message.parts;
      calls.push({ text, data, contextId: message.contextId, authorization: request.headers.authorization ?? null });
      if (refuse-- > 0) response.writeHead(500).end('{}');
      else
        response.end(
          JSON.stringify({ jsonrpc: '2.0', id: 1, result: { kind: 'message', message: { parts: [{ text: 'ok' }] } } }),
        );
    },
  });
  context.after(() => orchestrator.close());
  const callbacks = new Map([['local', { url: orchestrator.address, token: () => 'of-the-worker' }]]);
  const { worker, url } = await staged(context, { byHand: true }, { callbacks });
  const said = await say(url, hints('task_id: t-1'), { contextId: 'c-1' });
  assert.match(said.text, /\[queued\]$/);
  assert.equal(announceInReply(said.text).profile?.agent_id, 'codex-1');
  worker.finish('t-1', { prose: 'It is fixed.' });
  await worker.until(() => worker.outbox.length === 0, 'the reply to be taken');
  assert.equal(calls.length, 3);
  const last = calls.at(-1)!;
  assert.deepEqual([last.contextId, last.authorization], ['c-1', 'Bearer of-the-worker']);
  assert.equal(resultIn(last.text, 't-1')?.status, 'done');
  assert.match(last.text, /^It is fixed\./);
});

test('health says whether tasks would be done, and keeps the path of the repository from strangers', async (context) => {
  let ready = { ok: true, detail: 'ready' };
  const auth = createAuthenticator([
    { principal: { name: 'boss', fleet: { submit: true } }, digests: [tokenDigest('token-of-the-boss')] },
  ]);
  const { worker, url } = await staged(context, {}, { auth, ready: async () => ready });
  const health = async (): Promise<{ status: number; body: Record<string, unknown> }> => {
    const response = await fetch(`${url}/health`);
    return { status: response.status, body: (await response.json()) as Record<string, unknown> };
  };
  // The client is on this machine.
  assert.deepEqual(await health(), {
    status: 200,
    body: { ok: true, name: 'codex-1', detail: 'ready', repo_path: '/repo' },
  });
  ready = { ok: false, detail: 'codex is not signed in' };
  assert.deepEqual([(await health()).status, (await health()).body.detail], [503, 'codex is not signed in']);
  ready = { ok: true, detail: 'ready' };
  worker.draining = true;
  assert.equal((await health()).body.ok, false);
});

test('the card is public, says that the protocol is spoken, and nothing of what the worker is', async (context) => {
  const { url } = await staged(context, { tools: ['secret-tool'] });
  const response = await fetch(`${url}/.well-known/agent-card.json`);
  const text = await response.text();
  const card = JSON.parse(text);
  assert.equal(card.url, `${url}/jsonrpc`);
  const [extension] = card.capabilities.extensions;
  assert.equal(extension.uri, FLEET_EXTENSION);
  assert.deepEqual(extension.params.protocol_versions, ['2.0']);
  assert.doesNotMatch(text, /secret-tool|scripted/);
});

test('tokens are asked for before anything is read, and guessing takes longer', async (context) => {
  const auth = createAuthenticator([
    { principal: { name: 'boss', fleet: { submit: true } }, digests: [tokenDigest('token-of-the-boss')] },
  ]);
  const { worker, url } = await staged(context, {}, { auth });
  const wrong = await say(url, 'do it', { token: 'token-of-a-thief' });
  assert.deepEqual([wrong.status, wrong.headers.get('www-authenticate')], [401, 'Bearer']);
  assert.equal((await say(url, 'do it')).status, 401);
  assert.equal((await fetch(`${url}/announce`)).status, 401);
  assert.deepEqual(worker.begun, []);
  assert.equal((await say(url, 'do it', { token: 'token-of-the-boss' })).status, 200);
  const announce = await fetch(`${url}/announce`, { headers: { authorization: 'Bearer token-of-the-boss' } });
  assert.equal(((await announce.json()) as { type: string }).type, 'SESSION_ANNOUNCE');
});

test('a token without the grant to hand in tasks gets the card and nothing else', async (context) => {
  const auth = createAuthenticator([
    { principal: { name: 'bare' }, digests: [tokenDigest('token-of-the-bare')] },
    { principal: { name: 'agent', ...ROLES.agent }, digests: [tokenDigest('token-of-the-agent')] },
  ]);
  const { worker, url } = await staged(context, {}, { auth });
  for (const name of ['bare', 'agent']) {
    const token = `token-of-the-${name}`;
    assert.equal((await say(url, 'do it', { token })).status, 403);
    assert.equal((await fetch(`${url}/announce`, { headers: { authorization: `Bearer ${token}` } })).status, 403);
  }
  assert.equal((await fetch(`${url}/.well-known/agent-card.json`)).status, 200);
  assert.deepEqual(worker.begun, []);
});

test('a receiver that should ask for tokens and has none answers no client', async (context) => {
  const { worker, url } = await staged(context, {}, { requireToken: true });
  assert.equal((await say(url, 'do it', { token: 'any-token-at-all' })).status, 503);
  assert.deepEqual(worker.begun, []);
});

test('without tokens a page that reaches this machine under a name of its own gets nothing', async (context) => {
  const { url, worker } = await staged(context);
  const { request } = await import('node:http');
  const status = await new Promise<number | undefined>((resolve, reject) => {
    const sent = request(`${url}/jsonrpc`, {
      method: 'POST',
      headers: { host: 'evil.example', 'content-type': 'application/json' },
    });
    sent.on('response', (response) => resolve(response.resume().statusCode));
    sent.on('error', reject);
    sent.end('{}');
  });
  assert.equal(status, 403);
  assert.deepEqual(worker.begun, []);
});

test('an invalid request is answered with the number for it, and the receiver continues', async (context) => {
  const { url } = await staged(context);
  const call = (method: string, params: unknown): string => JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  const message = { role: 'user', parts: [{ text: 'do it' }] };
  const code = async (body: string): Promise<number | undefined> => (await post(url, body)).error?.code;
  assert.equal(await code(''), -32700);
  assert.equal(await code('{"jsonrpc":"2.0",}'), -32700);
  assert.equal(await code('[1]'), -32600);
  assert.equal(await code('{"id":1}'), -32600);
  assert.equal(await code('{"jsonrpc":"2.0","id":1,"id":2,"method":"SendMessage"}'), -32600);
  assert.equal(await code('['.repeat(5_000)), -32600);
  assert.equal(await code(call('tasks/cancel', {})), -32601);
  assert.equal(await code(call('SendMessage', { message, contextId: 'c-1' })), -32602);
  assert.equal(await code(call('SendMessage', {})), -32602);
  assert.equal(await code(call('SendMessage', { message: { parts: [{ kind: 'file' }] } })), -32602);
  assert.equal(await code(call('SendMessage', { message: { ...message, contextId: 'a\nb' } })), -32602);
  assert.equal(
    (await post(url, call('SendMessage', { message: { parts: [{ text: 'x'.repeat(1024 * 1024) }] } }))).status,
    413,
  );
  assert.equal((await fetch(`${url}/jsonrpc`)).status, 405);
  assert.equal((await fetch(`${url}/nothing`)).status, 404);
  assert.equal((await say(url, 'do it')).status, 200);
});

test('a listener takes the first free port of its band, and never one of another', async (context) => {
  const first = PORT_BANDS.agy;
  const taken = createServer();
  const ours = await new Promise<boolean>((resolve) => {
    taken.once('error', () => resolve(false));
    taken.listen(first, '127.0.0.1', () => resolve(true));
  });
  context.after(() => taken.close());
  const listener = await listenHttp({ port: 'agy', hasTokens: false, handle: (_request, response) => response.end() });
  context.after(() => listener.close());
  // Another process that had it may have freed it meanwhile.
  assert.ok(listener.port >= (ours ? first + 1 : first) && listener.port < first + 10, `port ${listener.port}`);
  await assert.rejects(listenHttp({ port: listener.port, hasTokens: false, handle: () => {} }), {
    code: 'runtime_error',
  });
});

test('an address that others reach is not bound without a token', async () => {
  await assert.rejects(listenHttp({ host: '0.0.0.0', port: 0, hasTokens: false, handle: () => {} }), {
    code: 'config_invalid',
  });
});
