/**
 * The bare loop: parses, replies and checks nothing.
 */
import { serveCarriers } from '../contenders/carriers.ts';
import type { Served } from '../contenders/contender.ts';
import { servePosts } from '../contenders/http-loop.ts';
import { echoed, INFO, type Way } from './echo.ts';

interface CallMessage {
  readonly id?: number;
  readonly method: string;
  readonly params: { readonly protocolVersion?: string; readonly arguments: object };
}

/** Returns the text of a reply; undefined for a message without one. */
function bareAnswer(text: string): string | undefined {
  const { id, method, params } = JSON.parse(text) as CallMessage;
  if (id === undefined) return undefined;
  const result =
    method === 'initialize'
      ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: INFO }
      : echoed(params.arguments);
  return JSON.stringify({ jsonrpc: '2.0', id, result });
}

export async function serve(way: Way): Promise<Served> {
  if (way === 'stdio') {
    return serveCarriers('stdio', false, (carrier) => {
      carrier.receive((text) => {
        const answer = bareAnswer(text);
        if (answer !== undefined) carrier.send(answer);
      });
    });
  }
  return servePosts((body, _send, last) => last(bareAnswer(body) ?? ''));
}
