/**
 * Refinements: edits of weights, policies and options that are proposed from the rewards, reviewed, applied together with a
 * copy of the former state, and rolled back exactly, generators included.
 *
 * Paths: `router.weights.<component>` (0 to 1, or null for none), `choices.<choice>.policy` (a policy),
 * `choices.<choice>.disabled` (names of options).
 * @see docs/learning.md#refinements
 */
import { isDeepStrictEqual } from 'node:util';
import { Bandit } from '../../base/bandits/bandit.ts';
import { describePolicy, type PolicySettings } from '../../base/bandits/settings.ts';
import { counted } from '../../base/counted.ts';
import type { Store } from '../../host/store/store.ts';
import type { Body } from '../../protocol/method.ts';
import { asError, fail } from '../../wire/errors.ts';
import { isObject } from '../../wire/json.ts';
import type { ChoiceSnapshot, Choices, LearningSource } from './choices.ts';
import { checkReward } from './choices.ts';
import type { Components } from './components.ts';
import * as checks from './learning.generated.ts';
import type { LearningLimits } from './limits.ts';
import type {
  LearnRefinementApplyResp,
  LearnRefinementReviewResp,
  LearnRefinementRollbackResp,
  OptionStats,
} from './messages.ts';
import { optionStats } from './recommend.ts';
import { StoredLog } from './stored-log.ts';

type Proposal = Readonly<Record<string, unknown>>;

/** One edit, as `plan` proposes it. A type and no interface, so that it is also a proposal of the wire. */
export type Edit = {
  readonly target: 'router_weight' | 'choice_policy' | 'choice_options';
  readonly op: 'update';
  readonly path: string;
  readonly old_value: unknown;
  readonly new_value: unknown;
  readonly confidence: number;
  readonly why: string;
};

/** The target of an edit, read from its path. */
type Place =
  | { readonly kind: 'weight'; readonly component: string }
  | { readonly kind: 'policy' | 'disabled'; readonly choice: string };

/** The state before a refinement. */
interface Before {
  /** Component → its weight, null for none. */
  readonly weights: Readonly<Record<string, number | null>>;
  readonly choices: Readonly<Record<string, ChoiceSnapshot>>;
}

interface Changing {
  readonly weights: Record<string, number | null>;
  readonly choices: Record<string, ChoiceSnapshot>;
}

interface StoredRefinement {
  readonly id: string;
  readonly edits: readonly Proposal[];
  readonly applied: number;
  readonly failed: number;
  readonly error: string;
  /** Epoch seconds. */
  readonly at: number;
  readonly rolledBackAt?: number;
}

/** The weight of a component that has none. */
const NEUTRAL_WEIGHT = 0.5;
/** Fewer rewards are no reason to propose a change. */
const LEAST_REWARDS = 10;
/** A weight is changed when it moves by more than this. */
const LEAST_CHANGE = 0.05;
/** An option is disabled when its probability to be best is below this. */
const HOPELESS = 0.001;

export class Refinements {
  readonly #store: Store;
  readonly #choices: Choices;
  readonly #components: Components;
  readonly #limits: LearningLimits;
  readonly #source: LearningSource;

  constructor(store: Store, choices: Choices, components: Components, limits: LearningLimits, source: LearningSource) {
    this.#store = store;
    this.#choices = choices;
    this.#components = components;
    this.#limits = limits;
    this.#source = source;
  }

