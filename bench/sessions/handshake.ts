/**
 * `rpc-handshake`: from spawning a server until the reply to its handshake, milliseconds. Each process is new, its data
 * folder is not: the first start, which creates the databases, is not measured.
 */
import { once } from 'node:events';
import { contender as bare } from '../contenders/bare.ts';
import type { StartCommand } from '../contenders/contender.ts';
import { contender as vscode } from '../contenders/vscode-jsonrpc.ts';
import { bounded } from '../control.ts';
import { median } from '../workloads/workload.ts';
import { RPC_ARGS, type Scratch, startOnPipes, stopOnPipes } from './processes.ts';
import { ANSWER_WAIT_MS, HANDSHAKE, type Workload } from './workload.ts';

const FIGURE = 'rpc-handshake';

const handfast: StartCommand = {
  args: RPC_ARGS,
  opening: `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'rpc.handshake', params: HANDSHAKE })}\n`,
  answers: '"connection_id"',
};

async function startOnce({ args, opening, answers }: StartCommand, home: string): Promise<number> {
  const start = performance.now();
  const child = startOnPipes(args, home);
  try {
    child.stdin.on('error', () => {});
    child.stdin.write(opening);
    let answer = '';
    const ready = new Promise<number>((resolve, reject) => {
      child.stdout.on('data', (chunk: Buffer) => {
        answer += chunk.toString();
        if (answer.includes(answers)) resolve(performance.now() - start);
      });
      once(child, 'exit').then(() => reject(new Error(`the child ended early: ${answer}`)), reject);
    });
    return await bounded(ready, 'the child was not ready', ANSWER_WAIT_MS);
  } finally {
    await stopOnPipes(child);
  }
}

/** Measures cold starts of a child without imports, of `handfast rpc` and of a server on vscode-jsonrpc. */
export async function handshakes(scratch: Scratch): Promise<Workload> {
  const home = scratch.make();
  await startOnce(handfast, home);
  const commands = { bare: bare.start, handfast, 'vscode-jsonrpc': vscode.start };
  return {
    name: FIGURE,
    transport: 'stdio',
    figures: [{ name: FIGURE, unit: 'ms', lowerIsBetter: true }],
    contenders: Object.entries(commands).map(([name, command]) => ({
      name,
      async measure({ starts }) {
        if (command === undefined) throw new Error(`${name} has no start command`);
        const times: number[] = [];
        for (let count = 0; count < starts; count++) times.push(await startOnce(command, home));
        return { [FIGURE]: median(times) };
      },
    })),
    close: async () => {},
  };
}
