/**
 * The contenders of `handfast rpc`: `ping-process.ts bare|limit|vscode-jsonrpc stdio|websocket`. Replies to every
 * request like a ping. On a WebSocket the port is the first line of its output; it ends with its input.
 *
 * `bare` is JSON.parse, JSON.stringify and one write a reply; `limit` writes the replies of a turn of the event loop at
 * once and formats the time once a millisecond; `vscode-jsonrpc` has its own reader, writer and dispatch.
 */
import { createMessageConnection, RequestType0, StreamMessageReader, StreamMessageWriter } from 'vscode-jsonrpc/node';
import { serveCarriers } from '../contenders/carriers.ts';

interface Pong {
  readonly ok: true;
  readonly time: string;
}

const pong = (): Pong => ({ ok: true, time: new Date().toISOString() });

let latest = { ms: 0, pong: pong() };
function pongOfMillisecond(): Pong {
  const ms = Date.now();
  if (ms !== latest.ms) latest = { ms, pong: pong() };
  return latest.pong;
}

async function serveLoop(transport: 'stdio' | 'websocket', coalesced: boolean): Promise<void> {
  const result = coalesced ? pongOfMillisecond : pong;
  const { port } = await serveCarriers(transport, coalesced, (carrier) => {
    carrier.receive((text) => {
      const { id } = JSON.parse(text) as { id: number };
      carrier.send(JSON.stringify({ jsonrpc: '2.0', id, result: result() }));
    });
  });
  if (port === undefined) return;
  process.stdin.resume().on('end', () => process.exit(0));
  process.stdout.write(`${port}\n`);
}

function serveVscode(): void {
  const connection = createMessageConnection(
    new StreamMessageReader(process.stdin),
    new StreamMessageWriter(process.stdout),
  );
  connection.onRequest('rpc.handshake', () => ({ protocol_version: '1.0.0' }));
  connection.onRequest(new RequestType0<Pong, void>('system.ping'), pong);
  connection.listen();
}

const [name, transport] = process.argv.slice(2);
if (name === 'vscode-jsonrpc') serveVscode();
else await serveLoop(transport as 'stdio' | 'websocket', name === 'limit');
