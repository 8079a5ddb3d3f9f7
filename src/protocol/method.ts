/**
 * A method is a value: the message types of a request, its reply and its events, their validators, and the capability
 * it belongs to. Callers (`connection/outgoing-calls.ts`) and handlers (`host/plugin.ts`) share it.
 */
import { type JsonSchema, lazyCheck } from '../base/json-schema.ts';
import type { Check } from '../wire/check.ts';
import { fail } from '../wire/errors.ts';
import { isObject } from '../wire/json.ts';
import type { WireOf } from '../wire/schema.ts';

/** The fields every A2E message has beside its own; the codec writes them, params and replies never hold them. */
export type Envelope = 'type' | 'id' | 'a2e' | 'version' | 'ts' | 'req_id' | 'cursor';

/** A message without its envelope. */
export type Body<T> = Omit<T, Envelope>;

/** A request type with its answer. */
export interface Method<Request extends object = object, Reply extends object = object> {
  /** `type` of the request message, e.g. `tool/call/req`. */
  readonly request: string;
  /** `type` of the answer. */
  readonly reply: string;
  /** `type` of its events. */
  readonly event: string;
  /** Capability that must be granted; `''` for core messages. */
  readonly capability: string;
  readonly checkRequest: Check;
  /**
   * Checks the events, if they carry other fields beside `kind`, `data` and `seq`; readers then find those in
   * `event.fields`.
   */
  readonly checkEvent?: Check;
  /** Checks the reply, for its callers: see {@link answered}. A host does not load the checks of its own replies. */
  readonly checkReply?: Check;
  /**
   * True if repeating the request has no more effect than making it once, as for lists. Absent: its handler or caller
   * decides it.
   */
  readonly idempotent?: boolean;
  /** For events that read stored data: returns the missing range that an event reports, for `call.gaps`. */
  readonly gapOf?: (
    data: Readonly<Record<string, unknown>>,
  ) => { readonly from: number; readonly to: number } | undefined;
  /**
   * Returns the part of a request that the journal stores, for requests whose fields may hold data that must not be
   * stored. Default: the request as it arrived.
   */
  readonly stored?: (request: Body<Request>) => object;
  /** True where its events continue behind the reply: a subscription. */
  readonly subscribes?: boolean;
  /** True where it starts work in the workspace of its host: a host with another workspace does not make it for this one. */
  readonly inWorkspace?: boolean;
  /**
   * For list requests: joins the replies of several plugins, highest priority first. Without it, a request goes to the
   * first plugin that owns it.
   */
  readonly merge?: (replies: readonly Body<Reply>[], request: Body<Request>) => Body<Reply>;
  /** Returns the caller's timeout in milliseconds, if the message has one; undefined = none given. */
  readonly limitMs?: (request: Body<Request>) => number | undefined;
  /**
   * Returns true for a request that may only wait, for a time, for a later message: a result that is awaited, a claim,
   * a chain with an approval. It takes no place of the concurrency limit while it waits (`CallContext.yieldSlot`).
   */
  readonly waits?: (request: Body<Request>) => boolean;
  /** Returns false when the caller asked for no events. Absent = events are always sent. */
  readonly streaming?: (request: Body<Request>) => boolean;
  /**
   * Writes the answer's own fields as JSON members (no braces) where that is worth more speed than JSON.stringify gives.
   * `seconds` is the time of the message, epoch seconds as JSON text.
   */
  readonly writeReply?: (reply: Body<Reply>, seconds: string) => string;
  /**
   * Returns a shorter reply in place of one that exceeds the message size limit of the peer: a part of it, with a mark
   * that a part was left out. Without it, and if the shorter one exceeds the limit too, the reply is the error
   * `too_large`.
   * @param maxBytes of the whole message
   */
  readonly shorten?: (reply: Body<Reply>, maxBytes: number) => Body<Reply>;
}

/**
 * A method as another package declares it: with the schemas of its messages instead of validators. A schema is a TypeBox
 * value or a plain JSON Schema of `type: 'object'`; it describes the message without its envelope.
 */
export interface MethodSchemas<Params, Result> {
  /** The fields of the request. */
  readonly params: Params;
  /** The fields of the reply. */
  readonly result: Result;
  /** The fields of its events, where they have more than `kind`, `data` and `seq`. */
  readonly events?: object;
}

/** A message that belongs to no request: its type ends in `/push`. Sender and receiver share the value. */
export interface Push<Content extends object = object> {
  /** `type` of the message, e.g. `env/state/push`. */
  readonly push: string;
  /** Capability that must be granted; `''` for core messages. */
  readonly capability: string;
  /** Checks a message that arrived. */
  readonly check?: Check;
  /** Never set; carries the type of the content. */
  readonly type?: Content;
}

