/**
 * The dialects the connection suite runs on. To add one, write a `DialectFactory` and put it into `dialects` below.
 */
import type { Call } from '../../src/connection/call.ts';
import type { CallLimits } from '../../src/connection/outgoing-calls.ts';
import type { RunningRequest } from '../../src/connection/running-request.ts';
import { readMessage } from '../../src/fleet/bus/stream/messages.ts';
import type { Incoming as FleetIncoming } from '../../src/fleet/messages/decoded.ts';
import { dispatchMessage, fleetMessage, resultMessage } from '../../src/fleet/messages/encode.ts';
import { untyped } from '../../src/protocol/method.ts';
import { A2ECodec } from '../../src/wire/a2e.ts';
import type { Incoming, Message, MessageId } from '../../src/wire/codec.ts';
import type { HandfastError } from '../../src/wire/errors.ts';
import { FleetCodec } from '../../src/wire/fleet.ts';
import { JsonRpcCodec } from '../../src/wire/jsonrpc.ts';
import { type DialectFactory, Side } from './side.ts';

const a2e: DialectFactory = {
  name: 'A2E',
  lacks: {},
  codec: () => new A2ECodec(),
  side: (options) => new Side(a2e, options),
  method: (name) => ({ ...untyped(`${name}/req`), reply: `${name}/resp`, event: `${name}/event` }),
  notice: (name) => `${name}/push`,
  malformed: [
    ['{', 'parse_error'],
    ['[]', 'invalid_message'],
    ['null', 'invalid_message'],
    [`{"type":"x/req","id":"1","deep":${'['.repeat(65)}${']'.repeat(65)}}`, 'too_large'],
    ['{"id":"untyped"}', 'invalid_message'],
  ],
  resultOf(reply) {
    const { type, id, req_id, cursor, ts, a2e: _a2e, version, ...own } = reply as Message;
    return own;
  },
};

const jsonRpc: DialectFactory = {
  name: 'JSON-RPC',
  lacks: {
    'events of requests': 'events of a session are notifications, which name the session',
    'agreed cancel': 'every peer understands $/cancel_request',
  },
  codec: (role) => new JsonRpcCodec({ calls: role === 'both' }),
  side: (options) => new Side(jsonRpc, options),
  method: (name) => ({ ...untyped(name), event: 'event' }),
  notice: (name) => name,
  malformed: [
    ['{', 'parse_error'],
    ['[]', 'batch_not_supported'],
    ['null', 'invalid_message'],
    [`{"jsonrpc":"2.0","id":1,"method":"m","params":${'['.repeat(65)}${']'.repeat(65)}}`, 'too_large'],
    ['{"jsonrpc":"2.0","id":1}', 'invalid_message'],
  ],
  resultOf: (reply) => reply,
};

const fleet: DialectFactory = {
  name: 'fleet',
  lacks: {
    requests:
      'a TASK_DISPATCH is a message of its own: the worker decides what runs and when, and its TASK_RESULT ends the task',
    'events of requests': 'TASK_PROGRESS is a message about a task',
    cancel: 'TASK_CANCEL is a message about a task, whose TASK_RESULT completes it',
    'agreed cancel': 'there is no cancel of a message',
    refusals: 'input that is no message gets no reply; the end that received it counts it',
  },
  codec: () => new FleetCodec(readMessage),
  side: (options) => new FleetSide(fleet, options),
  method: untyped,
  notice: (name) => name,
  malformed: [
    ['{', 'E_NOT_JSON'],
    ['[]', 'E_NOT_OBJECT'],
    ['null', 'E_NOT_OBJECT'],
    [`{"type":"TASK_POLL","deep":${'['.repeat(65)}${']'.repeat(65)}}`, 'E_LIMIT'],
    ['{"type":"TASK_POLL","type":"TASK_POLL"}', 'E_DUP_KEY'],
    ['{"type":"x/req","protocol_version":"2.0"}', 'E_TYPE'],
    ['{"type":"TASK_POLL","protocol_version":"3.0","task_id":"t"}', 'E_VERSION_UNSUPPORTED'],
    ['{"type":"TASK_POLL","protocol_version":"2.0"}', 'E_REQUIRED'],
  ],
  resultOf: (reply) => reply,
};

/**
 * A side of the fleet protocol: a call is a TASK_DISPATCH, completed by the TASK_RESULT that names it as its cause, and
 * a notice is a TASK_STEER.
 */
class FleetSide extends Side {
  readonly #calls = new Map<string, MessageId>();
  #messages = 0;

  override call(name: string, body: object = {}, options: object = {}, callLimits?: CallLimits): Call<unknown> {
    const calls = this.connection.calls(callLimits);
    const message_id = `m-${++this.#messages}`;
    const brief = JSON.stringify({ name, body });
    const message = dispatchMessage({ task: { task_id: message_id }, brief }, { message_id });
    const call = calls.call(untyped(message.type), message, options, (result) => result);
    this.#calls.set(message_id, (call as unknown as { readonly id: MessageId }).id);
    return call;
  }

  override notify(name: string, body: object): void {
    const text = JSON.stringify(body);
    this.connection.notify('TASK_STEER', fleetMessage('TASK_STEER', { task_id: 't', steer_id: name, text }));
  }

  override notice(incoming: Incoming): Promise<unknown> | undefined {
    const message = incoming.message as unknown as FleetIncoming;
    if (message.type === 'TASK_DISPATCH') return void this.#serve(message.brief, String(message.envelope.message_id));
    if (message.type === 'TASK_RESULT') return this.#complete(message.envelope.causation_id, message);
    const { steer_id: type, text } = message as FleetIncoming & { readonly type: 'TASK_STEER' };
    return super.notice({ ...incoming, type, body: JSON.parse(text) });
  }

  async #serve(brief: string, causation_id: string): Promise<void> {
    const { name, body } = JSON.parse(brief) as { readonly name: string; readonly body: Message };
    const request = { signal: new AbortController().signal } as RunningRequest;
    const answer = this.routes.get(name)?.run(body, request);
    const reply = (value: unknown): void => {
      const result = resultMessage({ task_id: causation_id, status: 'done', answer: value }, { causation_id });
      this.connection.notify(result.type, result);
    };
    if (answer instanceof Promise) reply(await answer);
    else reply(answer);
  }

  #complete(cause: string | undefined, { answer }: FleetIncoming & { readonly type: 'TASK_RESULT' }): undefined {
    const calls = this.connection.calls();
    const call = calls.find(this.#calls.get(cause ?? '') ?? null);
    if (call !== undefined) calls.reply(call, { type: '', body: answer });
    return undefined;
  }

  override malformed(error: HandfastError): void {
    this.malformedInput.push(error);
    this.look();
  }
}

export const dialects: readonly DialectFactory[] = [a2e, jsonRpc, fleet];
