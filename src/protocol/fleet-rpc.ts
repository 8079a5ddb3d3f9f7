/**
 * The methods by which people operate a fleet: additive to session RPC, announced in `methods` by servers that run an
 * orchestrator. Tasks, results and explanations travel as `fleet/` has them.
 *
 * Imported by `server/fleet/fleet-handlers.ts` and by the client, `bridge/fleet-client.ts`.
 * @see docs/fleet.md#operating-a-fleet
 */
import {
  anything,
  flag,
  optionalFlag,
  optionalNumber,
  optionalObject,
  optionalText,
  optionalTexts,
  rpcMethod,
  text,
} from './rpc-params.ts';

/** A task record, a decision, a worker: plain JSON whose shape is in `fleet/orchestrator/`. */
type Json = Readonly<Record<string, unknown>>;

const task_id = text;

export const fleetStatus = rpcMethod<{
  readonly name: string;
  readonly buses: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}>()('fleet.status', 'ignored', {}, 'How many tasks are in which state, and how many workers are there.');

export const fleetWorkers = rpcMethod<{ readonly workers: readonly Json[] }>()(
  'fleet.workers',
  'ignored',
  {},
  'Every worker as the orchestrator knows it now.',
);

export const workerDrain = rpcMethod<{ readonly ok: true }>()(
  'fleet.worker.drain',
  'required',
  { peer_id: text, on: optionalFlag },
  'No more tasks for a worker, or tasks again with `on: false`.',
);

export const taskSubmit = rpcMethod<{ readonly task: Json }>()(
  'fleet.task.submit',
  'required',
  { spec: optionalObject },
  'Takes a task; answered when it is on disk. The same `task_id` with the same content is the same task.',
);

export const taskSubmitBatch = rpcMethod<{ readonly tasks: readonly Json[] }>()(
  'fleet.task.submit_batch',
  'required',
  { specs: anything },
  'Takes many tasks, all or none; they may name each other in `after`.',
);

export const taskList = rpcMethod<{ readonly tasks: readonly Json[] }>()(
  'fleet.task.list',
  'optional',
  {
    states: optionalTexts,
    parked: optionalFlag,
    batch: optionalText,
    worker: optionalText,
    before: optionalNumber,
    limit: optionalNumber,
  },
  'Tasks, newest first; `before` is the `number` of the last one of the page before.',
);

export const taskGet = rpcMethod<{ readonly task: Json }>()(
  'fleet.task.get',
  'required',
  { task_id },
  'A task, whole.',
);

export const taskFollow = rpcMethod<{
  readonly entries: readonly {
    readonly cursor: number;
    readonly ts: number;
    readonly kind: string;
    readonly body: unknown;
  }[];
  readonly gap: { readonly from: number; readonly to: number } | null;
  /** Cursor to go on after. */
  readonly last: number;
  /** It has ended or was parked, and nothing is or will be behind `last`. */
  readonly complete: boolean;
  readonly task: Json;
}>()(
  'fleet.task.follow',
  'required',
  { task_id, after: optionalNumber, wait_ms: optionalNumber },
  'What happened to a task after a cursor; waits up to `wait_ms` (at most 30,000) for something to happen.',
);

export const taskResult = rpcMethod<{ readonly ended: boolean; readonly task: Json }>()(
  'fleet.task.result',
  'required',
  { task_id, wait_ms: optionalNumber },
  'A task once it has ended, or was parked, or as it is after `wait_ms` (at most 30,000).',
);

export const taskCancel = rpcMethod<{ readonly task: Json }>()(
  'fleet.task.cancel',
  'required',
  { task_id, reason: optionalText },
  'Stops a task wherever it is.',
);

export const taskRetry = rpcMethod<{ readonly task: Json }>()(
  'fleet.task.retry',
  'required',
  { task_id, worker: optionalText },
  'Tries a parked or ended task again, by a certain worker if one is named.',
);

export const taskDrop = rpcMethod<{ readonly task: Json }>()(
  'fleet.task.drop',
  'required',
  { task_id, reason: optionalText },
  'Ends a parked task for good.',
);

export const taskSteer = rpcMethod<{ readonly ok: true }>()(
  'fleet.task.steer',
  'required',
  { task_id, text },
  'Says something to a running task.',
);

export const taskAnswer = rpcMethod<{ readonly ok: true }>()(
  'fleet.task.answer',
  'required',
  { task_id, question_id: text, allowed: flag, content: optionalObject, reason: optionalText },
  'Answers a question of a running task.',
);

export const routeExplain = rpcMethod<{ readonly explanation: Json; readonly table: string }>()(
  'fleet.route.explain',
  'required',
  { task_id: optionalText, spec: optionalObject },
  'Where a task would go now, and why; for one that was submitted or one that is only described.',
);

/** Every method, by name. */
export const fleetRpcMethods = Object.freeze({
  fleetStatus,
  fleetWorkers,
  workerDrain,
  taskSubmit,
  taskSubmitBatch,
  taskList,
  taskGet,
  taskFollow,
  taskResult,
  taskCancel,
  taskRetry,
  taskDrop,
  taskSteer,
  taskAnswer,
  routeExplain,
});
