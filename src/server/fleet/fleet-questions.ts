/**
 * Turns questions of workers into approvals of the control edge, in a session that belongs to the fleet. A user answers them
 * with `handfast approve`, in the console, or with any client.
 *
 * Made by `fleet-assembly.ts` before the control server exists; `answeredBy` connects the two.
 */

import type { RpcCall } from '../../control/contract/handlers.ts';
import type { ControlServer } from '../../control/control-server.ts';
import type { OrchestratorOptions } from '../../fleet/orchestrator/orchestrator-options.ts';
import type { TaskRecord } from '../../fleet/orchestrator/task.ts';
import type { TaskQuestion } from '../../protocol/fleet.ts';
import { sessionCreate } from '../../protocol/session-rpc.ts';
import { LOCAL_PRINCIPAL } from '../../session/auth.ts';
import { fail } from '../../wire/errors.ts';

type Answer = Awaited<ReturnType<NonNullable<OrchestratorOptions['askUser']>>>;

export class FleetQuestions {
  readonly #name: string;
  #control: ControlServer | undefined;
  #session: Promise<string> | undefined;

  constructor(name: string) {
    this.#name = name;
  }

  answeredBy(control: ControlServer): void {
    this.#control = control;
  }

  /** Asks and waits. Rejects with the signal's reason. */
  async ask(question: TaskQuestion, task: TaskRecord, signal: AbortSignal): Promise<Answer> {
    const control = this.#control;
    if (control === undefined) throw fail('server_error', 'the control server has not started yet');
    this.#session ??= sessionFor(control, `fleet ${this.#name}`);
    const log = control.sessions.open(await this.#session);
    const { kind, title, tool, risks = [], schema, expires_s } = question;
    const approval = await control.approver.ask(
      log,
      task.task_id,
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
}

/** Creates the session of this name; each process makes a new one, because older questions have expired. */
async function sessionFor(control: ControlServer, title: string): Promise<string> {
  const call: RpcCall = {
    caller: {
      connectionId: 'fleet',
      principal: LOCAL_PRINCIPAL,
      clientName: 'fleet',
      clientVersion: null,
      transport: 'memory',
    },
    signal: new AbortController().signal,
    afterAnswer: (work) => queueMicrotask(work),
    replay: () => Promise.reject(fail('runtime_error', 'the session of the fleet cannot replay events')),
  };
  const created = (await control.rpc.callMethod(sessionCreate.name, { title, backend: 'rehearsal' }, call)) as {
    readonly session_id: string;
  };
  return created.session_id;
}
