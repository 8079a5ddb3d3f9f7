/**
 * Tasks as sessions of the control edge: each task that a worker starts is the turn of a session, where clients watch it, steer
 * it, interrupt it and answer the questions of its worker. A further prompt of such a session is a further task of its
 * conversation.
 *
 * They are made before the control server exists; `open` connects the two.
 * @see docs/fleet.md#a-task-as-a-session
 */
import { isLogged, type Log } from '../../base/log.ts';
import { within } from '../../base/race.ts';
import type { Backend, Turn, TurnOutcome } from '../../control/contract/backend.ts';
import type { RpcCall } from '../../control/contract/handlers.ts';
import type { ControlServer } from '../../control/control-server.ts';
import type { Orchestrator, OrchestratorOptions } from '../../fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord } from '../../fleet/orchestrator/task.ts';
import { taskStream } from '../../fleet/orchestrator/task-journal.ts';
import type { Journal, JournalEntry } from '../../journal/journal.ts';
import type { TaskQuestion } from '../../protocol/fleet.ts';
import type { ResultOf } from '../../protocol/rpc-reader.ts';
import { sessionCreate, sessionDelete, sessionList, sessionSend } from '../../protocol/session-rpc.ts';
import type { Approval } from '../../protocol/session-types.ts';
import { LOCAL_PRINCIPAL } from '../../session/auth.ts';
import { may, must } from '../../session/rights.ts';
import { asError, fail } from '../../wire/errors.ts';

type Answer = Awaited<ReturnType<NonNullable<OrchestratorOptions['askUser']>>>;

export interface TaskSessionsOptions {
  /** Name of the fleet. */
  readonly name: string;
  /** Sessions of ended tasks that stay; 0: a task gets a session only when its worker asks something. */
  readonly keep: number;
  /** Journal of the events of tasks. */
  readonly journal: Journal;
  readonly log: Log;
}

/** A task and its session. */
interface TaskSession {
  readonly session: Promise<string>;
  /** The turn that follows the task, once it runs. */
  readonly turn: PromiseWithResolvers<Turn>;
}

/** The name of the backend of these sessions. */
const BACKEND = 'fleet';
const TITLE_CHARACTERS = 80;
/** Time between two looks whether the user of a turn has steered, milliseconds. */
const STEER_MS = 100;
const PAGE = 200;
/** Time for the events of an ended task to be read, milliseconds. */
const LAST_EVENTS_MS = 2_000;

export class TaskSessions {
  readonly #options: TaskSessionsOptions;
  /** Sessions by task, while it has not ended. */
  readonly #open = new Map<string, TaskSession>();
  /** Sessions whose first turn follows an existing task. */
  readonly #bound = new Map<string, string>();
  /** Conversation of each session, for its further tasks. */
  readonly #contexts = new Map<string, string>();
  /** Sessions of ended tasks, the oldest first. */
  readonly #ended = new Set<string>();
  #control: ControlServer | undefined;
  #orchestrator: Orchestrator | undefined;
  #failures = 0;

  constructor(options: TaskSessionsOptions) {
    this.#options = options;
  }

  /** The backend of these sessions. */
  get backend(): Backend {
    return {
      name: BACKEND,
      label: 'Fleet: each prompt is a task',
      continues: false,
      preflight() {},
      modelOf: () => null,
      run: (turn) => this.#run(turn),
      release: (session) => {
        this.#ended.delete(session);
        this.#contexts.delete(session);
      },
    };
  }

