/**
 * `start`: from spawning a stdio server until it has replied to the opening message of its protocol, milliseconds. The
 * yardstick is a Node child without imports that replies to one line.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { endChild } from '../contenders/carriers.ts';
import type { StartCommand } from '../contenders/contender.ts';
import { bounded } from '../control.ts';
import { median, type Workload } from './workload.ts';

const START_WAIT_MS = 15_000;
/** Fewest starts in one measurement. */
const STARTS = 3;

async function startOnce({ args, opening, answers }: StartCommand): Promise<number> {
  const start = performance.now();
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
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
    return await bounded(ready, 'the child was not ready', START_WAIT_MS);
  } finally {
    await endChild(child);
  }
}

export const start: Workload = {
  name: 'start',
  unit: 'ms',
  lowerIsBetter: true,
  transports: ['stdio'],
  contenders: ['bare', 'handfast', 'vscode-jsonrpc', '@agentclientprotocol/sdk', '@modelcontextprotocol/client'],
  fresh: false,
  async run(bench, { durationMs }) {
    const command = bench.contender.start;
    if (command === undefined) throw new Error(`${bench.contender.name} has no start command`);
    const times: number[] = [];
    const begin = performance.now();
    while (times.length < STARTS || performance.now() - begin < durationMs) times.push(await startOnce(command));
    return { value: median(times) };
  },
};
