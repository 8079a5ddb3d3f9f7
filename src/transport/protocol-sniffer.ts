/**
 * Recognises a browser or another HTTP or TLS client on a port that speaks newline-delimited JSON, by its first bytes.
 *
 * It checks accepted sockets. A page can make a browser send a request whose body contains valid messages; closing at
 * the request line prevents that any is read. Rule: docs/architecture.md#before-the-handshake.
 */

const FOREIGN = [
  '\x16\x03', // a TLS record: handshake, version 3.x
  'GET ',
  'PUT ',
  'POST ',
  'HEAD ',
  'PATCH ',
  'TRACE ',
  'DELETE ',
  'OPTIONS ',
  'CONNECT ',
  'PRI * HTTP/2',
];
const LONGEST = 'PRI * HTTP/2'.length;
const OPEN_BRACE = 123;

/**
 * `foreign`: close at once. `ours`: no foreign protocol, stop checking. `unsure`: the bytes so far could still become
 * one.
 */
export type Verdict = 'foreign' | 'ours' | 'unsure';

/** Checks the first bytes of one connection, which may arrive in pieces. */
export class ProtocolSniffer {
  #seen = '';

  judge(chunk: Buffer): Verdict {
    if (this.#seen === '' && chunk[0] === OPEN_BRACE) return 'ours';
    this.#seen += chunk.toString('latin1', 0, LONGEST - this.#seen.length);
    if (FOREIGN.some((signature) => this.#seen.startsWith(signature))) return 'foreign';
    return FOREIGN.some((signature) => signature.startsWith(this.#seen)) ? 'unsure' : 'ours';
  }
}