  /** Returns proposals for one component, or for all. Not inside `atomically`. */
  plan(component: string, scope: string): Edit[] {
    const records = component === '' ? this.#components.list() : [this.#components.get(component)];
    const weights = records.flatMap((record) => {
      if (record === undefined || record.calls_total < LEAST_REWARDS) return [];
      const { component_name: name, calls_total: calls, calls_success: successes } = record;
      const share = round((successes + 1) / (calls + 2));
      const old = record.weight ?? NEUTRAL_WEIGHT;
      if (Math.abs(share - old) <= LEAST_CHANGE) return [];
      return [
        edit('router_weight', `router.weights.${name}`, old, share, {
          confidence: round(calls / (calls + LEAST_REWARDS)),
          why: `${successes} of ${counted(calls, 'call')} succeeded`,
        }),
      ];
    });
    if (scope !== 'global') return weights;
    return [...weights, ...this.#choicesWith(component).flatMap((choice) => this.#optionEdits(choice))];
  }

  /** Returns the names of choices that have a component as an option; of all for ''. */
  #choicesWith(component: string): string[] {
    const names = this.#choices.names();
    if (component === '') return names;
    return names.filter((name) => name === component || this.#choices.get(name)?.options.includes(component));
  }

  review(proposal: Proposal): Body<LearnRefinementReviewResp> {
    const edits = editsOf(proposal);
    if (edits.length === 0) {
      return { approved: false, confidence_adjusted: 0, reasons: ['the proposal has no edits'], risk_level: 'low' };
    }
    const judged = edits.map((one) => this.#judge(one));
    return {
      approved: judged.every(({ approved }) => approved),
      confidence_adjusted: Math.min(...judged.map(({ confidence }) => confidence)),
      reasons: judged.map(({ reason }) => reason),
      risk_level: RISKS[Math.max(...judged.map(({ risk }) => risk))]!,
    };
  }

  /** Applies the applicable edits; part of the caller's `atomically`. */
  apply(proposal: Proposal): Body<LearnRefinementApplyResp> {
    const edits = editsOf(proposal);
    // Without prototypes: components and choices may have any name.
    const before: Changing = { weights: Object.create(null), choices: Object.create(null) };
    const errors: string[] = [];
    for (const one of edits) {
      // Only a fault of the edit counts as its failure: a store that cannot write fails the whole request.
      const change = this.#prepared(one, before, errors);
      change?.();
    }
    const applied = edits.length - errors.length;
    const error = errors.join('; ');
    const outcome = { applied_edits: applied, failed_edits: errors.length, error };
    if (applied === 0) {
      return { refinement_id: '', ...outcome, rollback_available: false, error: error || 'the proposal has no edits' };
    }
    const id = this.#source.id();
    const at = this.#source.now() / 1000;
    const row: StoredRefinement = { id, edits, applied, failed: errors.length, error, at };
    const { seq } = this.#log().append(row);
    void this.#store.set(beforeKey(seq), before);
    const expired = seq - this.#limits.rollbacks;
    if (expired > 0) void this.#store.delete(beforeKey(expired));
    return { refinement_id: id, ...outcome, rollback_available: true };
  }

  /** Rolls a refinement back; part of the caller's `atomically`. */
  rollback(id: string): Body<LearnRefinementRollbackResp> {
    const no = (error: string) => ({ refinement_id: id, rolled_back: false, error });
    const found = StoredLog.find(this.#store, id);
    const row = found?.log === LOG ? this.#log().get(found.seq) : undefined;
    if (found === undefined || row === undefined) return no('there is no such refinement');
    if (row.rolledBackAt !== undefined) return { refinement_id: id, rolled_back: true, error: 'already rolled back' };
    const before = this.#store.get<Before>(beforeKey(found.seq));
    if (before === undefined) return no(`only the newest ${this.#limits.rollbacks} refinements can be rolled back`);
    const later = this.#laterOn(found.seq, before);
    if (later !== undefined) return no(`refinement ${later} changed the same afterwards; roll it back first`);
    let rewards = 0;
    for (const [choice, snapshot] of Object.entries(before.choices)) {
      if (this.#choices.get(choice) === undefined) return no(`the choice "${choice}" was deleted`);
      rewards += Math.max(0, this.#choices.headOf(choice).steps - snapshot.steps);
      this.#choices.restore(choice, snapshot);
    }
    for (const [component, weight] of Object.entries(before.weights)) {
      this.#components.setWeight(component, weight ?? undefined);
    }
    this.#log().replace(found.seq, { ...row, rolledBackAt: this.#source.now() / 1000 });
    void this.#store.delete(beforeKey(found.seq));
    return { refinement_id: id, rolled_back: true, error: '', rewards_since: rewards };
  }

  /** Returns every refinement, oldest first. Not inside `atomically`. */
  history(): Record<string, unknown>[] {
    return [...this.#log().rows()].map(({ seq, row }) => ({
      refinement_id: row.id,
      applied_edits: row.applied,
      failed_edits: row.failed,
      edits: row.edits,
      error: row.error,
      ts: row.at,
      rollback_available: this.#store.get(beforeKey(seq)) !== undefined,
      rolled_back_at: row.rolledBackAt ?? null,
    }));
  }

  #log(): StoredLog<StoredRefinement> {
    return new StoredLog(this.#store, LOG, this.#limits.logRows);
  }

  /** Returns a later refinement, not rolled back, of one of the same choices or weights. */
  #laterOn(seq: number, { weights, choices }: Before): string | undefined {
    const { next } = this.#log().span;
    for (let later = next - 1; later > seq; later--) {
      const row = this.#log().get(later);
      const other = this.#store.get<Before>(beforeKey(later));
      if (row === undefined || other === undefined || row.rolledBackAt !== undefined) continue;
      const shares = (mine: object, theirs: object) => Object.keys(mine).some((key) => Object.hasOwn(theirs, key));
      if (shares(weights, other.weights) || shares(choices, other.choices)) return row.id;
    }
    return undefined;
  }

  #optionEdits(choice: string): Edit[] {
    const { disabled } = this.#choices.known(choice);
    const stats = this.#statsOf(choice);
    const hopeless = stats.filter(
      ({ rewards, probability_best, disabled: is }) => !is && rewards >= LEAST_REWARDS && probability_best < HOPELESS,
    );
    if (hopeless.length === 0) return [];
    const names = hopeless.map(({ option }) => option);
    return [
      edit('choice_options', `choices.${choice}.disabled`, disabled, [...disabled, ...names], {
        confidence: 1 - Math.max(...hopeless.map(({ probability_best }) => probability_best)),
        why: `${names.join(', ')}: probability of being best below ${HOPELESS}`,
      }),
    ];
  }

  #statsOf(choice: string): OptionStats[] {
    const { options, disabled } = this.#choices.known(choice);
    return optionStats(this.#choices.banditOf(choice, options), options, disabled, this.#choices.weightsOf(options));
  }

  #judge(one: Proposal): { approved: boolean; confidence: number; reason: string; risk: 0 | 1 | 2 } {
    const refused = (reason: string) => ({ approved: false, confidence: 0, reason, risk: 2 as const });
    try {
      const place = placeOf(one.path);
      this.#checkEdit(place, one);
      switch (place.kind) {
        case 'weight': {
          const record = this.#components.get(place.component);
          const calls = record?.calls_total ?? 0;
          const share = calls === 0 ? NEUTRAL_WEIGHT : record!.calls_success / calls;
          const weight = (one.new_value as number | null) ?? NEUTRAL_WEIGHT;
          const change = Math.abs(weight - (record?.weight ?? NEUTRAL_WEIGHT));
          const away = Math.abs(weight - share);
          const confidence = round((calls / (calls + LEAST_REWARDS)) * (1 - away));
          const reason = `${place.component}: weight ${weight}, ${(share * 100).toFixed(0)} % of ${counted(calls, 'call')} succeeded`;
          return { approved: calls === 0 || away <= 0.5, confidence, reason, risk: change <= 0.2 ? 0 : 1 };
        }
        case 'policy': {
          const policy = describePolicy(one.new_value as PolicySettings);
          const reason = `${place.choice}: ${policy} starts from the rewards in the log`;
          const isBlind = (one.new_value as PolicySettings).name === 'uniform';
          return { approved: true, confidence: isBlind ? 0.1 : 0.5, reason, risk: isBlind ? 2 : 1 };
        }
        case 'disabled': {
          const out = one.new_value as readonly string[];
          const stats = this.#statsOf(place.choice);
          const best = stats.filter(({ option }) => out.includes(option)).map((each) => each.probability_best);
          const lost = Math.max(0, ...best);
          const reason = `${place.choice}: the options taken out have a probability of ${lost.toFixed(3)} at most to be best`;
          return { approved: lost < 0.05, confidence: round(1 - lost), reason, risk: lost < HOPELESS ? 1 : 2 };
        }
      }
    } catch (thrown) {
      return refused(asError(thrown).message);
    }
  }

