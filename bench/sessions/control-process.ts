/**
 * The control edge on a TCP port, with a backend whose output its prompt scripts:
 * `control-process.ts HOME sqlite|memory`, forked by `stream.ts` and `open.ts`. It reports its usage, and how often it
 * serialised chunks.
 *
 * It is assembled like `handfast rpc`, from the compiled modules, without the parts that a scripted turn does not need.
 */
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type * as ControlServers from '../../src/control/control-server.ts';
import type * as Memory from '../../src/journal/memory.ts';
import type * as Sqlite from '../../src/journal/sqlite/sqlite.ts';
import type * as Sockets from '../../src/transport/socket.ts';
import { built } from '../contenders/built.ts';
import { chunkText } from './chunk-text.ts';
import type { StreamAnswer, StreamHello, StreamQuestion } from './stream.ts';

/** The script of a prompt: a number of chunks, with a turn of the event loop for other work after every `burst` of them. */
export interface Script {
  readonly chunks: number;
  readonly burst: number;
}

const { createControlServer } = await built<typeof ControlServers>('control/control-server');
const { listenTcp } = await built<typeof Sockets>('transport/socket');

const [home = '', kind = ''] = process.argv.slice(2);

/**
 * Sessions stored whole, as `handfast rpc` does. In memory the bound is above everything that the benchmark stores at
 * once.
 */
const retention = { maxEntries: 1_000_000, maxBytes: 1024 ** 3 };

async function journalOf() {
  if (kind === 'memory') {
    const { memoryJournal } = await built<typeof Memory>('journal/memory');
    return memoryJournal({ retention });
  }
  const { sqliteJournal } = await built<typeof Sqlite>('journal/sqlite/sqlite');
  return sqliteJournal({ file: join(home, 'sessions.journal.db'), retention });
}

const journal = await journalOf();
const { rpc } = await createControlServer({
  home,
  journal,
  storeFile: kind === 'memory' ? ':memory:' : join(home, 'sessions.db'),
  openEnvironment: () => Promise.reject(new Error('a scripted turn has no tools')),
  checkContent: async () => undefined,
  backend: 'scripted',
  backends: [
    {
      name: 'scripted',
      label: 'says what its prompt asks for',
      continues: false,
      preflight() {},
      modelOf: () => null,
      async run(turn) {
        const { chunks, burst } = JSON.parse(turn.prompt.text) as Script;
        let answer = '';
        for (let index = 0; index < chunks; index++) {
          const text = chunkText(index);
          answer += text;
          turn.answer(text);
          if ((index + 1) % burst === 0) await nextTurn();
        }
        turn.log.remember([{ role: 'assistant', turn: turn.id, text: answer }]);
        return { stopReason: 'end_turn' };
      },
    },
  ],
  cwd: home,
  env: { HOME: home, HANDFAST_KEYRING: 'off' },
  log: { debug() {}, info() {}, warn: console.warn, error: console.error },
});

const listener = await listenTcp({ port: 0 }, (link) => rpc.accept(link));

/** Counts from now on how often chunks are turned into text. The count costs time, so it is off while time is measured. */
function countChunks(): () => number {
  const { stringify } = JSON;
  let counted = 0;
  JSON.stringify = (...args: unknown[]) => {
    const text = stringify(...(args as Parameters<typeof stringify>));
    if (typeof text === 'string' && text.includes('"answerText"')) counted++;
    return text;
  };
  return () => {
    JSON.stringify = stringify;
    return counted;
  };
}

let counting: (() => number) | undefined;

function answerOf(question: StreamQuestion): StreamAnswer {
  if (question === 'count') counting = countChunks();
  const { user, system } = process.cpuUsage();
  const serialised = question === 'counted' ? counting?.() : undefined;
  return { cpuUs: user + system, serialised: serialised ?? 0 };
}

process.on('message', (question: StreamQuestion) => process.send?.(answerOf(question)));
process.on('disconnect', () => {
  void rpc
    .stop('the benchmark is over')
    .then(() => listener.close())
    .then(() => journal.close())
    .finally(() => process.exit(0));
});
process.send?.({ port: Number(new URL(listener.address).port) } satisfies StreamHello);
