/**
 * The messages of the env capability as schemas.
 *
 * @see docs/protocol/a2e.md#env-messages
 */
import { answer, base, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const text = (description: string) => Type.String({ description });
const optionalText = (description: string) => Type.Optional(text(description));
const options = Type.Optional(
  anyObject(
    'The options of the environment’s own reset. `make`: arguments of its construction; `instance`: the name of a separate generator; `autoreset`: how a batch continues after an episode has ended; `durability`: the part that outlives the host.',
  ),
);
const seed = (description: string) =>
  Type.Optional(
    Type.Union([Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }), Type.Null()], { description }),
  );

export const EnvObservation = Type.Object(
  {
    episode_id: text('The episode.'),
    step_num: Type.Integer({ description: 'Completed steps.' }),
    state: anyObject('`observation`: an element of the observation space; an environment may add members.'),
    done: Type.Optional(Type.Boolean({ description: 'The episode has ended: terminated or truncated.' })),
    truncated: Type.Optional(Type.Boolean({ description: 'It was cut off, as by a time limit.' })),
    reward: Type.Optional(Type.Union([Type.Number(), Type.Null()], { description: 'Of the newest step.' })),
    created_at: Type.Optional(Type.Number({ description: 'Epoch seconds.' })),
    metadata: Type.Optional(
      Type.Union([anyObject(), Type.Null()], {
        description:
          '`terminated`, `truncated`, `info` as the environment gave them; `reward` as a text where it is ±Infinity or NaN.',
      }),
    ),
  },
  { description: 'The view that an agent has of an episode.' },
);

export const EnvResetReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/reset/req'),
    env_name: text('Id of the environment, such as CartPole-v1.'),
    seed: seed('Starts its generator again from here; null continues it.'),
    options,
  },
  { ...fromAgent, description: 'Starts an episode.' },
);

export const EnvResetResp = Type.Object(
  { ...answer, type: Type.Literal('env/reset/resp'), obs: EnvObservation },
  { ...fromHost, description: 'The first observation; its `episode_id` names the episode.' },
);

export const EnvStepReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/step/req'),
    episode_id: text('The episode.'),
    action: anyObject('`{"action_type": "step", "payload": {"action": A}}`, A an element of the action space.'),
  },
  { ...fromAgent, description: 'Acts in an episode.' },
);

export const EnvStepResp = Type.Object(
  { ...answer, type: Type.Literal('env/step/resp'), obs: EnvObservation },
  { ...fromHost, description: 'The outcome of the step.' },
);

export const EnvObserveReq = Type.Object(
  { ...base, type: Type.Literal('env/observe/req'), episode_id: text('The episode.') },
  { ...fromAgent, description: 'Reads the newest observation; changes nothing.' },
);

export const EnvObserveResp = Type.Object(
  { ...answer, type: Type.Literal('env/observe/resp'), obs: EnvObservation },
  { ...fromHost, description: 'The newest observation.' },
);

export const EnvCloseReq = Type.Object(
  { ...base, type: Type.Literal('env/close/req'), episode_id: text('The episode.') },
  { ...fromAgent, description: 'Ends an episode. Closing one that does not exist is no error.' },
);

export const EnvCloseResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/close/resp'),
    closed: Type.Optional(Type.Boolean({ description: 'True: the episode does not exist any more.' })),
  },
  { ...fromHost, description: 'The episode has ended.' },
);

const spaceRequest = { env_name: text('Id of the environment.'), options };
const spaceReply = {
  action_space: anyObject('The space of actions, such as `{"type": "Discrete", "n": 2, "start": 0}`.'),
  state_schema: anyObject('`space`: the space of observations; `json_schema`: of `state` as JSON Schema.'),
  render_modes: Type.Optional(
    Type.Array(Type.String(), {
      description: 'The forms it draws, of `ansi` and `rgb_array`; the latter is sent as PNG too.',
    }),
  ),
};

export const EnvSpaceReq = Type.Object(
  { ...base, type: Type.Literal('env/space/req'), ...spaceRequest },
  { ...fromAgent, description: 'Asks for the spaces of an environment.' },
);

export const EnvSpaceResp = Type.Object(
  { ...answer, type: Type.Literal('env/space/resp'), ...spaceReply },
  { ...fromHost, description: 'The spaces of an environment.' },
);

export const EnvSpacesReq = Type.Object(
  { ...base, type: Type.Literal('env/spaces/req'), ...spaceRequest },
  { ...fromAgent, description: 'Another spelling of `env/space/req`.' },
);

export const EnvSpacesResp = Type.Object(
  { ...answer, type: Type.Literal('env/spaces/resp'), ...spaceReply },
  { ...fromHost, description: 'Replies to `env/spaces/req`.' },
);

export const EnvRenderReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/render/req'),
    episode_id: text('The episode.'),
    mode: Type.Optional(
      Type.Union([Type.String(), Type.Null()], {
        description: 'text or ansi, rgb_array, screenshot or png. Default screenshot.',
      }),
    ),
  },
  { ...fromAgent, description: 'Draws the state of an episode.' },
);

