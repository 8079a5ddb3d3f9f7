/** A worker with a fault, on stdin and stdout. Usage: faulty-worker.ts FAULT PROGRAM WORDS… */
import { spawn } from 'node:child_process';
import { relay } from './faulty-relay.ts';
import { workerFaults } from './fleet-faults.ts';

const [name, program, ...words] = process.argv.slice(2);
const fault = workerFaults.find((one) => one.name.replaceAll(' ', '-') === name);
if (fault === undefined || program === undefined) throw new Error(`there is no fault ${name}`);
const worker = spawn(program, words, { stdio: ['pipe', 'pipe', 'ignore'] });
worker.stdin.on('error', () => {});
worker.once('exit', () => process.exit());
const drop = (): void => {
  worker.kill('SIGKILL');
};
relay(
  { readable: process.stdin, writable: process.stdout, drop: () => process.exit() },
  { readable: worker.stdout, writable: worker.stdin, drop },
  fault,
);
