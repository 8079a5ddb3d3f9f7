/**
 * The rehearsal backend: runs turns without a model, so that clients, policies and tools can be tried before a provider
 * is configured. It follows directives in plain English and really calls the tools.
 *
 * It is the default until a model is configured, and its first answer explains it.
 * @see docs/protocol/session-rpc.md#rehearsal
 */

import type { Backend } from '../../contract/backend.ts';
import type { Environments } from '../../rounds/environments.ts';
import { withPlan } from '../../rounds/plan.ts';
import { withQuestions } from '../../rounds/questions.ts';
import { runRounds } from '../../rounds/rounds.ts';
import { withApprovals } from '../../rounds/with-approvals.ts';
import { type RehearsalOptions, rehearsalModel } from './rehearsal-model.ts';

/** @param environments where the tools of each session are; shared with the other backends and stopped by their owner */
export function rehearsalBackend(environments: Environments, options: RehearsalOptions = {}): Backend {
  const model = rehearsalModel(options);
  return {
    name: 'rehearsal',
    label: 'Rehearsal: follows simple directives, without a model',
    continues: true,
    preflight() {},
    modelOf: () => null,
    run(turn) {
      const { cwd, principal, log } = turn;
      const { id } = log.record;
      const tools = environments.for(id, { cwd, principal }, turn);
      const planned = withPlan(withApprovals(tools, turn), turn, (entries, signal) =>
        environments.putPlan(id, { cwd, principal }, entries, signal),
      );
      return runRounds(turn, model, withQuestions(planned, turn));
    },
    release: (sessionId) => environments.release(sessionId),
  };
}
