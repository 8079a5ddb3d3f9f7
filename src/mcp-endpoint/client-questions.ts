/**
 * Questions to a client of the sessions era: requests in the other direction, on the response path of the request they
 * belong to.
 */
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { RequestId } from './protocol.ts';
import type { Question } from './questions.ts';

/** Questions of one client that are open at once. */
const MAX_OPEN = 16;

interface Open {
  readonly question: Question;
  settle(answer: { readonly result?: unknown } | Error): void;
}

export class ClientQuestions {
  readonly #open = new Map<RequestId, Open>();
  #asked = 0;

  /**
   * Asks by `send`. Rejects with `over_capacity` where too many are open, `tool_denied` with the client's own message, and the
   * reason of the signal; the client then gets `notifications/cancelled`.
   */
  ask(question: Question, signal: AbortSignal, send: (text: string) => void): Promise<unknown> {
    if (this.#open.size >= MAX_OPEN) {
      throw fail('over_capacity', `${MAX_OPEN} questions to the MCP client are open; try again when one is answered`);
    }
    signal.throwIfAborted();
    const id = `handfast-${++this.#asked}`;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const withdraw = (): void => {
      if (!this.#open.delete(id)) return;
      const params = { requestId: id, reason: 'the question was withdrawn' };
      send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled', params }));
      reject(signal.reason);
    };
    signal.addEventListener('abort', withdraw, { once: true });
    this.#open.set(id, {
      question,
      settle(answer) {
        signal.removeEventListener('abort', withdraw);
        if (answer instanceof Error) reject(answer);
        else resolve(answer.result);
      },
    });
    send(JSON.stringify({ jsonrpc: '2.0', id, method: question.method, params: question.params }));
    return promise;
  }

  /** Takes a reply of the client; one that belongs to no question is left alone. */
  answered(id: RequestId, { result, error }: { readonly result?: unknown; readonly error?: unknown }): void {
    const open = this.#open.get(id);
    if (open === undefined || !this.#open.delete(id)) return;
    if (error === undefined) return open.settle({ result });
    const { message } = isObject(error) ? error : {};
    const why = typeof message === 'string' ? message.slice(0, MAX_REASON) : 'it gave no reason';
    open.settle(fail('tool_denied', `the MCP client refused ${open.question.method}: ${why}`));
  }

  /** Fails all open questions: the client has disconnected, and answers no more. */
  close(): void {
    for (const { settle } of this.#open.values()) settle(fail('connection_lost', 'the MCP client has gone'));
    this.#open.clear();
  }
}

const MAX_REASON = 500;