  /** Connects tasks with the server of sessions. Sessions of earlier processes count among those that stay. */
  async open(control: ControlServer, orchestrator: Orchestrator): Promise<void> {
    this.#control = control;
    this.#orchestrator = orchestrator;
    const before: string[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = (await this.#call(sessionList.name, {
        include_closed: true,
        limit: PAGE,
        ...(cursor !== undefined && { cursor }),
      })) as ResultOf<typeof sessionList>;
      for (const { session_id, backend } of page.sessions) if (backend === BACKEND) before.push(session_id);
      if (page.next_cursor === null) break;
      cursor = page.next_cursor;
    }
    for (const session of before.toReversed()) this.#ended.add(session);
    await this.#forget();
  }

  /** Returns the session of a task whose worker has started it; undefined where it gets none. Never rejects. */
  async sessionOf(task: TaskRecord): Promise<string | undefined> {
    if (this.#options.keep === 0 || this.#control === undefined) return undefined;
    try {
      return await this.#ensure(task).session;
    } catch (thrown) {
      this.#failures += 1;
      if (isLogged(this.#failures)) {
        const { message } = asError(thrown);
        this.#options.log.warn('a task got no session', {
          task_id: task.task_id,
          error: message,
          times: this.#failures,
        });
      }
      return undefined;
    }
  }

  /** Puts a question of a worker to the user, in the session of its task. Rejects with the signal's reason. */
  async ask(question: TaskQuestion, task: TaskRecord, signal: AbortSignal): Promise<Answer> {
    if (this.#control === undefined) throw fail('server_error', 'the control server has not started yet');
    const { session, turn } = this.#ensure(task);
    await session;
    const { kind, title, tool, risks = [], schema, expires_s } = question;
    const approval: Approval = await (await turn.promise).ask(
      {
        kind,
        title: `${task.task_id} at ${task.worker ?? 'no worker'}: ${title}`,
        ...(tool !== undefined && { tool: { ...tool, call_id: question.question_id } }),
        risks,
        ...(schema !== undefined && { schema }),
        ...(expires_s !== undefined && { timeoutMs: expires_s * 1000 }),
      },
      signal,
    );
    signal.throwIfAborted();
    const { state, answer, answered_by: by, reason } = approval;
    return {
      task_id: task.task_id,
      question_id: question.question_id,
      allowed: state === 'allowed',
      ...(answer?.content !== undefined && { content: answer.content }),
      ...(state !== 'allowed' && { reason: reason || `${state}${by === undefined ? '' : ` by ${by}`}` }),
    };
  }

  #ensure(task: TaskRecord): TaskSession {
    const known = this.#open.get(task.task_id);
    if (known !== undefined) return known;
    const turn = Promise.withResolvers<Turn>();
    turn.promise.catch(() => {});
    const session = this.#create(task);
    const made = { session, turn };
    this.#open.set(task.task_id, made);
    session.catch((error) => {
      this.#open.delete(task.task_id);
      turn.reject(error);
    });
    return made;
  }

  async #create(task: TaskRecord): Promise<string> {
    const { task_id, spec } = task;
    const [line = ''] = spec.brief.trimStart().split('\n', 1);
    const title = `${task_id}: ${line}`.slice(0, TITLE_CHARACTERS);
    const created = (await this.#call(sessionCreate.name, { title, backend: BACKEND })) as { session_id: string };
    const { session_id } = created;
    this.#bound.set(session_id, task_id);
    this.#contexts.set(session_id, spec.context_id ?? task_id);
    await this.#call(sessionSend.name, { session_id, text: spec.brief });
    return session_id;
  }

  async #run(turn: Turn): Promise<TurnOutcome> {
    const orchestrator = this.#orchestrator;
    if (orchestrator === undefined) throw fail('interrupted', 'the fleet has not started yet');
    const { log, signal } = turn;
    const session = log.record.id;
    const task = await this.#taskOf(turn, orchestrator);
    const { task_id } = task;
    const over = new AbortController();
    const following = this.#follow(task, turn, over.signal);
    const steering = setInterval(() => void steer(orchestrator, task_id, turn), STEER_MS);
    try {
      this.#open.get(task_id)?.turn.resolve(turn);
      const { record } = await orchestrator.result(task_id, signal);
      // Its last events may be on their way.
      await within(following, LAST_EVENTS_MS);
      return outcomeOf(record, turn);
    } catch (error) {
      if (!signal.aborted) throw error;
      // Closing a session, or the server, ends no task.
      if (asError(signal.reason).detail.stop_reason === 'interrupted') {
        await orchestrator.cancel(task_id, 'interrupted in its session');
      }
      return { stopReason: 'interrupted' };
    } finally {
      over.abort();
      clearInterval(steering);
      this.#open.get(task_id)?.turn.reject(fail('cancelled', 'the turn of the task has ended'));
      this.#open.delete(task_id);
      this.#ended.add(session);
      void this.#forget();
    }
  }

  /** Returns the task a turn is about: the one that its session was made for, else a new one of the same conversation. */
  async #taskOf({ log, prompt, principal }: Turn, orchestrator: Orchestrator): Promise<TaskRecord> {
    const session = log.record.id;
    const bound = this.#bound.get(session);
    if (bound !== undefined) {
      this.#bound.delete(session);
      return orchestrator.get(bound);
    }
    must(principal, 'submit', principal.name);
    const context_id = this.#contexts.get(session) ?? session;
    const submitter = { name: principal.name, ownOnly: !may(principal, 'operate') };
    const task = await orchestrator.submit({ brief: prompt.text, context_id }, submitter);
    // Its start must not make another session.
    const turn = Promise.withResolvers<Turn>();
    turn.promise.catch(() => {});
    this.#open.set(task.task_id, { session: Promise.resolve(session), turn });
    return task;
  }

  /** Shows the events of a task in its session, past and new ones, until `signal` aborts. Never rejects. */
  async #follow(task: TaskRecord, turn: Turn, signal: AbortSignal): Promise<void> {
    let shown = '';
    try {
      for await (const entry of this.#options.journal.follow(taskStream(task), 0, signal)) {
        if ('from' in entry) continue;
        if (entry.kind === 'ended' || entry.kind === 'parked') return;
        const line = lineOf(entry);
        if (line === undefined || line === shown) continue;
        shown = line;
        turn.thought(`${line}\n`);
        // Behind it, because a thought has a separate status.
        turn.status(line);
      }
    } catch (thrown) {
      if (!signal.aborted) this.#options.log.warn('events of a task could not be shown', { error: thrown });
    }
  }

  /** Deletes sessions of ended tasks beyond those that stay. Never rejects. */
  async #forget(): Promise<void> {
    const { keep, log } = this.#options;
    for (const session_id of [...this.#ended].slice(0, Math.max(0, this.#ended.size - Math.max(1, keep)))) {
      this.#ended.delete(session_id);
      this.#contexts.delete(session_id);
      await this.#call(sessionDelete.name, { session_id }).catch((thrown) =>
        log.debug('a session of a task could not be deleted', { session_id, error: asError(thrown).message }),
      );
    }
  }

  #call(method: string, params: Readonly<Record<string, unknown>>): Promise<unknown> {
    if (this.#control === undefined) throw fail('server_error', 'the control server has not started yet');
    const call: RpcCall = {
      caller: {
        connectionId: 'fleet',
        principal: LOCAL_PRINCIPAL,
        clientName: 'fleet',
        clientVersion: null,
        transport: 'memory',
      },
      signal: new AbortController().signal,
      yieldSlot: () => () => {},
      afterAnswer: (work) => queueMicrotask(work),
      replay: () => Promise.reject(fail('runtime_error', 'the fleet cannot replay events of sessions')),
    };
    return this.#control.rpc.callMethod(method, params, call);
  }
}

