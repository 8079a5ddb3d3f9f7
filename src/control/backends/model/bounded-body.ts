/**
 * The body of a provider's reply, in parts that others can wait for. A provider, or a server in its place, may send events of any
 * length, millions of values in one, or millions of empty lines; the SDK reads each event and all that has arrived at once.
 *
 * Used by `sdk.ts` for each request.
 */
import { Turns } from '../../../base/turns.ts';
import { MAX_VALUES, ValueCounter } from '../../../wire/depth.ts';
import { fail } from '../../../wire/errors.ts';

/** Bytes that are handed on at once. */
const PART_BYTES = 16 * 1024;
/** Longest event, and longest body that is one value: an image is the longest thing a model may send. */
const MAX_EVENT_BYTES = 8 * 1024 * 1024;

const LF = 10;
const CR = 13;
const SPACE = 32;
const OBJECT = 123;
const LIST = 91;

/** All requests share the time of a turn. */
const turns = new Turns();

/**
 * A body with its parts. Fails with `provider_error` at an event that is too long or has too many values.
 * @param received called for each part
 */
export function boundedBody(body: ReadableStream<Uint8Array>, received: () => void): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const bounds = new EventBounds();
  let rest: Uint8Array = new Uint8Array();
  return new ReadableStream(
    {
      async pull(controller) {
        if (rest.length === 0) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          rest = value;
        }
        while (turns.over) await turns.next();
        received();
        const part = rest.subarray(0, PART_BYTES);
        rest = rest.subarray(PART_BYTES);
        try {
          bounds.add(part);
        } catch (thrown) {
          void reader.cancel(thrown).catch(() => {});
          throw thrown;
        }
        controller.enqueue(part);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/**
 * Counts the bytes and values of each event, which an empty line ends. A body that starts as an object or a list is one value, of any
 * content type.
 */
class EventBounds {
  /** Undefined until the first character has come. */
  #events: boolean | undefined;
  #bytes = 0;
  #values = 0;
  /** State within this line: a string ends with its line, so that a line of other text does not hide the values of the next. */
  #line = new ValueCounter();
  #lineBytes = 0;
  #before = 0;

  add(part: Uint8Array): void {
    const first = this.#events === undefined ? part.find((byte) => byte > SPACE) : undefined;
    if (first !== undefined) this.#events = first !== OBJECT && first !== LIST;
    let from = 0;
    for (let at = 0; this.#events === true && at < part.length; at += 1) {
      const byte = part[at] as number;
      if (byte === CR || (byte === LF && this.#before !== CR)) {
        this.#count(part.subarray(from, at));
        this.#endLine();
      }
      if (byte === CR || byte === LF) from = at + 1;
      this.#before = byte;
    }
    this.#count(part.subarray(from));
  }

  #endLine(): void {
    if (this.#lineBytes === 0) {
      this.#bytes = 0;
      this.#values = 0;
      return;
    }
    this.#values += this.#line.count;
    this.#line = new ValueCounter();
    this.#lineBytes = 0;
  }

  #count(bytes: Uint8Array): void {
    this.#lineBytes += bytes.length;
    this.#bytes += bytes.length;
    if (this.#bytes > MAX_EVENT_BYTES) throw tooLarge(`longer than ${MAX_EVENT_BYTES} bytes`);
    if (this.#values + this.#line.add(bytes) > MAX_VALUES) throw tooLarge(`of more than ${MAX_VALUES} values`);
  }
}

const tooLarge = (why: string) => fail('provider_error', `the provider sent an event ${why}`);
