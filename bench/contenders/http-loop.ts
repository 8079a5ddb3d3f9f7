/**
 * The bare JSON loop over HTTP: one POST a call on kept-alive connections, the reply in its body; the events of a call
 * as lines of the same body. For `bare`, and with another protocol's texts for peers without a transport.
 */
import { Agent, createServer, type IncomingMessage, request as openRequest } from 'node:http';
import { lineScanner, listening } from './carriers.ts';
import { LOOPBACK, type Served } from './contender.ts';

/** Serves `POST /`: `answer` gets the body and sends any number of texts, the last one with `last`. */
export function servePosts(
  answer: (body: string, send: (text: string) => void, last: (text: string) => void) => void,
): Promise<Served> {
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const body = (chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString();
      answer(
        body,
        (text) => response.write(`${text}\n`),
        (text) => {
          if (response.headersSent) return response.end(`${text}\n`);
          // A reply alone is sent with its length, which node:http writes together with the head.
          response.writeHead(200, {
            'content-type': 'application/json',
            'content-length': Buffer.byteLength(text),
          });
          response.end(text);
        },
      );
    });
  });
  server.keepAliveTimeout = 60_000;
  return listening(server);
}

/** Posts texts over at most 64 kept-alive connections. */
export class PostClient {
  readonly #agent = new Agent({ keepAlive: true, maxSockets: 64 });
  readonly #port: number;

  constructor(port: number) {
    this.#port = port;
  }

  /** Posts one text; resolves with the body of the answer. */
  post(body: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#request(body, reject, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () => {
          resolve((chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)).toString());
        });
      });
    });
  }

  /** Posts one text; `onText` gets each line of the answer as it arrives. */
  stream(body: string, onText: (text: string) => void): void {
    this.#request(
      body,
      () => {},
      (response) => response.on('data', lineScanner(onText)),
    );
  }

  close(): void {
    this.#agent.destroy();
  }

  #request(body: string, failed: (error: Error) => void, answered: (response: IncomingMessage) => void): void {
    const request = openRequest(
      {
        agent: this.#agent,
        host: LOOPBACK,
        port: this.#port,
        method: 'POST',
        path: '/',
        headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
      },
      answered,
    );
    request.on('error', failed);
    request.end(body);
  }
}
