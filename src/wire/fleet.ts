/**
 * The fleet protocol on stream links, as a codec: one JSON object a line; on the in-memory pair the object itself.
 *
 * Bodies are read strictly, by a reader that `fleet/` brings. A message is never split from its members: `Connection`
 * passes on the whole message. Dispatches and results are requests that the other side acknowledges; the owner of the
 * connection matches acknowledgements to requests, because older peers name no cause.
 * @see docs/protocol/fleet.md#stream-links
 */
import type { Capacity, Codec, Encoded, Incoming, MalformedInput, Message, MessageId } from './codec.ts';
import { shown } from './codec.ts';
import { fail, type HandfastError } from './errors.ts';

/** A problem of a message: a code of the protocol (`E_…`) and its position. */
export interface FleetProblem {
  readonly code: string;
  readonly path: string;
}

/** The strict reader's result for a message. */
export type FleetReading =
  | { readonly valid: true; readonly message: { readonly type: string } }
  | {
      readonly valid: false;
      readonly type: string | null;
      readonly taskId?: string;
      readonly errors: readonly FleetProblem[];
    };

/** The detail of the error about a message that could not be read. */
export interface FleetMalformed {
  readonly type: string | null;
  readonly taskId?: string;
  readonly errors: readonly FleetProblem[];
}

const malformed = (detail: FleetMalformed): HandfastError =>
  fail('invalid_message', 'not a message of the fleet protocol', { ...detail });

export class FleetCodec implements Codec {
  readonly separator = undefined;
  readonly uniqueIds = false;
  readonly cancels = false;
  /** Liveness is shown by heartbeats, which need no reply. */
  readonly pingType = undefined;
  readonly #reader: (raw: Encoded) => FleetReading;
  #requests = 0;

  constructor(reader: (raw: Encoded) => FleetReading) {
    this.#reader = reader;
  }

  read(raw: Encoded): Incoming {
    const reading = this.#reader(raw);
    const { valid } = reading;
    const message = valid ? (reading.message as unknown as Message) : undefined;
    return {
      kind: valid ? 'notice' : 'invalid',
      type: valid ? reading.message.type : (reading.type ?? ''),
      id: null,
      idText: '',
      ref: undefined,
      message,
      body: message,
      size: typeof raw === 'string' ? raw.length : 0,
      cursor: 0,
      error: valid ? undefined : malformed(reading),
    };
  }

  malformed({ reason }: MalformedInput): HandfastError {
    const code = reason === 'too_large' ? 'E_LIMIT' : 'E_NOT_JSON';
    return malformed({ type: null, errors: [{ code, path: '' }] });
  }

  objection(): undefined {
    return undefined;
  }

  unknownType(type: string): HandfastError {
    return fail('unknown_type', `unsupported message type ${shown(type)}`);
  }

  overCapacity({ maxParallel, queueLimit, retryAfterMs }: Capacity): HandfastError {
    return fail('over_capacity', `${maxParallel} run and ${queueLimit} wait`, { retry_after_ms: retryAfterMs });
  }

  id(): MessageId {
    return ++this.#requests;
  }

  request(text: boolean, _type: string, _id: MessageId, message: object): Encoded {
    return encode(text, message);
  }

  notice(text: boolean, _type: string, message: object): Encoded {
    return encode(text, message);
  }

  // The protocol replies with separate messages (TASK_ACK, TASK_RESULT), which leave as notices.

  reply(): never {
    throw notOfTheFleet('replies');
  }

  failure(): never {
    throw notOfTheFleet('error replies');
  }

  event(): never {
    throw notOfTheFleet('events of requests');
  }

  cancel(): never {
    throw notOfTheFleet('cancels of requests');
  }

  pong(): never {
    throw notOfTheFleet('pongs');
  }
}

const notOfTheFleet = (what: string): HandfastError => fail('usage', `the fleet protocol has no ${what}`);

/** Returns the form in which a link takes a message. Throws the errors of `JSON.stringify`. */
function encode(text: boolean, message: object): Encoded {
  return text ? JSON.stringify(message) : (message as Message);
}
