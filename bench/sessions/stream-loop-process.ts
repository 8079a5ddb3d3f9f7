/**
 * The yardstick of the stream: `stream-loop-process.ts bare|limit`. For every chunk JSON.stringify once and a write to
 * every connection; `limit` writes the chunks of a turn at once. No journal, no session, no bounds.
 *
 * Any connection starts a turn by a script; those that sent `subscribe` get its events.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Carrier, serveCarriers } from '../contenders/carriers.ts';
import { chunkText } from './chunk-text.ts';
import type { Script } from './control-process.ts';
import type { StreamAnswer, StreamHello } from './stream.ts';

const SESSION = crypto.randomUUID();
const TURN = crypto.randomUUID();

const subscribers = new Set<Carrier>();

function tell(type: string, payload: object, seq: number): void {
  const text = JSON.stringify({
    jsonrpc: '2.0',
    method: 'event',
    params: {
      type,
      timestamp: new Date().toISOString(),
      payload: { session_id: SESSION, turn_id: TURN, ...payload },
      seq,
    },
  });
  for (const carrier of subscribers) carrier.send(text);
}

async function play({ chunks, burst }: Script): Promise<void> {
  for (let index = 0; index < chunks; index++) {
    const text = chunkText(index);
    const chunk = { thoughts: [], answerText: text, segments: [{ kind: 'answer', text }] };
    tell('session.stream.chunk', { chunk }, index + 1);
    if ((index + 1) % burst === 0) await nextTurn();
  }
  tell('session.completed', {}, chunks + 1);
}

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: Script;
}

const { port = 0 } = await serveCarriers('tcp', process.argv[2] === 'limit', (carrier) => {
  carrier.receive((text) => {
    const { id, method, params } = JSON.parse(text) as Request;
    carrier.send(JSON.stringify({ jsonrpc: '2.0', id, result: {} }));
    if (method === 'subscribe') subscribers.add(carrier);
    else if (method === 'unsubscribe') subscribers.delete(carrier);
    else if (method === 'play') void play(params);
  });
});

process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuUs: user + system, serialised: 0 } satisfies StreamAnswer);
});
process.on('disconnect', () => process.exit(0));
process.send?.({ port } satisfies StreamHello);
