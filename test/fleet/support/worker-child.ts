/**
 * A worker in a separate process that may be killed at any moment; its bus is the channel to the parent. Each turn is a real
 * program that writes down that it began, takes a while, and writes down that it ended.
 *
 * Its arguments are the folder of its home and the file of its deeds.
 */

import { programEnvironment, startProgram } from '../../../src/base/program.ts';
import type { ReplyChannel } from '../../../src/fleet/bus/reply-channel.ts';
import { WorkerMessageHandler } from '../../../src/fleet/bus/worker-messages.ts';
import type { Executor } from '../../../src/fleet/executors/executor.ts';
import { decodeValue } from '../../../src/fleet/messages/decode.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import type { FleetMessage, TaskResult } from '../../../src/protocol/fleet.ts';

const [home = '', deeds = ''] = process.argv.slice(2);
const say = (message: unknown): void => void process.send?.(message as object);
const silent = { debug() {}, info() {}, warn() {}, error() {} };

const executor: Executor = {
  kind: 'program',
  canSteer: false,
  canAsk: false,
  probe: async () => ({ present: true, detail: '' }),
  hasConversation: () => false,
  start({ taskId, contextId }, { signal, events, cwd }) {
    // The parent names the attempt in the context, since nothing else of a task may differ.
    const attempt = contextId.split('#')[1] ?? '?';
    const outcome = async () => {
      const script = 'echo "begin $1 $2 $$" >> "$3"; sleep 0.05; echo "end $1 $2 $$" >> "$3"';
      const program = await startProgram({
        argv: ['sh', '-c', script, 'turn', taskId, attempt, deeds],
        cwd,
        env: programEnvironment(),
        signal,
      });
      events.started(program.pid);
      const { code } = await program.ended;
      const text = JSON.stringify({ type: 'TASK_RESULT', protocol_version: '2.0', task_id: taskId, status: 'done' });
      return { text, ending: 'completed', exitCode: code, usage: { source: 'unknown' } } as const;
    };
    return { outcome: outcome() };
  },
  stop: async () => {},
};

const worker = await createWorker(
  { agentId: 'w-1', executor, cwd: home, home, tools: [], log: silent, maxConcurrent: 8 },
  { resendMs: 20 },
);
const deliveries = new Map<string, () => void>();
const outlet: ReplyChannel = {
  name: 'parent',
  features: new Set(['ack', 'poll'] as const),
  send: () => {},
  deliverResult: (result: TaskResult) =>
    new Promise<void>((resolve, reject) => {
      const id = result.envelope?.message_id ?? '';
      const timer = setTimeout(() => reject(new Error('not confirmed')), 500);
      deliveries.set(id, () => {
        clearTimeout(timer);
        resolve();
      });
      say(result);
    }),
};
const intake = new WorkerMessageHandler(worker);
process.on('message', (message: FleetMessage) => {
  if (message.type === 'TASK_ACK') {
    deliveries.get(message.envelope?.causation_id ?? '')?.();
    return;
  }
  const decoded = decodeValue(message);
  if (decoded.valid) void intake.receive(decoded.message, outlet, say);
});
process.on('disconnect', () => process.exit(0));
worker.attach(outlet);
await worker.start();
say({ type: 'ready' });
