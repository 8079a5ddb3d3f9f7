/**
 * `handfast/env`: for authors of environments: the contract, spaces, random numbers, wrappers, a check. `envPlugin`
 * puts environments into a host; `agent.env` plays them.
 *
 * @see docs/env.md#environments-of-your-own
 */

import './base/node-version.ts';

export type { JsonSchema } from './base/json-schema.ts';
export { Generator, randomSeed } from './base/random/generator.ts';
export type { Pcg64State } from './base/random/pcg64.ts';
export { checkEnvironment } from './capabilities/env/check/check.ts';
export type {
  CheckReport,
  CheckRequest,
  CheckRule,
  Finding,
  GymnasiumVerdict,
} from './capabilities/env/check/findings.ts';
export { defineEnvironment, type EnvironmentDefinition } from './capabilities/env/define.ts';
export type { Durability } from './capabilities/env/durable.ts';
export type {
  Affordance,
  Environment,
  EnvironmentKind,
  RenderMode,
  ResetRequest,
  Soon,
  Start,
  Step,
  StepCall,
} from './capabilities/env/environment.ts';
export { type EnvPlugin, type EnvPluginOptions, envPlugin } from './capabilities/env/plugin.ts';
export { environmentKinds as builtinEnvironments } from './capabilities/env/registry.ts';
export type { Image } from './capabilities/env/rendering/image.ts';
export { Box } from './capabilities/env/spaces/box.ts';
export { Dict, OneOf, Sequence, Tuple } from './capabilities/env/spaces/composite.ts';
export { Discrete } from './capabilities/env/spaces/discrete.ts';
export { Graph, type GraphValue } from './capabilities/env/spaces/graph.ts';
export { MultiBinary } from './capabilities/env/spaces/multi-binary.ts';
export { MultiDiscrete } from './capabilities/env/spaces/multi-discrete.ts';
export type { Nested } from './capabilities/env/spaces/numbers.ts';
export type { Sampler, Space, SpaceKind } from './capabilities/env/spaces/space.ts';
export { spaceOf } from './capabilities/env/spaces/space-of.ts';
export { Text } from './capabilities/env/spaces/text.ts';
export { clipAction, clipReward } from './capabilities/env/wrappers/clip.ts';
export { episodeStatistics, type StatisticsOptions } from './capabilities/env/wrappers/episode-statistics.ts';
export { type FrameStackOptions, frameStack } from './capabilities/env/wrappers/frame-stack.ts';
export { type EpisodeRecorder, record } from './capabilities/env/wrappers/record.ts';
export { timeLimit } from './capabilities/env/wrappers/time-limit.ts';
export { type WrapperParts, wrap } from './capabilities/env/wrappers/wrap.ts';
export { fail, HandfastError } from './wire/errors.ts';
export type { JsonObject } from './wire/json.ts';
