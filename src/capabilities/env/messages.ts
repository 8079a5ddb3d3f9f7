/**
 * The methods of the env capability: what `client.ts` calls and `plugin.ts` serves.
 *
 * @see docs/protocol/a2e.md#env-messages
 */
import { method, type Push } from '../../protocol/method.ts';
import type { Check } from '../../wire/check.ts';
import * as checks from './env.generated.ts';
import type {
  EnvBatchStepReq,
  EnvBatchStepResp,
  EnvCheckReq,
  EnvCheckResp,
  EnvCloseReq,
  EnvCloseResp,
  EnvContainsReq,
  EnvContainsResp,
  EnvExpListReq,
  EnvExpListResp,
  EnvListReq,
  EnvListResp,
  EnvObservation,
  EnvObserveReq,
  EnvObserveResp,
  EnvPlanReq,
  EnvPlanResp,
  EnvRenderReq,
  EnvRenderResp,
  EnvResetReq,
  EnvResetResp,
  EnvSampleReq,
  EnvSampleResp,
  EnvSpaceReq,
  EnvSpaceResp,
  EnvStatePush,
  EnvStepReq,
  EnvStepResp,
} from './env.schema.ts';

export type { EnvDescription, EnvObservation } from './env.schema.ts';

/** Capability and events of every method; the environments send no events of requests. */
const shared = { capability: 'env', event: 'invoke/event' } as const;

/** An observation as JSON. The time is that of the message: formatting the number again would cost more than the rest. */
function observationJson(obs: EnvObservation, seconds: string): string {
  const { episode_id, step_num, state, done, truncated, reward, metadata } = obs;
  return `{"episode_id":"${episode_id}","step_num":${step_num},"state":${JSON.stringify(state)},"done":${done},"truncated":${truncated},"reward":${numberJson(reward)},"created_at":${seconds},"metadata":${JSON.stringify(metadata)}}`;
}

const numberJson = (value: number | null | undefined): string =>
  Number.isFinite(value) ? String(value) : JSON.stringify(value ?? null);

const writeObservation = ({ obs }: { readonly obs: EnvObservation }, seconds: string): string =>
  `"obs":${observationJson(obs, seconds)}`;

export const envReset = method<EnvResetReq, EnvResetResp>({
  ...shared,
  request: 'env/reset/req',
  reply: 'env/reset/resp',
  checkRequest: checks.EnvResetReq,
  writeReply: writeObservation,
});

export const envStep = method<EnvStepReq, EnvStepResp>({
  ...shared,
  request: 'env/step/req',
  reply: 'env/step/resp',
  checkRequest: checks.EnvStepReq,
  writeReply: writeObservation,
});

export const envObserve = method<EnvObserveReq, EnvObserveResp>({
  ...shared,
  request: 'env/observe/req',
  reply: 'env/observe/resp',
  idempotent: true,
  checkRequest: checks.EnvObserveReq,
  writeReply: writeObservation,
});

export const envClose = method<EnvCloseReq, EnvCloseResp>({
  ...shared,
  request: 'env/close/req',
  reply: 'env/close/resp',
  idempotent: true,
  checkRequest: checks.EnvCloseReq,
});

export const envSpace = method<EnvSpaceReq, EnvSpaceResp>({
  ...shared,
  request: 'env/space/req',
  reply: 'env/space/resp',
  idempotent: true,
  checkRequest: checks.EnvSpaceReq,
});

/** The other spelling of the documents; its reply has the spelling of the request. */
export const envSpaces = method<EnvSpaceReq, EnvSpaceResp>({
  ...shared,
  request: 'env/spaces/req',
  reply: 'env/spaces/resp',
  idempotent: true,
  checkRequest: checks.EnvSpacesReq,
});

export const envRender = method<EnvRenderReq, EnvRenderResp>({
  ...shared,
  request: 'env/render/req',
  reply: 'env/render/resp',
  idempotent: true,
  checkRequest: checks.EnvRenderReq,
});

export const envPlan = method<EnvPlanReq, EnvPlanResp>({
  ...shared,
  request: 'env/plan/req',
  reply: 'env/plan/resp',
  idempotent: true,
  checkRequest: checks.EnvPlanReq,
});

const checkOtherPlan: Check = (message) => {
  const fits = checks.EnvPlanReq({ ...(message as object), type: envPlan.request });
  checkOtherPlan.errors = checks.EnvPlanReq.errors ?? null;
  return fits;
};

/** The request as the Python SDK names it: by the type of its reply. */
export const envPlanAsReply = method<EnvPlanReq, EnvPlanResp>({
  ...envPlan,
  request: 'env/plan/resp',
  checkRequest: checkOtherPlan,
});

export const envBatchStep = method<EnvBatchStepReq, EnvBatchStepResp>({
  ...shared,
  request: 'env/batch_step/req',
  reply: 'env/batch_step/resp',
  checkRequest: checks.EnvBatchStepReq,
});

export const envExpList = method<EnvExpListReq, EnvExpListResp>({
  ...shared,
  request: 'env/exp/list/req',
  reply: 'env/exp/list/resp',
  idempotent: true,
  checkRequest: checks.EnvExpListReq,
});

export const envList = method<EnvListReq, EnvListResp>({
  ...shared,
  request: 'env/list/req',
  reply: 'env/list/resp',
  idempotent: true,
  checkRequest: checks.EnvListReq,
});

export const envContains = method<EnvContainsReq, EnvContainsResp>({
  ...shared,
  request: 'env/contains/req',
  reply: 'env/contains/resp',
  idempotent: true,
  checkRequest: checks.EnvContainsReq,
});

export const envSample = method<EnvSampleReq, EnvSampleResp>({
  ...shared,
  request: 'env/sample/req',
  reply: 'env/sample/resp',
  checkRequest: checks.EnvSampleReq,
});

export const envCheck = method<EnvCheckReq, EnvCheckResp>({
  ...shared,
  request: 'env/check/req',
  reply: 'env/check/resp',
  checkRequest: checks.EnvCheckReq,
});

/** Sent when something happens in an episode without a request of this session. */
export const envStatePush: Push<Omit<EnvStatePush, 'type' | 'id'>> = {
  push: 'env/state/push',
  capability: 'env',
};
