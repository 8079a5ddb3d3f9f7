/**
 * A method is a value: the message types of a request, its answer and its events, their validators, and the capability it
 * belongs to. Callers (`connection/outgoing-calls.ts`) and handlers (`host/plugin.ts`) share it.
 */
import type { Check } from '../wire/check.ts';

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
  /** Checks the answer, for those who call it: see {@link answered}. A host does not load the checks of its own answers. */
  readonly checkReply?: Check;
  /**
   * For list requests: joins the answers of several plugins, highest priority first. Without it, a request goes to the
   * first plugin that owns it.
   */
  readonly merge?: (replies: readonly Body<Reply>[], request: Body<Request>) => Body<Reply>;
  /** The caller's time limit in milliseconds, where the message has one; undefined = none given. */
  readonly limitMs?: (request: Body<Request>) => number | undefined;
  /** False when the caller asked for no events. Absent = events are always sent. */
  readonly streaming?: (request: Body<Request>) => boolean;
  /**
   * Writes the answer's own fields as JSON members (no braces) where that is worth more speed than JSON.stringify gives.
   * `seconds` is the time of the message, epoch seconds as JSON text.
   */
  readonly writeReply?: (reply: Body<Reply>, seconds: string) => string;
}

/** Declares a method; the types of request and reply come from its schemas. */
export function method<Request extends object, Reply extends object>(
  value: Method<Request, Reply>,
): Method<Request, Reply> {
  return value;
}

const anyShape: Check = Object.assign(() => true, { errors: null });

/** A method of this name without schemas: for messages that are read by other means, or that this library has no schema for. */
export function untyped(name: string): Method {
  return { request: name, reply: '', event: '', capability: '', checkRequest: anyShape };
}

/** The method as its callers have it: with the check of its answer. */
export function answered<Request extends object, Reply extends object>(
  value: Method<Request, Reply>,
  checkReply: Check,
): Method<Request, Reply> {
  return { ...value, checkReply };
}