/** Forwards the user's messages since the last call. Never rejects. */
async function steer(orchestrator: Orchestrator, taskId: string, turn: Turn): Promise<void> {
  if (turn.log.record.steers.length === 0) return;
  for (const text of turn.takeSteers()) {
    try {
      await orchestrator.steer(taskId, text);
    } catch (thrown) {
      turn.thought(`not steered: ${asError(thrown).message}\n`);
    }
  }
}

/** Returns the outcome of a turn from the end of its task. Throws the error of a task that is not done. */
function outcomeOf({ state, parked, result, dead_letter, attempts }: TaskRecord, turn: Turn): TurnOutcome {
  const text = result?.prose || result?.summary || '';
  if (text !== '') turn.answer(text);
  if (state === 'done') return { stopReason: 'end_turn' };
  if (state === 'canceled') return { stopReason: 'interrupted' };
  if (state === 'partial') {
    const left = (result?.next_steps ?? []).map((step) => `- ${step}`).join('\n');
    turn.answer(`${text === '' ? '' : '\n\n'}Remaining steps:\n${left}`);
    return { stopReason: 'end_turn' };
  }
  const why = result?.error_summary ?? result?.blocked_reason ?? dead_letter ?? attempts.at(-1)?.reason ?? '';
  const about = `the task is ${state}${parked ? ' and waits for an operator' : ''}`;
  throw fail('tool_error', why === '' ? about : `${about}: ${why}`);
}

/** Returns an event of a task in a line; undefined for events that its session shows by other means. */
function lineOf({ kind, body }: JournalEntry): string | undefined {
  const about = (typeof body === 'string' ? JSON.parse(body) : body) as Readonly<Record<string, unknown>>;
  const text = (key: string): string => (typeof about[key] === 'string' ? (about[key] as string) : '');
  switch (kind) {
    case 'decided':
      return text('sentence') || undefined;
    case 'running':
      return `running at ${text('worker')}`;
    case 'progress': {
      const percent = typeof about.percent === 'number' ? ` ${about.percent} %` : '';
      return text('note') === '' ? undefined : `${text('note')}${percent}`;
    }
    case 'blocked':
    case 'released':
    case 'lost':
    case 'requeued':
      return `${kind}${text('worker') && ` by ${text('worker')}`}${text('reason') && `: ${text('reason')}`}`;
    default:
      return undefined;
  }
}
