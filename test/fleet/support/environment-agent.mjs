/**
 * An agent program that uses the environment it was lent. The brief has its plan between « and »: which tools it calls, whether
 * it waits before it ends. It stores what it was given in `AGENT_NOTES/<task id>.json`, for tests that play a thief.
 */
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

const { AGENT_NOTES, HANDFAST_MCP_URL: url, HANDFAST_MCP_TOKEN: token, HANDFAST_TASK_ID: task } = process.env;
const plan = JSON.parse(/«(.*)»/s.exec(process.argv.at(-1))[1]);

let id = 0;
let session;
async function ask(method, params) {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    ...(session && { 'mcp-session-id': session }),
  };
  id += 1;
  const response = await fetch(url, {
    method: 'POST',
    headers,
    body: JSON.stringify({ jsonrpc: '2.0', id, method, params }),
  });
  session ??= response.headers.get('mcp-session-id') ?? undefined;
  const text = await response.text();
  // A stream has notifications before the reply.
  const messages = text.startsWith('{')
    ? [text]
    : text.split('\n').flatMap((line) => /^data: ?(\{.*)/.exec(line)?.[1] ?? []);
  return messages.map((message) => JSON.parse(message)).find((message) => message.id === id);
}

const results = [];
if (url !== undefined) {
  const clientInfo = { name: 'agent', version: '1' };
  await ask('initialize', { protocolVersion: '2025-06-18', capabilities: {}, clientInfo });
  const { result } = await ask('tools/list', {});
  results.push({ tools: result.tools.map(({ name }) => name) });
}
writeFileSync(join(AGENT_NOTES, `${task}.json`), JSON.stringify({ url, token, session, pid: process.pid }));
for (const [name, args] of plan.calls ?? []) {
  const { result, error } = await ask('tools/call', { name, arguments: args });
  const text = error === undefined ? result.content.map((part) => part.text).join('') : error.message;
  results.push({ name, failed: error !== undefined || result.isError === true, text });
}
if (plan.wait) while (!existsSync(join(AGENT_NOTES, `${task}.go`))) await sleep(20);
if (plan.tells) console.log(`my token is ${token}`);
console.log(JSON.stringify(results));
