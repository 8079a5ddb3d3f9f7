/**
 * The methods with which people operate a fleet, as schemas: additive to session RPC, announced in `methods` by servers
 * that run an orchestrator.
 *
 * The method values are in `fleet-rpc.generated.ts`.
 * @see docs/fleet.md#operating-a-fleet
 */
import { Type, type Wire } from '../wire/schema.ts';
import { BusOutage, Explanation, TaskRecord, TaskSpec, WorkerEntry } from './fleet-records.schema.ts';
import {
  anything,
  flagParam,
  optional,
  optionalFlag,
  optionalNumber,
  optionalObject,
  optionalText,
  optionalTexts,
  proseParam,
  rpcMethod,
  textParam,
} from './rpc-shapes.schema.ts';
import { flag, may, number, orNull, text } from './shapes.schema.ts';

const list = Type.Array;
const object = Type.Object;
const task_id = textParam();
const ok = object({ ok: Type.Literal(true) });
const ofTask = object({ task: TaskRecord });
const spec = optional<Wire<typeof TaskSpec>>({ ...TaskSpec, type: ['object', 'null'] });

export const fleetStatus = rpcMethod(
  'fleet.status',
  'How many tasks are in which state, and how many workers are connected.',
)
  .anyParams()
  .returns(
    object({
      name: text(),
      buses: list(text()),
      counts: Type.Unsafe<Readonly<Record<string, number>>>({
        type: 'object',
        additionalProperties: { type: 'number' },
      }),
    }),
  );

export const fleetWorkers = rpcMethod('fleet.workers', 'Every worker as the orchestrator knows it now.')
  .anyParams()
  .returns(object({ workers: list(WorkerEntry), down: may(list(BusOutage)) }));

export const workerDrain = rpcMethod(
  'fleet.worker.drain',
  'No more tasks for a worker, or tasks again with `on: false`.',
)
  .params({ peer_id: textParam(), on: optionalFlag() })
  .returns(ok);

export const taskSubmit = rpcMethod(
  'fleet.task.submit',
  'Accepts a task; completes when it is on disk. The same `task_id` with the same content is the same task.',
)
  .params({ spec })
  .returns(ofTask);

export const taskSubmitBatch = rpcMethod(
  'fleet.task.submit_batch',
  'Accepts many tasks, all or none; they may name each other in `after`.',
)
  .params({ specs: anything() })
  .returns(object({ tasks: list(TaskRecord) }));

export const taskList = rpcMethod(
  'fleet.task.list',
  'Tasks, newest first; `before` is the `number` of the last one of the page before.',
)
  .optionalParams({
    states: optionalTexts(),
    parked: optionalFlag(),
    batch: optionalText(),
    worker: optionalText(),
    before: optionalNumber(),
    limit: optionalNumber(),
  })
  .returns(object({ tasks: list(TaskRecord) }));

export const taskGet = rpcMethod('fleet.task.get', 'A task, whole.').params({ task_id }).returns(ofTask);

export const taskFollow = rpcMethod(
  'fleet.task.follow',
  'The events of a task after a cursor; waits up to `wait_ms` (at most 30,000) for the next one.',
)
  .params({ task_id, after: optionalNumber(), wait_ms: optionalNumber() })
  .returns(
    object({
      entries: list(object({ cursor: number(), ts: number(), kind: text(), body: Type.Unknown() })),
      gap: orNull(object({ from: number(), to: number() })),
      last: number('The cursor to continue after.'),
      complete: flag('The task has ended or was parked, and nothing follows `last`.'),
      task: TaskRecord,
    }),
  );

export const taskResult = rpcMethod(
  'fleet.task.result',
  'A task once it has ended, or was parked, or as it is after `wait_ms` (at most 30,000).',
)
  .params({ task_id, wait_ms: optionalNumber() })
  .returns(object({ ended: flag(), task: TaskRecord }));

export const taskCancel = rpcMethod('fleet.task.cancel', 'Stops a task wherever it is.')
  .params({ task_id, reason: optionalText() })
  .returns(ofTask);

export const taskRetry = rpcMethod(
  'fleet.task.retry',
  'Tries a parked or ended task again, by a certain worker if one is named.',
)
  .params({ task_id, worker: optionalText() })
  .returns(ofTask);

export const taskDrop = rpcMethod('fleet.task.drop', 'Ends a parked task permanently.')
  .params({ task_id, reason: optionalText() })
  .returns(ofTask);

export const taskSteer = rpcMethod('fleet.task.steer', 'Adds input to a running task.')
  .params({ task_id, text: proseParam() })
  .returns(ok);

export const taskAnswer = rpcMethod('fleet.task.answer', 'Answers a question of a running task.')
  .params({
    task_id,
    question_id: textParam(),
    allowed: flagParam(),
    content: optionalObject(),
    reason: optionalText(),
  })
  .returns(ok);

export const routeExplain = rpcMethod(
  'fleet.route.explain',
  'Where a task would go now, and why; for one that was submitted or one that is only described.',
)
  .params({ task_id: optionalText(), spec })
  .returns(object({ explanation: Explanation, table: text() }));
