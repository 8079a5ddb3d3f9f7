/**
 * A process that is a worker on its stdin and stdout.
 */
import { workerOverStdio } from '../../../src/fleet/bus/stream/join.ts';
import { stdioLink } from '../../../src/transport/stdio.ts';
import { ScriptedWorker } from './scripted-worker.ts';
import { quiet } from './stream-links.ts';

const worker = new ScriptedWorker({ agentId: 'child-1', incarnation: `life-${process.pid}` });
await workerOverStdio(worker, stdioLink(), { log: quiet });
worker.close();
