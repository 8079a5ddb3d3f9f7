/**
 * A receiver as deployed ones of v0.5 to v0.8 behave, on plain `node:http`: it knows text and nothing of this protocol. It
 * reads the first text part only, cuts long prompts without a word, and answers at once, or later in a separate call.
 *
 * The counterpart of `httpPeerBus` in its tests.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface UpstreamOptions {
  readonly token?: () => string;
  /** The agent's reply to a prompt. */
  readonly agent?: (prompt: string, contextId: string | undefined) => string | Promise<string>;
  /** Base address of the orchestrator, and the token it wants: replies are sent there later. */
  readonly managed?: { readonly url: string; readonly token?: string };
  readonly port?: number;
}

const PROMPT_CHARS = 262_144;

export class UpstreamReceiver {
  readonly prompts: string[] = [];
  readonly contexts: (string | undefined)[] = [];
  /** Answers of the orchestrator to calls. */
  readonly called: unknown[] = [];
  readonly tokens: (string | undefined)[] = [];
  url = '';
  healthy = true;
  /** Answers every message with this error. */
  error: { code: number; message: string; data?: unknown } | undefined;
  /** Answers every message with this status. */
  status: number | undefined;
  /** Ends the connection in the place of an answer. */
  hangUp = false;
  /** Turns under way, by context. */
  readonly #turns = new Set<string>();
  readonly #options: UpstreamOptions;
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  constructor(options: UpstreamOptions = {}) {
    this.#options = options;
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve) => this.#server.listen(this.#options.port ?? 0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return this;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.url === '/.well-known/agent-card.json') {
      return reply(response, 200, { name: 'claude-code', url: `${this.url}/jsonrpc`, capabilities: {}, skills: [] });
    }
    if (request.url === '/health') {
      if (!this.healthy) return void request.socket.destroy();
      return reply(response, 200, { ok: true, name: 'claude-code', repo_path: '/repo' });
    }
    if (request.url !== '/jsonrpc') return reply(response, 404, { error: 'not found' });
    this.tokens.push(request.headers.authorization);
    const { token } = this.#options;
    if (token !== undefined && request.headers.authorization !== `Bearer ${token()}`) {
      request.resume();
      return reply(response, 401, { error: 'unauthorized' });
    }
    let body = '';
    for await (const chunk of request) body += chunk;
    if (this.hangUp) return void request.socket.destroy();
    if (this.status !== undefined) return reply(response, this.status, { error: 'status' });
    const { id, method, params } = JSON.parse(body);
    if (method !== 'SendMessage' && method !== 'message/send') return failure(response, id, -32601, 'method not found');
    if (params.contextId !== undefined) return failure(response, id, -32602, 'unexpected contextId');
    if (this.error !== undefined) return reply(response, 200, { jsonrpc: '2.0', id, error: this.error });
    const prompt = String(params.message.parts[0].text).slice(0, PROMPT_CHARS);
    const { contextId } = params.message;
    if (this.#turns.has(contextId)) return failure(response, id, -32001, 'busy: duplicate dispatch');
    this.prompts.push(prompt);
    this.contexts.push(contextId);
    this.#turns.add(contextId);
    const work = this.#work(prompt, contextId).finally(() => this.#turns.delete(contextId));
    const { managed } = this.#options;
    if (managed === undefined) return message(response, id, await work, contextId);
    message(response, id, 'Message received. [queued]', contextId);
    await this.call(await work, contextId);
  }

  async #work(prompt: string, contextId: string | undefined): Promise<string> {
    try {
      return (await this.#options.agent?.(prompt, contextId)) ?? 'Done.';
    } catch (error) {
      return `[error] ${(error as Error).message}`;
    }
  }

  /** Posts a reply to the orchestrator, as managed receivers do. */
  async call(text: string, contextId: string | undefined, token = this.#options.managed?.token): Promise<unknown> {
    const answer = await fetch(`${this.#options.managed?.url}/jsonrpc`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...(token !== undefined && { authorization: `Bearer ${token}` }) },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'SendMessage',
        params: { message: { role: 'user', parts: [{ text }], contextId } },
      }),
    });
    const said: unknown = await answer.json();
    this.called.push(said);
    return said;
  }
}

function reply(response: ServerResponse, status: number, value: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}

const failure = (response: ServerResponse, id: unknown, code: number, message: string): void =>
  reply(response, 200, { jsonrpc: '2.0', id, error: { code, message } });

function message(response: ServerResponse, id: unknown, text: string, contextId: string | undefined): void {
  const said = { role: 'agent', parts: [{ text }], contextId };
  reply(response, 200, { jsonrpc: '2.0', id, result: { kind: 'message', message: said } });
}

/** Makes the TASK_RESULT block an agent ends its reply with. */
export function resultBlock(members: Record<string, unknown>): string {
  return ['```json', JSON.stringify({ type: 'TASK_RESULT', protocol_version: '2.0', ...members }), '```'].join('\n');
}

/** Returns the id in the hints of a prompt. */
export function taskIdIn(prompt: string): string {
  return /^task_id: (\S+)$/m.exec(prompt)?.[1] ?? '';
}
