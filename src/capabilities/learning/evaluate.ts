/**
 * Estimates from the log of a choice the reward of always choosing one option, or of another policy.
 *
 * A policy that learns is judged on decisions it did not learn from: it learns from the first half of the log, then stays
 * unchanged, and is estimated on the second half.
 */

import { Bandit } from '../../base/bandits/bandit.ts';
import { type Estimated, type EvaluatedRow, estimate } from '../../base/bandits/estimates.ts';
import { describePolicy, type PolicySettings } from '../../base/bandits/settings.ts';
import { counted } from '../../base/counted.ts';
import { suggest } from '../../base/suggest.ts';
import type { Body } from '../../protocol/method.ts';
import { fail } from '../../wire/errors.ts';
import type { DecisionRow } from './choices.ts';
import type { Estimate, LearnEvaluateReq, LearnEvaluateResp } from './messages.ts';

/** Fewer rows give no normal distribution. */
const FEW_ROWS = 100;

/** @param log the decisions, oldest first; those without a reward are not used */
export function evaluated(log: readonly DecisionRow[], request: Body<LearnEvaluateReq>): Body<LearnEvaluateResp> {
  const { option, policy, confidence = 0.95 } = request;
  if (option !== undefined) mustBeOffered(option, log);
  const notes: string[] = [];
  const rows = log.filter(({ reward }) => reward !== undefined);
  const learnedFrom = policy === undefined ? 0 : Math.floor(rows.length / 2);
  const target = targetOf(rows.slice(0, learnedFrom), option, policy);
  const judged = rows.slice(learnedFrom).map(
    (row): EvaluatedRow => ({
      option: row.option,
      options: row.options,
      logged: row.probabilities,
      target: target(row),
      reward: row.reward!,
      ...(row.features && { features: row.features }),
    }),
  );
  const estimates = estimate(judged, confidence);
  const { unsupported, effectiveRows } = estimates;
  const unrewarded = log.length - rows.length;
  if (unrewarded > 0) notes.push(`${counted(unrewarded, 'decision')} without a reward left out`);
  if (judged.length === 0) notes.push('there is nothing to estimate from: no decision in the log has a reward');
  else if (judged.length < FEW_ROWS)
    notes.push(`${judged.length} of ${FEW_ROWS} rows that the intervals need: they are too narrow`);
  if (unsupported > 0) {
    notes.push(
      `${(unsupported * 100).toFixed(1)} % of what it would choose had propensity 0 in the log; only dr says something of it, by its model. A policy with explore above 0 logs every option`,
    );
  }
  if (effectiveRows < judged.length / 20)
    notes.push('few rows carry most of the weight: prefer dr, and a log with more of this option');
  if (policy !== undefined)
    notes.push(
      `${describePolicy(policy)} learned from ${learnedFrom} earlier decisions and was not changed afterwards`,
    );
  return {
    estimates: (['ips', 'snips', 'dr'] as const).map((name) => onWire(name, estimates[name])),
    logged: onWire('logged', estimates.logged),
    rows: judged.length,
    learned_from: learnedFrom,
    effective_rows: effectiveRows,
    unsupported,
    notes,
  };
}

/** Throws for an option that no decision offered: it has no estimate, and is mostly a mistyped one. */
function mustBeOffered(option: string, log: readonly DecisionRow[]): void {
  const offered = new Set(log.flatMap(({ options }) => options));
  if (offered.size === 0 || offered.has(option)) return;
  const meant = suggest(option, offered);
  const which =
    meant === undefined ? `they offered ${[...offered].slice(0, 10).join(', ')}` : `did you mean "${meant}"?`;
  throw fail('schema_violation', `no decision in the log offered the option "${option}"; ${which}`, {
    path: '/option',
  });
}

/** Returns the probabilities that the evaluated policy or option gives to the options of a row. */
function targetOf(
  learned: readonly DecisionRow[],
  option: string | undefined,
  policy: PolicySettings | undefined,
): (row: DecisionRow) => ArrayLike<number> {
  if ((option === undefined) === (policy === undefined)) {
    throw fail('schema_violation', 'expected either option or policy', { path: '/option' });
  }
  if (policy === undefined) return ({ options }) => options.map((one) => (one === option ? 1 : 0));
  const bandit = Bandit.start(policy, 0);
  for (const { option: chosen, reward, features } of learned) bandit.learn(chosen, reward!, features);
  return (row) => bandit.probabilities(row);
}

const onWire = (estimator: string, { value, low, high, standardError }: Estimated): Estimate => ({
  estimator,
  value,
  low,
  high,
  standard_error: standardError,
});