export const EnvRenderResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/render/resp'),
    render: Type.Unknown({
      description:
        'A text; rows of pixels `[r, g, b]`; or `{"mime": "image/png", "base64": …}`. Null: the environment draws nothing in this mode.',
    }),
  },
  { ...fromHost, description: 'The picture.' },
);

export const EnvPlanReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/plan/req'),
    episode_id: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'The episode.' })),
    state: Type.Optional(Type.Union([anyObject(), Type.Null()], { description: 'Not used.' })),
  },
  { ...fromAgent, description: 'Asks which actions make sense now. The type `env/plan/resp` is accepted as well.' },
);

export const EnvPlanResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/plan/resp'),
    suggested_actions: Type.Optional(
      Type.Array(anyObject(), { description: 'Actions for `env/step/req`, each with its `label` in `metadata`.' }),
    ),
  },
  { ...fromHost, description: 'The actions that the environment suggests; none where it has no suggestions.' },
);

export const EnvBatchStepReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/batch_step/req'),
    episode_ids: Type.Array(Type.String(), { description: 'The episodes.' }),
    actions: Type.Array(anyObject(), { description: 'One action for each of them.' }),
  },
  { ...fromAgent, description: 'Acts in several episodes.' },
);

export const EnvBatchStepResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/batch_step/resp'),
    results: Type.Array(anyObject(), {
      description:
        'In order, an `env/step/resp` each. That of a refused step has `error` `{code, message, detail}`, and as `obs` the unchanged observation of its episode.',
    }),
  },
  { ...fromHost, description: 'The outcome of the steps.' },
);

export const EnvExpListReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/exp/list/req'),
    episode_id: optionalText('One episode; empty for all of this agent.'),
    limit: Type.Optional(
      Type.Integer({ minimum: 0, description: 'Transitions at most, the newest ones. Default 100.' }),
    ),
    after: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Of one episode: the transitions after this step, the oldest first, instead of the newest.',
      }),
    ),
  },
  { ...fromAgent, description: 'Reads stored transitions.' },
);

export const EnvExpListResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/exp/list/resp'),
    episodes: Type.Optional(
      Type.Array(anyObject(), {
        description:
          'Each `{episode_id, env_name, step_num, total_steps, status, first_index, transitions}`; a transition is `{index, step, state, action, reward, next_state, done, terminated, truncated, info}`. `index` counts the steps of the episode id, `step` those since its newest start. `reward` is a text where it is ±Infinity or NaN.',
      }),
    ),
  },
  { ...fromHost, description: 'Stored transitions by episode.' },
);

export const EnvListReq = Type.Object(
  { ...base, type: Type.Literal('env/list/req') },
  { ...fromAgent, description: 'Lists the environments.' },
);

export const EnvDescription = Type.Object(
  {
    id: text('The value of `env_name`.'),
    about: optionalText('One sentence.'),
    max_episode_steps: Type.Optional(
      Type.Union([Type.Integer(), Type.Null()], { description: 'Steps after which an episode is truncated.' }),
    ),
    runs_code: Type.Optional(Type.Boolean({ description: 'Its steps run programs of the host.' })),
    make: Type.Optional(anyObject('Arguments of `options.make`, as JSON Schema.')),
  },
  { description: 'An environment of the host.' },
);

export const EnvListResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/list/resp'),
    environments: Type.Array(EnvDescription, { description: 'Those that this principal may use.' }),
  },
  { ...fromHost, description: 'The environments of the host.' },
);

const spaceOf = {
  space: Type.Union([anyObject(), Type.String()], {
    description:
      'A space as `env/space/resp` describes it; or `action` or `observation`, of the environment `env_name`.',
  }),
  env_name: optionalText('The environment, where `space` names one of its spaces.'),
  options,
};

export const EnvContainsReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/contains/req'),
    ...spaceOf,
    value: Type.Optional(Type.Unknown({ description: 'A value that may be an element of the space.' })),
    values: Type.Optional(Type.Array(Type.Unknown(), { description: 'Several of them.' })),
  },
  { ...fromAgent, description: 'Asks whether values are elements of a space.' },
);

export const EnvContainsResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/contains/resp'),
    contains: Type.Boolean({ description: 'All of them are.' }),
    each: Type.Optional(Type.Array(Type.Boolean(), { description: 'One for each of `values`.' })),
  },
  { ...fromHost, description: 'Replies to `env/contains/req`.' },
);

export const EnvSampleReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/sample/req'),
    ...spaceOf,
    seed: seed('Of the generator of this request. Default: a random one.'),
    n: Type.Optional(Type.Integer({ minimum: 0, description: 'Number of elements. Default 1.' })),
  },
  { ...fromAgent, description: 'Draws elements of a space.' },
);

export const EnvSampleResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/sample/resp'),
    samples: Type.Array(Type.Unknown(), { description: 'Elements of the space.' }),
  },
  { ...fromHost, description: 'Replies to `env/sample/req`.' },
);

