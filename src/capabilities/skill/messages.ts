/**
 * The methods of the skill capability, with their checks and options.
 *
 * @see docs/skill.md
 */
import { methodsOf } from '../../protocol/method.ts';
import * as checks from './skill.generated.ts';
import type * as schema from './skill.schema.ts';

const skill = methodsOf({ capability: 'skill', event: 'skill/event' });

export const skillDiscover = skill<schema.SkillDiscoverReq, schema.SkillDiscoverResp>(
  'skill/discover/req',
  checks.SkillDiscoverReq,
  { idempotent: true },
);
export const skillDescribe = skill<schema.SkillDescribeReq, schema.SkillDescribeResp>(
  'skill/describe/req',
  checks.SkillDescribeReq,
  { idempotent: true },
);
export const skillCall = skill<schema.SkillCallReq, schema.SkillCallResp>('skill/call/req', checks.SkillCallReq, {
  // 0 means that the caller sets no timeout; that of the host applies in any case.
  limitMs: ({ timeout }) => (timeout === undefined ? 60_000 : timeout === 0 ? undefined : timeout * 1000),
  streaming: ({ streaming }) => streaming !== false,
});
