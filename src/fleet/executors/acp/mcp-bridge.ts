/**
 * A program that is an MCP server on its pipes and forwards every message to one at an address, for agents that connect to
 * programs only. Reads the address from `HANDFAST_MCP_URL` and the token from `HANDFAST_MCP_TOKEN`.
 *
 * An agent starts it, as `environment-server.ts` describes it. It ends with its input.
 */
import { createInterface } from 'node:readline';

interface Message {
  readonly id?: string | number;
  readonly method?: string;
}

/** Error code for a message that the server did not answer. */
const SERVER_ERROR = -32000;

const { HANDFAST_MCP_URL: url = '', HANDFAST_MCP_TOKEN: token = '' } = process.env;
const ending = new AbortController();
let session: string | undefined;
let version: string | undefined;

function print(message: unknown): void {
  process.stdout.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`);
}

function headers(): Record<string, string> {
  return {
    authorization: `Bearer ${token}`,
    ...(session !== undefined && { 'mcp-session-id': session }),
    ...(version !== undefined && { 'mcp-protocol-version': version }),
  };
}

/** Forwards one message and prints the reply. Never rejects. */
async function forward(line: string): Promise<void> {
  let message: Message = {};
  try {
    message = JSON.parse(line);
    const response = await fetch(url, {
      method: 'POST',
      headers: {
        ...headers(),
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
      },
      body: line,
      signal: ending.signal,
    });
    const opened = response.headers.get('mcp-session-id');
    if (message.method === 'initialize' && opened !== null) session = opened;
    if (response.ok) await printAll(response, message);
    else refuse(message, `HTTP ${response.status}: ${(await response.text()).slice(0, 1_000)}`);
  } catch (error) {
    refuse(message, (error as Error).message);
  }
  if (message.method === 'notifications/initialized') void listen();
}

function refuse({ id }: Message, why: string): void {
  if (id !== undefined) print({ jsonrpc: '2.0', id, error: { code: SERVER_ERROR, message: why } });
}

/** Forwards messages that belong to no request, for as long as the server sends them. */
async function listen(): Promise<void> {
  try {
    const response = await fetch(url, {
      headers: { ...headers(), accept: 'text/event-stream' },
      signal: ending.signal,
    });
    if (response.ok) await printAll(response, {});
    else await response.body?.cancel();
  } catch {
    // The client does without.
  }
}

async function printAll(response: Response, { method }: Message): Promise<void> {
  if (response.status === 202 || response.status === 204) return;
  const type = response.headers.get('content-type') ?? '';
  const received = (text: string): void => {
    if (text === '') return;
    if (method === 'initialize') version = JSON.parse(text).result?.protocolVersion ?? version;
    print(text);
  };
  if (!type.includes('text/event-stream')) return received((await response.text()).trim());
  let data: string[] = [];
  let rest = '';
  for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
    const lines = (rest + part).split('\n');
    rest = lines.pop() as string;
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(5).trim());
      if (line.trim() !== '') continue;
      received(data.join('\n'));
      data = [];
    }
  }
}

/** Nothing may overtake the opening of the session. */
let opening: Promise<void> = Promise.resolve();
for await (const line of createInterface({ input: process.stdin })) {
  if (line.trim() === '') continue;
  await opening;
  const sent = forward(line);
  if (session === undefined) opening = sent;
}
// Nothing else keeps this process running.
ending.abort();
