/**
 * MCP on a link of text lines, as `handfast mcp` serves it on its pipes.
 *
 * When the client closes its end, running requests have a moment to end; then they are cancelled.
 */
import { sleep } from '../base/sleep.ts';
import type { CloseInfo, Link } from '../transport/link.ts';
import { errorText, INVALID_REQUEST, PARSE_ERROR, type Received, readMessage } from './protocol.ts';
import type { McpRequests } from './requests.ts';
import type { Exchange } from './served-request.ts';
import { McpSession } from './session.ts';

/** Serves the client; resolves when its link has ended. Never rejects. */
export function serveMcpLink(link: Link, requests: McpRequests): Promise<CloseInfo> {
  const { promise, resolve } = Promise.withResolvers<CloseInfo>();
  const send = (text: string): void => link.send(text);
  const exchange: Exchange = {
    reply: send,
    ask: send,
    end() {},
    // A client that does not read loses progress and log messages first.
    notify: (text) => {
      if (link.buffered < MAX_UNREAD_BYTES) send(text);
    },
  };
  const session = new McpSession(requests, exchange.notify);
  let reading = true;
  /** Stops reading from a client that does not read its replies. */
  const slowDown = (): void => {
    if (!reading || link.buffered < MAX_UNREAD_BYTES) return;
    reading = false;
    link.pause(true);
    void link.drained(MAX_UNREAD_BYTES / 2).then(() => {
      reading = true;
      link.pause(false);
    });
  };
  link.open({
    message(message) {
      let received: Received;
      try {
        received = readMessage(message as string);
      } catch {
        return send(errorText(null, PARSE_ERROR, 'the line is not JSON'));
      }
      session.receive(received, exchange);
      slowDown();
    },
    malformed({ reason, limit }) {
      const text = reason === 'too_large' ? `the message exceeds ${limit} bytes` : 'the line is not UTF-8';
      send(errorText(null, reason === 'too_large' ? INVALID_REQUEST : PARSE_ERROR, text));
    },
    async ended() {
      for (let left = LAST_REPLIES_MS; left > 0 && session.running > 0; left -= CHECK_MS) await sleep(CHECK_MS);
      session.close();
      await link.close('the client closed its end');
    },
    closed(cause) {
      session.close();
      resolve(cause);
    },
  });
  return promise;
}

/** Time for requests that run when the client closes its end, milliseconds. Clients end a server that stays for longer. */
const LAST_REPLIES_MS = 1_000;
const CHECK_MS = 10;

/** Bytes that a client may leave unread. */
const MAX_UNREAD_BYTES = 4 * 1024 * 1024;
