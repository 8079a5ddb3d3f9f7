/**
 * The `fleet.*` methods of session RPC, served by an orchestrator. With `fleet.submit` a principal hands tasks in, and reads
 * and cancels its own; tasks of others do not exist for it. Everything else is for `fleet.operate`.
 *
 * @see docs/security/rights.md
 */
import { type Handled, handles, type RpcCall } from '../../control/contract/handlers.ts';
import type { Orchestrator, WorkerView } from '../../fleet/orchestrator/orchestrator-options.ts';
import type { Submitter, TaskRecord, TaskSpec, TaskState } from '../../fleet/orchestrator/task.ts';
import { taskStream } from '../../fleet/orchestrator/task-journal.ts';
import { unknownTask } from '../../fleet/orchestrator/task-record.ts';
import { explanationTable } from '../../fleet/route/explain.ts';
import { waiting } from '../../host/waiting.ts';
import type { Gap, Journal, JournalEntry } from '../../journal/journal.ts';
import * as methods from '../../protocol/fleet-rpc.generated.ts';
import type { ResultOf, RpcMethod } from '../../protocol/rpc-reader.ts';
import { may } from '../../session/rights.ts';
import { fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';

/** Maximum `wait_ms` of a request. */
const MAX_WAIT_MS = 30_000;
const PAGE = 500;
/** The submitter of tasks that were stored without one: the name of no principal. */
const NO_SUBMITTER = '';

type Workers = ResultOf<typeof methods.fleetWorkers>['workers'];

/** A running request; its signal aborts also when the fleet starts to stop. */
type FleetCall = Pick<RpcCall, 'caller' | 'signal' | 'yieldSlot'>;

export interface FleetHandlerDeps {
  readonly name: string;
  readonly orchestrator: Orchestrator;
  readonly buses: readonly string[];
  readonly journal: Journal;
  /** Aborts when the fleet starts to stop; its reason is the error of every later call. */
  readonly stopping: AbortSignal;
}

export function fleetHandlers({ name, orchestrator, buses, journal, stopping }: FleetHandlerDeps): Handled[] {
  const { operates, submits, waits } = handlersUntil(stopping);
  /** Returns a task of the caller, or any for an operator; another one does not exist. */
  const taskFor = async (taskId: string, { caller }: FleetCall): Promise<TaskRecord> => {
    const record = await orchestrator.get(taskId);
    if (!may(caller.principal, 'submit', record.submitter ?? NO_SUBMITTER)) throw unknownTask(taskId);
    return record;
  };
  return [
    operates(methods.fleetStatus, () => ({ name, buses, counts: orchestrator.counts() })),
    operates(methods.fleetWorkers, () => ({ workers: orchestrator.workers().map(plain), down: orchestrator.down() })),
    operates(methods.workerDrain, async ({ peer_id, on }) => {
      await orchestrator.drain(peer_id, on ?? true);
      return { ok: true };
    }),
    submits(methods.taskSubmit, async ({ spec }, call) => ({
      task: await orchestrator.submit(specOf(spec), submitterOf(call)),
    })),
    submits(methods.taskSubmitBatch, async ({ specs }, call) => {
      if (!Array.isArray(specs))
        throw fail('schema_violation', '`specs` must be an array of tasks', { field: 'specs' });
      return { tasks: await orchestrator.submitBatch(specs.map(specOf), submitterOf(call)) };
    }),
    submits(methods.taskList, async ({ states, parked, batch, worker, before, limit }, call) => ({
      tasks: await orchestrator.find({
        ...(states && { states: states as TaskState[] }),
        ...(parked !== undefined && { parked }),
        ...(batch && { batch }),
        ...(worker && { worker }),
        ...(before !== undefined && { before }),
        ...(limit !== undefined && { limit }),
        ...(submitterOf(call).ownOnly && { submitter: submitterOf(call).name }),
      }),
    })),
    submits(methods.taskGet, async ({ task_id }, call) => ({ task: await taskFor(task_id, call) })),
    waits(methods.taskFollow, async ({ task_id, after = 0, wait_ms }, call) => {
      const { signal } = call;
      const stream = taskStream(await taskFor(task_id, call));
      const readPage = async () => {
        // Read the record first: the page read after it contains every event up to that state.
        const task = await orchestrator.get(task_id);
        const page = await journal.read(stream, after, PAGE);
        const last = page.entries.at(-1)?.cursor ?? page.gap?.to ?? after;
        return { page, last, complete: isEnded(task) && last >= page.last && !orchestrator.verifying(task_id) };
      };
      let read = await readPage();
      if (read.last === after && !read.complete) {
        await entryAfter(journal, stream, Math.max(after, read.page.last), waitOf(wait_ms), signal);
        read = await readPage();
      }
      const { page, last, complete } = read;
      return {
        entries: page.entries.map(({ cursor, ts, kind, body }) => ({ cursor, ts, kind, body: parsed(body) })),
        gap: page.gap === undefined ? null : { from: page.gap.from, to: page.gap.to },
        last,
        complete,
        task: await orchestrator.get(task_id),
      };
    }),
    waits(methods.taskResult, async ({ task_id, wait_ms }, call) => {
      const { signal } = call;
      await taskFor(task_id, call);
      const { record, ended } = await endOf(orchestrator, task_id, waitOf(wait_ms), signal);
      return { ended, task: record };
    }),
    submits(methods.taskCancel, async ({ task_id, reason }, call) => {
      await taskFor(task_id, call);
      return { task: await orchestrator.cancel(task_id, reason) };
    }),
    operates(methods.taskRetry, async ({ task_id, worker }) => ({
      task: await orchestrator.retry(task_id, worker),
    })),
    operates(methods.taskDrop, async ({ task_id, reason }) => ({
      task: await orchestrator.drop(task_id, reason),
    })),
    operates(methods.taskSteer, async ({ task_id, text }) => {
      await orchestrator.steer(task_id, text);
      return { ok: true };
    }),
    operates(methods.taskAnswer, async ({ task_id, question_id, allowed, content, reason }) => {
      await orchestrator.answer(task_id, question_id, { allowed, content, reason });
      return { ok: true };
    }),
    operates(methods.routeExplain, async ({ task_id, spec }) => {
      if ((task_id === undefined) === (spec === undefined)) {
        throw fail('schema_violation', 'pass either `task_id` or `spec`, not both', { field: 'task_id' });
      }
      const explanation = await orchestrator.explain(task_id ?? specOf(spec));
      return { explanation, table: explanationTable(explanation) };
    }),
  ];
}

/** Makes handlers for operators, and for submitters of tasks. */
function handlersUntil(stopping: AbortSignal) {
  const needing =
    (right: 'operate' | 'submit') =>
    <Params extends object, Result>(
      method: RpcMethod<Params, Result>,
      handle: (params: Params, call: FleetCall) => Result | Promise<Result>,
    ): Handled =>
      handles(
        method,
        async (params, call) => {
          stopping.throwIfAborted();
          const signal = AbortSignal.any([call.signal, stopping]);
          try {
            return await handle(params, { caller: call.caller, signal, yieldSlot: () => call.yieldSlot() });
          } catch (error) {
            // While the fleet stops, report that instead of an error caused by closing.
            throw stopping.aborted ? stopping.reason : error;
          }
        },
        right,
      );
  const submits = needing('submit');
  /** Wraps methods that may wait for the fleet: any number of tasks can be awaited on one connection. */
  const waits = <Params extends { readonly wait_ms?: number | undefined }, Result>(
    method: RpcMethod<Params, Result>,
    handle: (params: Params, call: FleetCall) => Promise<Result>,
  ): Handled =>
    submits(method, (params, call) =>
      (params.wait_ms ?? 0) > 0 ? waiting(call, handle(params, call)) : handle(params, call),
    );
  return { operates: needing('operate'), submits, waits };
}

/** Returns the caller as the submitter of tasks. */
const submitterOf = ({ caller: { principal } }: FleetCall): Submitter => ({
  name: principal.name,
  ownOnly: !may(principal, 'operate'),
});

function specOf(spec: unknown): TaskSpec {
  if (!isObject(spec)) {
    throw fail('schema_violation', '`spec` must be an object', { field: 'spec' });
  }
  return spec as unknown as TaskSpec;
}

/** Returns a worker as JSON; maps become objects. */
const plain = (value: WorkerView): Workers[number] =>
  JSON.parse(JSON.stringify(value, (_key, member) => (member instanceof Map ? Object.fromEntries(member) : member)));

const parsed = (body: string | object): unknown => (typeof body === 'string' ? JSON.parse(body) : body);

/** Returns the wait in whole milliseconds, as `AbortSignal.timeout` takes it. */
const waitOf = (waitMs: number | undefined): number => Math.min(MAX_WAIT_MS, Math.max(0, Math.floor(waitMs ?? 0)));

/** Returns whether the task has ended or waits for an operator. */
const isEnded = ({ parked, ended_at }: TaskRecord): boolean => parked || ended_at !== null;

/** Resolves with the first entry after the cursor `after`, or with undefined after `waitMs`. */
async function entryAfter(
  journal: Journal,
  stream: string,
  after: number,
  waitMs: number,
  signal: AbortSignal,
): Promise<JournalEntry | Gap | undefined> {
  if (waitMs === 0) return undefined;
  const bound = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
  for await (const entry of journal.follow(stream, after, bound)) return entry;
  return undefined;
}

/** Returns the record when the task has ended or is parked, or the record after `waitMs`. */
async function endOf(
  orchestrator: Orchestrator,
  taskId: string,
  waitMs: number,
  signal: AbortSignal,
): Promise<{ readonly record: TaskRecord; readonly ended: boolean }> {
  const bound = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
  try {
    return { record: (await orchestrator.result(taskId, bound)).record, ended: true };
  } catch (error) {
    if (!bound.aborted) throw error;
    const record = await orchestrator.get(taskId);
    return { record, ended: isEnded(record) };
  }
}
