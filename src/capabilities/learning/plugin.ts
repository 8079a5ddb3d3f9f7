/**
 * The host's side of the learning capability. Each request works on the store of its agent; see `learned.ts`.
 *
 * `of_agent` reaches another agent of the same principal, never agents of other principals.
 */
import type { CallContext } from '../../host/context.ts';
import { definePlugin, handle, type Plugin, type PluginContext } from '../../host/plugin.ts';
import type { LearningSource } from './choices.ts';
import { failure } from './errors.ts';
import { Learned } from './learned.ts';
import { DEFAULT_LIMITS, type LearningLimits } from './limits.ts';
import {
  learnAdapt,
  learnDecide,
  learnEvaluate,
  learnExperience,
  learnFeedback,
  learnForget,
  learnRecords,
  learnRefinementApply,
  learnRefinementHistory,
  learnRefinementPlan,
  learnRefinementReview,
  learnRefinementRollback,
  learnStats,
} from './messages.ts';
import { learningOffer } from './offer.ts';

export interface LearningOptions extends Partial<LearningLimits>, Partial<LearningSource> {}

/** The rights of a principal; without a grant it has all of them. */
interface LearningGrant {
  readonly record: boolean;
  readonly refine: boolean;
}

const EVERYTHING: LearningGrant = { record: true, refine: true };

export function learningPlugin(options: LearningOptions = {}): Plugin {
  const { now = Date.now, seed = () => crypto.randomUUID(), id = newId, ...given } = options;
  const limits: LearningLimits = { ...DEFAULT_LIMITS, ...given };
  const source: LearningSource = { now, seed, id };
  let host: PluginContext;

  const learned = ({ session }: CallContext, ofAgent = ''): Learned => {
    const of = ofAgent === '' ? session : { id: session.id, principal: session.principal, agentId: ofAgent };
    return new Learned(host.store.of(of).agent, limits, source);
  };
  const require = (context: CallContext, right: keyof LearningGrant): void => {
    const grant = (context.grant ?? EVERYTHING) as LearningGrant;
    if (grant[right]) return;
    throw failure('denied', `this principal may not ${right}; grant it learning: { ${right}: true }`, { right });
  };

  return definePlugin({
    name: 'learning',
    type: 'learning',
    ...learningOffer(limits),
    start(context) {
      host = context;
    },
    methods: [
      handle(learnDecide, (request, context) => {
        require(context, 'record');
        return learned(context).decide(request);
      }),
      handle(learnExperience, ({ experiences = [] }, context) => {
        require(context, 'record');
        return learned(context).recordExperiences(experiences);
      }),
      handle(learnFeedback, ({ feedbacks }, context) => {
        require(context, 'record');
        return learned(context).recordFeedback(feedbacks);
      }),
      handle(learnAdapt, (request, context) => {
        require(context, 'refine');
        return learned(context, request.of_agent).adapt(request);
      }),
      handle(learnStats, ({ component_name, of_agent }, context) => learned(context, of_agent).stats(component_name)),
      handle(learnRecords, (request, context) => learned(context, request.of_agent).records(request)),
      handle(learnRefinementPlan, ({ component_name = '', scope = '', of_agent }, context) => {
        const of = learned(context, of_agent);
        const proposals = of.refinements.plan(component_name, scope);
        return { plan_id: id(), proposals, status: proposals.length === 0 ? 'empty' : 'ready' };
      }),
      handle(learnRefinementReview, ({ proposal = {}, of_agent }, context) =>
        learned(context, of_agent).refinements.review(proposal),
      ),
      handle(learnRefinementApply, ({ proposal = {}, of_agent }, context) => {
        require(context, 'refine');
        return learned(context, of_agent).apply(proposal);
      }),
      handle(learnRefinementRollback, ({ refinement_id = '', of_agent }, context) => {
        require(context, 'refine');
        return learned(context, of_agent).rollback(refinement_id);
      }),
      handle(learnRefinementHistory, ({ of_agent }, context) => ({
        entries: learned(context, of_agent).refinements.history(),
      })),
      handle(learnEvaluate, (request, context) => learned(context, request.of_agent).evaluate(request)),
      handle(learnForget, async ({ choice = '', of_agent }, context) => {
        require(context, 'refine');
        return { forgotten: await learned(context, of_agent).forget(choice) };
      }),
    ],
  });
}

/** Makes an id of 32 hex digits, as the protocol has them. */
const newId = (): string => crypto.randomUUID().replaceAll('-', '');