/**
 * Declares a push from the schema of its content, as {@link method} does.
 * @example
 * export const changed = push({
 *   push: 'notes/changed/push', capability: 'notes',
 *   content: { type: 'object', properties: { key: { type: 'string' } }, required: ['key'] },
 * });
 */
export function push<const Content extends AnySchema>(
  value: Pick<Push, 'push' | 'capability'> & { readonly content: Content },
): Push<WireOf<Content> & object>;
/** Declares a push whose content is checked by a validator, or by its listeners. */
export function push<Content extends object>(value: Push<Content>): Push<Content>;
export function push(value: Push & { readonly content?: AnySchema }): Push {
  return value.content === undefined ? value : { ...value, check: lazyCheck(withEnvelope(value.content)) };
}

/** A schema of any kind, as a value. */
type AnySchema = object;

/** Options of a method that do not depend on how its schemas are given. */
type MethodOptions<Request extends object, Reply extends object> = Omit<
  Method<Request, Reply>,
  'checkRequest' | 'checkReply'
>;

/**
 * Declares a method from its schemas; types and validators come from them. A validator is compiled when its first message
 * arrives, so that a client loads none for replies it never gets.
 * @example
 * export const addNote = method({
 *   request: 'notes/add/req', reply: 'notes/add/resp', event: 'notes/event', capability: 'notes',
 *   params: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
 *   result: { type: 'object', properties: { note_id: { type: 'string' } }, required: ['note_id'] },
 * });
 */
export function method<const Params extends AnySchema, const Result extends AnySchema>(
  value: MethodSchemas<Params, Result> & MethodOptions<WireOf<Params> & object, WireOf<Result> & object>,
): Method<WireOf<Params> & object, WireOf<Result> & object> & MethodSchemas<Params, Result>;
/** Declares a method from validators that were generated ahead of time. */
export function method<Request extends object, Reply extends object>(
  value: Method<Request, Reply>,
): Method<Request, Reply>;
export function method(value: Method | (MethodSchemas<AnySchema, AnySchema> & MethodOptions<object, object>)): Method {
  if (typeof (value as Partial<Method> | undefined)?.request !== 'string') {
    throw fail('usage', "expected method({ request: 'name/verb/req', reply, event, capability, params, result })");
  }
  if (!('params' in value)) return value;
  const { params, result, events } = value;
  return {
    ...value,
    checkRequest: lazyCheck(withEnvelope(params)),
    checkReply: lazyCheck(withEnvelope(result)),
    ...(events && { checkEvent: lazyCheck(withEnvelope(events, eventFields)) }),
  };
}

/** Members that the methods of one capability share. */
type Shared = Pick<Method, 'capability' | 'event' | 'idempotent'>;

/** Declares the methods of one capability: a reply is named after its request, `memory/init/resp` after `memory/init/req`. */
export const methodsOf =
  (shared: Shared) =>
  <Request extends object, Reply extends object>(
    request: string,
    checkRequest: Check,
    more: Partial<Method<Request, Reply>> = {},
  ): Method<Request, Reply> => ({
    ...shared,
    request,
    reply: `${request.replace(/\/req$/, '')}/resp`,
    checkRequest,
    ...more,
  });

const envelopeFields: Readonly<Record<Envelope, true>> = {
  type: true,
  id: true,
  a2e: true,
  version: true,
  ts: true,
  req_id: true,
  cursor: true,
};

/** Fields of events beside their envelope. */
const eventFields = { kind: true, data: true, seq: true } as const;

/**
 * Returns the schema of the whole message: a schema that allows no other members allows those of the envelope, and
 * `more`.
 */
function withEnvelope(schema: AnySchema, more: Readonly<Record<string, true>> = {}): JsonSchema {
  const { properties: stated } = schema as JsonSchema;
  const properties = isObject(stated) ? stated : {};
  const taken = Object.keys(properties).find((name) => Object.hasOwn(envelopeFields, name));
  if (taken !== undefined) throw fail('usage', `${taken} is a field of the envelope; give the field another name`);
  return { ...schema, properties: { ...envelopeFields, ...more, ...properties } };
}

const anyShape: Check = Object.assign(() => true, { errors: null });

/**
 * Returns a method of this name without schemas: for messages that are read by other means, or for which this library
 * has no schema.
 */
export function untyped(name: string): Method {
  return { request: name, reply: '', event: '', capability: '', checkRequest: anyShape };
}

/** Returns the method in the form for callers: with the check of its reply. */
export function answered<Request extends object, Reply extends object>(
  value: Method<Request, Reply>,
  checkReply: Check,
): Method<Request, Reply> {
  return { ...value, checkReply };
}
