/** Bounds the cost of one evaluation of an expression of a chain. */
import { MAX_STEPS, Steps } from '../../../base/steps.ts';
import { failure } from '../errors.ts';

/** Steps that making an object costs for each member. */
export const STEPS_PER_MEMBER = 8;

/** Returns steps that fail with chains.expression, reason `steps`. */
export const chainSteps = (limit = MAX_STEPS): Steps =>
  new Steps(limit, (max) => {
    const message = `the expression takes more than ${max} steps; give it less data, or split it over several nodes`;
    return failure('expression', message, { reason: 'steps', limit: max });
  });