  /** Returns the writes of an edit; undefined, and a line in `errors`, if it cannot be applied. */
  #prepared(one: Proposal, before: Changing, errors: string[]): (() => void) | undefined {
    try {
      const place = placeOf(one.path);
      this.#checkEdit(place, one);
      if (place.kind === 'weight') {
        const { component } = place;
        const weight = this.#components.weightOf(component) ?? null;
        return () => {
          this.#components.setWeight(component, (one.new_value as number | null) ?? undefined);
          if (!Object.hasOwn(before.weights, component)) before.weights[component] = weight;
        };
      }
      const { choice } = place;
      const snapshot = this.#choices.snapshot(choice);
      const changed =
        place.kind === 'disabled'
          ? { ...snapshot, disabled: one.new_value as readonly string[] }
          : { ...this.#refitted(choice, one.new_value as PolicySettings, snapshot), disabled: snapshot.disabled };
      return () => {
        this.#choices.restore(choice, changed);
        if (!Object.hasOwn(before.choices, choice)) before.choices[choice] = snapshot;
      };
    } catch (thrown) {
      errors.push(asError(thrown).message);
      return undefined;
    }
  }

  /** Throws if an edit is not supported or not valid here, or if the state is not the one it was made for. */
  #checkEdit(place: Place, { op = 'update', old_value, new_value, path }: Proposal): void {
    if (op !== 'update') throw fail('schema_violation', `unsupported op ${JSON.stringify(op)}; use "update"`);
    const present = this.#present(place);
    if (old_value !== undefined && !isDeepStrictEqual(old_value, present)) {
      throw fail('schema_violation', `${path} is ${JSON.stringify(present)}, not ${JSON.stringify(old_value)}`);
    }
    const problem = problemWith(place.kind, new_value);
    if (problem !== undefined) throw fail('schema_violation', `${path}: ${problem}`);
  }

  #present(place: Place): unknown {
    switch (place.kind) {
      case 'weight':
        return this.#components.weightOf(place.component) ?? NEUTRAL_WEIGHT;
      case 'policy':
        return this.#choices.headOf(place.choice).policy;
      case 'disabled':
        return this.#choices.known(place.choice).disabled;
    }
  }

  /** Returns another policy with the data of the log, and with the present generator. */
  #refitted(choice: string, policy: PolicySettings, { random }: ChoiceSnapshot): ReturnType<Bandit['save']> {
    const { missingReward } = this.#choices.known(choice);
    const bandit = new Bandit({ policy, random, steps: 0 });
    const log = this.#choices.logOf(choice);
    const { first, next } = log.span;
    for (let seq = first; seq < next; seq++) {
      const row = log.get(seq);
      const reward = row?.reward ?? (row?.missing ? missingReward : null);
      if (row === undefined || reward === null) continue;
      checkReward(policy, reward);
      bandit.learn(row.option, reward, row.features);
    }
    return bandit.save();
  }
}

