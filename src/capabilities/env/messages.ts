/**
 * The methods of the env capability, with their checks and options.
 *
 * @see docs/protocol/a2e.md#env-messages
 */
import { method, methodsOf, type Push } from '../../protocol/method.ts';
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

/** Environments send no events for requests. */
const env = methodsOf({ capability: 'env', event: 'invoke/event' });
const read = { idempotent: true } as const;

/**
 * Returns an observation as JSON. The time is that of the message: formatting the number again would cost more than the rest.
 */
function observationJson(obs: EnvObservation, seconds: string): string {
  const { episode_id, step_num, state, done, truncated, reward, metadata } = obs;
  return `{"episode_id":"${episode_id}","step_num":${step_num},"state":${JSON.stringify(state)},"done":${done},"truncated":${truncated},"reward":${numberJson(reward)},"created_at":${seconds},"metadata":${JSON.stringify(metadata)}}`;
}

const numberJson = (value: number | null | undefined): string =>
  Number.isFinite(value) ? String(value) : JSON.stringify(value ?? null);

const writeObservation = ({ obs }: { readonly obs: EnvObservation }, seconds: string): string =>
  `"obs":${observationJson(obs, seconds)}`;

export const envReset = env<EnvResetReq, EnvResetResp>('env/reset/req', checks.EnvResetReq, {
  writeReply: writeObservation,
});
export const envStep = env<EnvStepReq, EnvStepResp>('env/step/req', checks.EnvStepReq, {
  writeReply: writeObservation,
});
export const envObserve = env<EnvObserveReq, EnvObserveResp>('env/observe/req', checks.EnvObserveReq, {
  idempotent: true,
  writeReply: writeObservation,
});
export const envClose = env<EnvCloseReq, EnvCloseResp>('env/close/req', checks.EnvCloseReq, read);
export const envSpace = env<EnvSpaceReq, EnvSpaceResp>('env/space/req', checks.EnvSpaceReq, read);

/** The other spelling in the documents; its reply has the spelling of the request. */
export const envSpaces = env<EnvSpaceReq, EnvSpaceResp>('env/spaces/req', checks.EnvSpacesReq, read);
export const envRender = env<EnvRenderReq, EnvRenderResp>('env/render/req', checks.EnvRenderReq, read);
export const envPlan = env<EnvPlanReq, EnvPlanResp>('env/plan/req', checks.EnvPlanReq, read);

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
export const envBatchStep = env<EnvBatchStepReq, EnvBatchStepResp>('env/batch_step/req', checks.EnvBatchStepReq);
export const envExpList = env<EnvExpListReq, EnvExpListResp>('env/exp/list/req', checks.EnvExpListReq, read);
export const envList = env<EnvListReq, EnvListResp>('env/list/req', checks.EnvListReq, read);
export const envContains = env<EnvContainsReq, EnvContainsResp>('env/contains/req', checks.EnvContainsReq, read);
export const envSample = env<EnvSampleReq, EnvSampleResp>('env/sample/req', checks.EnvSampleReq);
export const envCheck = env<EnvCheckReq, EnvCheckResp>('env/check/req', checks.EnvCheckReq);

/** Sent for an event in an episode without a request of this session. */
export const envStatePush: Push<Omit<EnvStatePush, 'type' | 'id'>> = {
  push: 'env/state/push',
  capability: 'env',
};
