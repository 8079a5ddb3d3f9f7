/** Questions of real servers to agents: the asked agents, the answers, and refusals, withdrawals and spent budgets. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { agentOf, errorOf, everything, folder, mcpHost, oddCommand, until } from './support.ts';

/** Returns a port that was free a moment ago. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

const textOf = (data: unknown): string => JSON.stringify(data);
const asking = { ...everything, mayAsk: ['sampling', 'elicitation', 'roots'] as const };
const sample = ['everything', 'trigger-sampling-request', { prompt: 'hello', maxTokens: 10 }] as const;

test('a server samples the agent whose call runs, and gets what it answers', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [asking] } });
  const agent = await agentOf(t, host);
  const other = await agentOf(t, host, { agentId: 'bo' });
  const asked: unknown[] = [];
  agent.mcp.onSampling((request) => {
    asked.push(request);
    return { content: { type: 'text', text: 'as ana says' }, model: 'small-1', stop_reason: 'endTurn' };
  });
  other.mcp.onSampling(() => assert.fail('it asked the wrong one'));
  const { data } = await agent.mcp.call(...sample);
  assert.match(textOf(data), /as ana says/);
  const [request] = asked as [{ max_tokens: number; server_id: string; messages: { content: { text: string } }[] }];
  assert.deepEqual([request.max_tokens, request.server_id], [10, 'everything']);
  assert.match(request.messages[0]?.content.text ?? '', /hello/);
});

test('a person is asked by the agent: a form, and an address that nothing opens', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [asking] } });
  const agent = await agentOf(t, host);
  const asked: string[] = [];
  const end = agent.mcp.onElicitation(({ mode, message, requested_schema = {} }) => {
    asked.push(`${mode} ${message} ${Object.keys(requested_schema).join()}`);
    return { action: 'accept', content: { name: 'Ada' } };
  });
  const form = await agent.mcp.call('everything', 'trigger-elicitation-request');
  assert.match(textOf(form.data), /Ada/);
  assert.match(asked[0] ?? '', /^form .*type,properties,required/);
  end();
  agent.mcp.onElicitation(({ mode, url }) => {
    asked.push(`${mode} ${url}`);
    return { action: 'decline' };
  });
  const address = { url: 'https://example.com/sign-in', message: 'Sign in' };
  const declined = await agent.mcp.call('everything', 'trigger-url-elicitation', address);
  assert.match(textOf(declined.data), /declined/);
  assert.equal(asked[1], 'url https://example.com/sign-in');
});

test('the workspace is the only root', async (t) => {
  const workspace = folder(t);
  const host = await mcpHost(t, { workspace, mcp: { servers: [asking] } });
  const agent = await agentOf(t, host);
  const { data } = await agent.mcp.call('everything', 'get-roots-list');
  assert.ok(textOf(data).includes(pathToFileURL(workspace).href), textOf(data));
  assert.equal(textOf(data).match(/file:\/\//g)?.length, 1);
});

test('a server that may not ask, an agent without a handler, and one that refuses: the server reads why, and nothing hangs', async (t) => {
  const silent = { ...everything, name: 'silent' };
  const host = await mcpHost(t, { mcp: { servers: [asking, silent] } });
  const agent = await agentOf(t, host);
  const tools = (await agent.tools.list({ kind: 'mcp' })).map(({ name }) => name);
  // The server does not even offer a tool whose question is not allowed.
  assert.ok(tools.includes('everything__trigger-sampling-request'));
  assert.ok(!tools.includes('silent__trigger-sampling-request'));
  const unheard = await errorOf(agent.mcp.call(...sample));
  assert.match(unheard.message, /does not answer sampling\/createMessage/);
  const end = agent.mcp.onSampling(() => ({ error: 'not today' }));
  assert.match((await errorOf(agent.mcp.call(...sample))).message, /not today/);
  end();
  agent.mcp.onSampling(() => {
    throw new Error('no model');
  });
  assert.match((await errorOf(agent.mcp.call(...sample))).message, /no model/);
});

test('questions are counted, their tokens too, and they have a deadline', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [asking], maxAsks: 3, maxAskTokens: 25, askTimeoutS: 3 } });
  const agent = await agentOf(t, host);
  let answers = true;
  agent.mcp.onSampling((_, { signal }) => {
    if (answers) return { content: { type: 'text', text: 'yes' } };
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
  });
  await agent.mcp.call(...sample);
  const tooMany = await errorOf(agent.mcp.call('everything', sample[1], { prompt: 'x', maxTokens: 16 }));
  assert.match(tooMany.message, /25 tokens of this session; 15 are left/);
  answers = false;
  assert.match((await errorOf(agent.mcp.call(...sample))).message, /did not answer in time/);
  answers = true;
  await agent.mcp.call('everything', sample[1], { prompt: 'x', maxTokens: 1 });
  assert.match(
    (await errorOf(agent.mcp.call('everything', sample[1], { prompt: 'x', maxTokens: 1 }))).message,
    /3 times/,
  );
  // Another session has its own budget.
  const other = await agentOf(t, host, { agentId: 'bo' });
  other.mcp.onSampling(() => ({ content: { type: 'text', text: 'of bo' } }));
  assert.match(textOf((await other.mcp.call(...sample)).data), /of bo/);
});

test('a cancelled call withdraws its question, and one whose call is not known is refused', async (t) => {
  const host = await mcpHost(t, { mcp: { servers: [asking] } });
  const agent = await agentOf(t, host);
  const other = await agentOf(t, host, { agentId: 'bo' });
  const withdrawn = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  agent.mcp.onSampling((_, { signal }) => {
    asked.resolve();
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => {
        withdrawn.resolve();
        reject(signal.reason);
      });
    });
  });
  const stop = new AbortController();
  const calling = errorOf(agent.mcp.call('everything', sample[1], sample[2], { signal: stop.signal }));
  await asked.promise;
  const ambiguous = await errorOf(other.mcp.call(...sample));
  assert.match(ambiguous.message, /not known whom to ask: calls of several sessions are running/);
  stop.abort();
  assert.equal((await calling).code, 'cancelled');
  await withdrawn.promise;
  await until(async () => (await agent.mcp.servers())[0]?.health === 'ready');
});

test('over HTTP each question finds the agent of its call, while others call too', async (t) => {
  const port = await freePort();
  const [file] = everything.args as [string];
  const child = spawn(process.execPath, [file, 'streamableHttp'], { env: { ...process.env, PORT: String(port) } });
  t.after(() => child.kill('SIGKILL'));
  await new Promise<void>((resolve) => child.stderr.on('data', (text) => /listening/.test(text) && resolve()));
  const url = `http://127.0.0.1:${port}/mcp`;
  const host = await mcpHost(t, { mcp: { servers: [{ name: 'everything', url, mayAsk: ['sampling'] }] } });
  const names = ['ana', 'bo'];
  const agents = await Promise.all(names.map((agentId) => agentOf(t, host, { agentId })));
  const all = Promise.withResolvers<void>();
  let open = 0;
  for (const [at, agent] of agents.entries()) {
    agent.mcp.onSampling(async () => {
      open += 1;
      if (open === names.length) all.resolve();
      // Both calls run while both are answered.
      await all.promise;
      return { content: { type: 'text', text: `as ${names[at]} says` } };
    });
  }
  const replies = await Promise.all(agents.map((agent) => agent.mcp.call(...sample)));
  for (const [at, { data }] of replies.entries()) assert.match(textOf(data), new RegExp(`as ${names[at]} says`));
});

test('a server that an agent added asks that agent alone', async (t) => {
  const [command, ...args] = [everything.command as string, ...(everything.args ?? [])];
  const host = await mcpHost(t, { mcp: { register: [[command, ...args].join(' '), oddCommand.join(' ')] } });
  const agent = await agentOf(t, host);
  agent.mcp.onSampling(() => ({ content: { type: 'text', text: 'mine' } }));
  await agent.mcp.register({ server_id: 'mine', cmd: [command, ...args] });
  assert.match(textOf((await agent.mcp.call('mine', sample[1], sample[2])).data), /mine/);
});

test('the agent that was asked to open an address reads when that is done, and no other; so does one whose call needs it', async (t) => {
  const address = {
    name: 'address',
    command: process.execPath,
    args: [fileURLToPath(new URL('../../support/mcp-address.mjs', import.meta.url))],
    mayAsk: ['elicitation'] as const,
  };
  const host = await mcpHost(t, { mcp: { servers: [address] } });
  const agent = await agentOf(t, host);
  const other = await agentOf(t, host, { agentId: 'bo' });
  const ids: string[] = [];
  const heard: string[] = [];
  other.mcp.onNotification(({ method }) => assert.fail(method));
  agent.mcp.onNotification(({ method, params }) => void heard.push(`${method} ${params.elicitationId}`));
  agent.mcp.onElicitation(({ elicitation_id = '' }) => {
    ids.push(elicitation_id);
    return { action: 'accept' };
  });
  await other.mcp.servers();
  const { data } = await agent.mcp.call('address', 'sign');
  assert.match(textOf(data), /accept/);
  await until(() => heard.length > 0);
  assert.deepEqual(heard, [`notifications/elicitation/complete ${ids[0]}`]);

  const { code, detail } = await errorOf(agent.mcp.call('address', 'pay'));
  assert.equal(code, 'mcp_protocol_error');
  const [needed] = detail.elicitations as { url: string; elicitationId: string }[];
  assert.equal(needed?.url, 'https://example.com/pay');
  await until(() => heard.length > 1);
  assert.deepEqual(heard.slice(1), [`notifications/elicitation/complete ${needed?.elicitationId}`]);
});