const LOG = 'refinement';
const RISKS = ['low', 'medium', 'high'] as const;
const MAX_EDITS = 100;

/** Returns a numbered key, so that the oldest is found without a list. */
const beforeKey = (seq: number): string => `before/${seq}`;

const round = (value: number): number => Math.round(value * 1000) / 1000;

function edit(
  target: Edit['target'],
  path: string,
  old_value: unknown,
  new_value: unknown,
  { confidence, why }: Pick<Edit, 'confidence' | 'why'>,
): Edit {
  return { target, op: 'update', path, old_value, new_value, confidence, why };
}

/** Returns the edits of a proposal: it is one itself, or has several. */
function editsOf(proposal: Proposal): readonly Proposal[] {
  const { edits } = proposal;
  if (Array.isArray(edits)) return edits.filter(isObject).slice(0, MAX_EDITS);
  return Object.hasOwn(proposal, 'path') ? [proposal] : [];
}

function placeOf(path: unknown): Place {
  if (typeof path === 'string') {
    if (path.startsWith('router.weights.') && path.length > 15 && path.length <= 115) {
      return { kind: 'weight', component: path.slice(15) };
    }
    const found = /^choices\.(.+)\.(policy|disabled)$/s.exec(path);
    if (found !== null) return { kind: found[2] as 'policy' | 'disabled', choice: found[1]! };
  }
  throw fail(
    'schema_violation',
    `unknown path ${JSON.stringify(path)}; there are router.weights.<component>, choices.<choice>.policy and choices.<choice>.disabled`,
  );
}

/** Returns the problem of a new value; undefined: none. */
function problemWith(kind: Place['kind'], value: unknown): string | undefined {
  switch (kind) {
    case 'weight': {
      const fits = value === null || (typeof value === 'number' && value >= 0 && value <= 1);
      return fits ? undefined : 'a weight is a number from 0 to 1, or null';
    }
    case 'disabled': {
      const fits = Array.isArray(value) && value.every((one) => typeof one === 'string');
      return fits ? undefined : 'expected a list of names of options';
    }
    case 'policy':
      return checks.LearnDecideReq({ type: 'learn/decide/req', id: '1', choice: 'a', options: ['a'], policy: value })
        ? undefined
        : 'not a policy';
  }
}