export const EnvCheckReq = Type.Object(
  {
    ...base,
    type: Type.Literal('env/check/req'),
    env_name: text('Id of the environment.'),
    options,
    seed: seed('Of the first episode. Default 0.'),
    steps: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 1000,
        description: 'Of each rollout. Default 200; 20 where they run programs.',
      }),
    ),
  },
  { ...fromAgent, description: 'Plays an environment and checks whether it keeps its contract.' },
);

export const EnvFinding = Type.Object(
  {
    rule: text('The rule that the environment breaks; docs/environments.md lists them.'),
    step: Type.Union([Type.Integer(), Type.Null()], { description: 'Where; 0 is the first reset. Null: at no step.' }),
    expected: text('The behaviour of a correct environment.'),
    found: text('The behaviour that was found.'),
    mend: text('How it is mended.'),
  },
  { description: 'A rule that an environment breaks, at the first place where it does.' },
);

export const EnvCheckResp = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/check/resp'),
    findings: Type.Array(EnvFinding, {
      description: 'None: the environment keeps its contract as far as it was played.',
    }),
    gymnasium: Type.Optional(
      anyObject(
        "Of environments of Python: `problem` and `warnings` of Gymnasium's own checker; `problem` is null where it passes.",
      ),
    ),
  },
  { ...fromHost, description: 'The findings.' },
);

export const EnvStatePush = Type.Object(
  {
    ...answer,
    type: Type.Literal('env/state/push'),
    episode_id: text('The episode.'),
    step_id: Type.Integer({ description: 'Steps completed before it.' }),
    action_id: Type.Optional(Type.Union([Type.String(), Type.Null()], { description: 'The action that led to it.' })),
    event_type: text('Observation, tool_result, status, error; other strings occur.'),
    reason: optionalText('The event that happened.'),
    delta: Type.Optional(anyObject('The members of `state` that changed.')),
    reward: Type.Optional(Type.Union([Type.Number(), Type.Null()], { description: 'Null: none.' })),
    reward_info: Type.Optional(Type.Union([anyObject(), Type.Null()], { description: 'Where the reward comes from.' })),
    terminal: Type.Optional(Type.Boolean({ description: 'The episode has ended.' })),
  },
  { ...fromHost, description: 'Something that happened in an episode without a request.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const envSchemas = {
  EnvResetReq,
  EnvResetResp,
  EnvObservation,
  EnvStepReq,
  EnvStepResp,
  EnvObserveReq,
  EnvObserveResp,
  EnvCloseReq,
  EnvCloseResp,
  EnvSpaceReq,
  EnvSpaceResp,
  EnvSpacesReq,
  EnvSpacesResp,
  EnvRenderReq,
  EnvRenderResp,
  EnvPlanReq,
  EnvPlanResp,
  EnvBatchStepReq,
  EnvBatchStepResp,
  EnvExpListReq,
  EnvExpListResp,
  EnvListReq,
  EnvListResp,
  EnvDescription,
  EnvContainsReq,
  EnvContainsResp,
  EnvSampleReq,
  EnvSampleResp,
  EnvCheckReq,
  EnvCheckResp,
  EnvFinding,
  EnvStatePush,
};

export type EnvObservation = Static<typeof EnvObservation>;
export type EnvResetReq = Static<typeof EnvResetReq>;
export type EnvResetResp = Static<typeof EnvResetResp>;
export type EnvStepReq = Static<typeof EnvStepReq>;
export type EnvStepResp = Static<typeof EnvStepResp>;
export type EnvObserveReq = Static<typeof EnvObserveReq>;
export type EnvObserveResp = Static<typeof EnvObserveResp>;
export type EnvCloseReq = Static<typeof EnvCloseReq>;
export type EnvCloseResp = Static<typeof EnvCloseResp>;
export type EnvSpaceReq = Static<typeof EnvSpaceReq>;
export type EnvSpaceResp = Static<typeof EnvSpaceResp>;
export type EnvRenderReq = Static<typeof EnvRenderReq>;
export type EnvRenderResp = Static<typeof EnvRenderResp>;
export type EnvPlanReq = Static<typeof EnvPlanReq>;
export type EnvPlanResp = Static<typeof EnvPlanResp>;
export type EnvBatchStepReq = Static<typeof EnvBatchStepReq>;
export type EnvBatchStepResp = Static<typeof EnvBatchStepResp>;
export type EnvExpListReq = Static<typeof EnvExpListReq>;
export type EnvExpListResp = Static<typeof EnvExpListResp>;
export type EnvListReq = Static<typeof EnvListReq>;
export type EnvListResp = Static<typeof EnvListResp>;
export type EnvDescription = Static<typeof EnvDescription>;
export type EnvContainsReq = Static<typeof EnvContainsReq>;
export type EnvContainsResp = Static<typeof EnvContainsResp>;
export type EnvSampleReq = Static<typeof EnvSampleReq>;
export type EnvSampleResp = Static<typeof EnvSampleResp>;
export type EnvCheckReq = Static<typeof EnvCheckReq>;
export type EnvCheckResp = Static<typeof EnvCheckResp>;
export type EnvFinding = Static<typeof EnvFinding>;
export type EnvStatePush = Static<typeof EnvStatePush>;
