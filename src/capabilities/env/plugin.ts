/**
 * The env capability of a host: episodes of its environments.
 *
 * Host builders call `envPlugin({ environments })`.
 * @see docs/env.md and docs/protocol/a2e.md#env-messages
 */
import { counted } from '../../base/counted.ts';
import { SharedSlots } from '../../base/shared-slots.ts';
import type { CallContext, SessionView } from '../../host/context.ts';
import { definePlugin, handle, type Plugin } from '../../host/plugin.ts';
import type { Body } from '../../protocol/method.ts';
import { asError, fail } from '../../wire/errors.ts';
import { isObject, type JsonObject } from '../../wire/json.ts';
import type { Durability, EpisodeRecord } from './durable.ts';
import type { EnvBatchStepReq, EnvContainsReq, EnvObservation, EnvSampleReq, EnvSpaceReq } from './env.schema.ts';
import { type EnvironmentKind, type RenderMode, type Soon, then } from './environment.ts';
import type { Episode } from './episode.ts';
import { type EnvGrant, type EpisodeLimits, Episodes } from './episodes.ts';
import { failure } from './errors.ts';
import {
  envBatchStep,
  envCheck,
  envClose,
  envContains,
  envExpList,
  envList,
  envObserve,
  envPlan,
  envPlanAsReply,
  envRender,
  envReset,
  envSample,
  envSpace,
  envSpaces,
  envStatePush,
  envStep,
} from './messages.ts';
import { envOffer } from './offer.ts';
import { environmentKinds, makeSchema } from './registry.ts';
import { imageRows } from './rendering/image.ts';
import type { Space } from './spaces/space.ts';
import { spaceOf } from './spaces/space-of.ts';
import { describeSpaces, SpaceCache } from './spaces-of.ts';
import { sizeOf } from './trajectory.ts';

export interface EnvPluginOptions {
  /** The environments on offer. Default: the built-in ones that run no code. */
  readonly environments?: readonly EnvironmentKind[];
  /** Concurrent episodes of one session; above it, the oldest ended one is closed. Default 256. */
  readonly maxEpisodes?: number;
  /** Concurrent episodes of one principal. Default 1,024. */
  readonly maxPrincipalEpisodes?: number;
  /** Transitions of an episode that `env/exp/list` can read, the newest. Default 1,000; 0 = none. */
  readonly storedSteps?: number;
  /** Their size, estimated, in bytes. Default 256 KiB. */
  readonly storedBytes?: number;
  /**
   * The data that outlives the host, of episodes whose reset names none. Absent: nothing does, and no request can ask for it;
   * the host opens no store.
   */
  readonly durability?: Durability;
  /** Durable episodes of one agent; above it, the oldest ended one is removed. Default 100. */
  readonly maxStoredEpisodes?: number;
  /** Steps of one `env/batch_step/req`. Default 1,024. */
  readonly maxBatch?: number;
  readonly newId?: () => string;
  /** Epoch milliseconds. */
  readonly now?: () => number;
}

export const defaultLimits: EpisodeLimits & {
  readonly maxBatch: number;
  readonly maxStoredEpisodes: number;
} = {
  maxStoredEpisodes: 100,
  maxEpisodes: 256,
  maxPrincipalEpisodes: 1024,
  storedSteps: 1000,
  storedBytes: 256 * 1024,
  maxBatch: 1024,
};

/** Maximum number of transitions of one reply. */
const MAX_TRANSITIONS = 10_000;
/**
 * Maximum number of elements of one reply to `env/sample/req`, and their approximate size as JSON: more does not fit into a
 * message.
 */
const MAX_SAMPLES = 10_000;
const MAX_SAMPLE_BYTES = 4 * 1024 * 1024;
/** Maximum number of listed actions if an environment suggests none. */
const MAX_SUGGESTIONS = 64;

/** Values of `mode`, mapped to the render modes of environments. */
const RENDER_MODES: Readonly<Record<string, RenderMode>> = {
  text: 'ansi',
  ansi: 'ansi',
  rgb_array: 'rgb_array',
  screenshot: 'rgb_array',
  png: 'rgb_array',
};

/** The env plugin of a host. Hosts join several into one. */
export interface EnvPlugin extends Plugin {
  /** The options it was made with. */
  readonly options: EnvPluginOptions;
}

/**
 * Puts environments into a host. Several plugins in one host, as of packages with environments, become one.
 *
 * Throws `config_invalid` for two environments of one id.
 * @example
 * export const plugin = envPlugin({ environments: [guess] });
 */
/** Checks of one principal that may wait for the running one. */
const MAX_WAITING_CHECKS = 64;

export function envPlugin(options: EnvPluginOptions = {}): EnvPlugin {
  const { environments: given = environmentKinds, now = Date.now, newId = () => crypto.randomUUID() } = options;
  const limits = { ...defaultLimits, ...withoutUndefined(options) };
  const kinds = byId(given);
  const { maxStoredEpisodes } = limits;
  const { durability } = options;
  const episodes = new Episodes({ kinds, limits, durability, maxStoredEpisodes, newId, now });
  const sessions = new Set<SessionView>();
  const spaces = new SpaceCache();
  // Checks of one principal run one after the other: concurrently they would hold up the host.
  const checks = new SharedSlots('checks', {
    total: Number.POSITIVE_INFINITY,
    perOwner: 1,
    queuePerOwner: MAX_WAITING_CHECKS,
  });

  const kindOf = (name: string, { session, grant }: CallContext): EnvironmentKind =>
    episodes.kind(name, session.principal, grant as EnvGrant | undefined);

  const describe = async ({ env_name, options: of }: Body<EnvSpaceReq>, context: CallContext) =>
    describeSpaces(await spaces.of(kindOf(env_name, context), of));

  /** Returns the space that a request names: by a description, or by an environment. */
  const spaceFor = async (
    { space, env_name, options: of }: Body<EnvContainsReq> | Body<EnvSampleReq>,
    context: CallContext,
  ): Promise<Space> => {
    if (isObject(space)) return spaceOf(space, '/space');
    if ((space !== 'action' && space !== 'observation') || env_name === undefined) {
      throw fail('schema_violation', 'space must be a description, or "action" or "observation" with env_name', {
        path: '/space',
      });
    }
    return (await spaces.of(kindOf(env_name, context), of))[space];
  };

  const plan = async ({ episode_id }: { readonly episode_id?: string | null }, context: CallContext) =>
    episode_id === undefined || episode_id === null
      ? { suggested_actions: [] }
      : { suggested_actions: suggestions(await episodes.find(episode_id, context)) };

  /** Steps a durable episode. Other sessions of the agent get a push about the step. */
  const durableStep = async (found: Soon<Episode>, action: JsonObject, context: CallContext) => {
    const episode = await found;
    const { session } = context;
    const obs = await episode.step(action, context);
    const { reward } = obs.metadata ?? {};
    const { principal, agentId } = session;
    for (const other of sessions) {
      if (other === session || other.principal.name !== principal.name || other.agentId !== agentId) continue;
      other.push(envStatePush, {
        episode_id: obs.episode_id,
        step_id: Math.max(0, obs.step_num - 1),
        action_id: null,
        event_type: 'Observation',
        reason: 'step of another session',
        delta: obs.state,
        reward: obs.reward ?? null,
        // A reward that JSON has no number for is a text, as in `metadata` of the observation.
        reward_info: typeof reward === 'string' ? { reward } : {},
        terminal: obs.done === true,
      });
    }
    return obs;
  };

  const step = (id: string, action: JsonObject, context: CallContext): Soon<EnvObservation> => {
    const episode = episodes.find(id, context);
    if (episode instanceof Promise || episode.durable) return durableStep(episode, action, context);
    return episode.step(action, context);
  };

  const plugin = definePlugin({
    name: 'env',
    type: 'env',
    ...envOffer(kinds.size, durability),
    needsStore: ({ type, episode_id, episode_ids, options: of }, session) => {
      if (type === envReset.request) return (isObject(of) ? (of.durability ?? durability) : durability) !== 'none';
      const ids = [episode_id, episode_ids].flat().filter((id) => typeof id === 'string' && id !== '');
      if (ids.length === 0) return type === envExpList.request;
      return ids.some((id) => !episodes.isPlain(id as string, session));
    },
    opened: (session) => void sessions.add(session),
    closed(session) {
      sessions.delete(session);
      episodes.closeAll(session);
    },
    methods: [
      handle(envReset, async ({ env_name, seed = null, options: of = {} }, context) => {
        const kind = kindOf(env_name, context);
        const request = { name: env_name, seed, options: of as JsonObject };
        return { obs: await episodes.start(kind, request, context) };
      }),
      handle(envStep, ({ episode_id, action }, context) => inReply(step(episode_id, action as JsonObject, context))),
      handle(envObserve, async ({ episode_id }, context) => ({
        obs: (await episodes.find(episode_id, context)).observe(),
      })),
      handle(envClose, async ({ episode_id }, context) => {
        await episodes.close(episode_id, context);
        return { closed: true };
      }),
      handle(envSpace, describe),
      handle(envSpaces, describe),
      handle(envRender, async ({ episode_id, mode }, context) =>
        render(await episodes.find(episode_id, context), mode),
      ),
      handle(envPlan, plan),
      handle(envPlanAsReply, plan),
      handle(envBatchStep, (request, context) =>
        batchStep(
          request,
          {
            step: (id, action) => step(id, action, context),
            observe: (id) => then(episodes.find(id, context), (episode) => episode.observe()),
          },
          limits,
        ),
      ),
      handle(envExpList, async ({ episode_id = '', limit = 100, after }, context) => {
        if (episode_id !== '')
          return { episodes: experience([await episodes.find(episode_id, context)], limit, after) };
        const others = episodes.stored(context).map(storedEpisode);
        return { episodes: [...others, ...experience([...episodes.of(context.session)], limit, after)] };
      }),
      handle(envList, (_, { session, grant }) => ({
        environments: episodes.allowed(session.principal, grant as EnvGrant | undefined).map(describeKind),
      })),
      handle(envContains, async (request, context) => {
        if (!('value' in request) && request.values === undefined) {
          throw fail('schema_violation', 'env/contains/req needs value, or values', { path: '/value' });
        }
        const space = await spaceFor(request, context);
        const isElement = (value: unknown): boolean => space.fromWire(value) !== undefined;
        if (request.values === undefined) return { contains: isElement(request.value) };
        const each = request.values.map(isElement);
        return { contains: each.every(Boolean), each };
      }),
      handle(envSample, async (request, context) => {
        const { n = 1, seed = null } = request;
        if (n > MAX_SAMPLES) throw fail('schema_violation', `n must be at most ${MAX_SAMPLES}`, { path: '/n' });
        const space = await spaceFor(request, context);
        const sample = space.sampler(seed);
        const samples: unknown[] = [];
        for (let bytes = 0; samples.length < n; ) {
          const value = space.toWire(sample());
          bytes += sizeOf(value);
          if (bytes > MAX_SAMPLE_BYTES) throw tooManySamples(samples.length);
          samples.push(value);
        }
        return { samples };
      }),
      handle(envCheck, async ({ env_name, options: of = {}, seed, steps }, context) => {
        const kind = kindOf(env_name, context);
        const { make = {} } = of as JsonObject;
        if (!isObject(make)) throw failure('invalid_options', 'options.make must be an object');
        const { checkEnvironment } = await import('./check/check.ts');
        const { signal, session } = context;
        const release = await checks.acquire(session.principal.name, signal);
        try {
          return await checkEnvironment(kind, make, { signal, seed: seed ?? 0, ...(steps !== undefined && { steps }) });
        } finally {
          release();
        }
      }),
    ],
    join: joined,
  });
  return { ...plugin, options };
}

/** @throws `config_invalid` for two environments of one id */
function byId(environments: readonly EnvironmentKind[]): Map<string, EnvironmentKind> {
  const kinds = new Map<string, EnvironmentKind>();
  for (const kind of environments) {
    if (kinds.has(kind.id)) {
      throw fail('config_invalid', `two environments have the id ${JSON.stringify(kind.id)}; rename one`);
    }
    kinds.set(kind.id, kind);
  }
  return kinds;
}

/**
 * Returns one plugin with the environments of several: episodes of one session count together, and their ids name no plugin.
 */
function joined(plugins: readonly Plugin[]): Plugin {
  const all = (plugins as readonly EnvPlugin[]).map(({ options }) => withoutUndefined(options));
  const options: Record<string, unknown> = {};
  for (const { environments: _, ...own } of all) {
    for (const [name, value] of Object.entries(own)) {
      if (Object.hasOwn(options, name) && options[name] !== value) {
        throw fail('config_invalid', `two plugins of env set ${name}; only one may`);
      }
      options[name] = value;
    }
  }
  const environments = all.flatMap((each) => each.environments ?? environmentKinds);
  return { ...envPlugin({ ...options, environments }), priority: plugins[0]?.priority ?? 0 };
}

/** Returns the defined options; the others have defaults. */
const withoutUndefined = (options: EnvPluginOptions): Partial<EnvPluginOptions> =>
  Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));

const tooManySamples = (count: number) =>
  fail('schema_violation', `only ${count} of these samples fit into ${MAX_SAMPLE_BYTES} bytes; lower n`, {
    path: '/n',
  });

const inReply = (obs: Soon<EnvObservation>): Soon<{ obs: EnvObservation }> => then(obs, (value) => ({ obs: value }));

/** Returns the result of `work`; if it fails, the result of `otherwise`. */
function orElse<Result>(work: () => Soon<Result>, otherwise: (thrown: unknown) => Soon<Result>): Soon<Result> {
  try {
    const result = work();
    return result instanceof Promise ? result.catch(otherwise) : result;
  } catch (thrown) {
    return otherwise(thrown);
  }
}

function describeKind(kind: EnvironmentKind) {
  const { id, about, maxEpisodeSteps, runsCode = false } = kind;
  return { id, about, max_episode_steps: maxEpisodeSteps ?? null, runs_code: runsCode, make: makeSchema(kind) };
}

async function render(episode: Episode, wanted: string | null | undefined): Promise<{ render: unknown }> {
  const name = wanted ?? 'screenshot';
  const mode = Object.hasOwn(RENDER_MODES, name) ? (RENDER_MODES[name] as RenderMode) : undefined;
  const { environment, kind } = episode;
  const { renderModes = [] } = environment;
  if (mode === undefined || !renderModes.includes(mode)) {
    const known = Object.keys(RENDER_MODES).filter((each) => renderModes.includes(RENDER_MODES[each]!));
    const offer = known.length === 0 ? 'it draws nothing' : `it knows ${known.join(', ')}`;
    throw fail('schema_violation', `${kind.id} has no mode ${JSON.stringify(name.slice(0, 64))}; ${offer}`, {
      path: '/mode',
      modes: known,
    });
  }
  const picture = await episode.inOrder(() => environment.render!(mode));
  if (typeof picture === 'string') return { render: picture };
  if (name === 'rgb_array') return { render: imageRows(picture) };
  // Compression is loaded for the first picture, not for the handshake.
  const { encodePng } = await import('./rendering/png.ts');
  return { render: { mime: 'image/png', base64: encodePng(picture).toString('base64') } };
}

/** Returns the suggestions of an environment; without them, every action of a small discrete space. */
function suggestions({ environment, ended }: Episode): JsonObject[] {
  if (ended) return [];
  const { actionSpace } = environment;
  const affordances = environment.affordances?.();
  if (affordances !== undefined) {
    return affordances.map(({ action, description }) => suggestion(actionSpace.toWire(action), description));
  }
  const { type, n, start = 0 } = actionSpace.describe() as { type?: string; n?: number; start?: number };
  if (type !== 'Discrete' || n === undefined || n > MAX_SUGGESTIONS) return [];
  return Array.from({ length: n }, (_, at) => suggestion(start + at));
}

const suggestion = (action: unknown, label?: string): JsonObject => ({
  action_type: 'step',
  payload: { action },
  metadata: label === undefined ? {} : { label },
});

function experience(of: readonly Episode[], limit: number, after: number | undefined): JsonObject[] {
  let left = Math.min(limit, MAX_TRANSITIONS);
  if (after !== undefined && of.length !== 1) {
    throw fail('schema_violation', 'after needs episode_id', { path: '/after' });
  }
  const newestFirst = [...of].reverse().map((episode) => {
    const { id, kind, steps, index, ended, trajectory } = episode;
    const transitions = after === undefined ? trajectory.newest(left) : trajectory.after(after, left);
    left -= transitions.length;
    return {
      episode_id: id,
      env_name: kind.id,
      step_num: steps,
      total_steps: index,
      status: ended ? 'ended' : 'running',
      first_index: transitions[0]?.index ?? null,
      transitions,
    };
  });
  return newestFirst.reverse();
}

/** Describes a durable episode that is not in memory: a request with its id reads its transitions. */
const storedEpisode = ({ id, env_name, status, durability }: EpisodeRecord): JsonObject => ({
  episode_id: id,
  env_name,
  status,
  durability,
  transitions: [],
});

interface BatchOf {
  step(id: string, action: JsonObject): Soon<EnvObservation>;
  observe(id: string): Soon<EnvObservation>;
}

/** Steps several episodes. A refused step has an error and the unchanged observation of its episode in its place. */
function batchStep(
  request: Body<EnvBatchStepReq>,
  { step, observe }: BatchOf,
  { maxBatch }: { readonly maxBatch: number },
): Soon<{ results: JsonObject[] }> {
  const { episode_ids, actions } = request;
  if (episode_ids.length !== actions.length) {
    throw fail(
      'schema_violation',
      `${counted(episode_ids.length, 'episode')}, but ${counted(actions.length, 'action')}`,
      {
        path: '/actions',
      },
    );
  }
  if (episode_ids.length > maxBatch) {
    throw fail('schema_violation', `a batch has at most ${counted(maxBatch, 'step')}`, {
      path: '/episode_ids',
      limit: maxBatch,
    });
  }
  const { id = '' } = request as { readonly id?: string };
  const one = (at: number): Soon<JsonObject> => {
    const episode = episode_ids[at] as string;
    // Clients of A2E 1.0 read an observation for every step: a refused one changed nothing and has no reward.
    const refused = (thrown: unknown): Soon<JsonObject> => {
      const { code, message, detail } = asError(thrown);
      return then(
        orElse(
          () => observe(episode),
          () => noEpisode(episode),
        ),
        (obs) => ({ ...stepReply({ ...obs, reward: 0 }, id, at), error: { code, message, detail } }),
      );
    };
    return orElse(() => then(step(episode, actions[at] as JsonObject), (obs) => stepReply(obs, id, at)), refused);
  };
  const results = episode_ids.map((_, at) => one(at));
  return results.some((result) => result instanceof Promise)
    ? Promise.all(results).then((all) => ({ results: all }))
    : { results: results as JsonObject[] };
}

/** Returns a whole `env/step/resp`, as an element of the reply to a batch. */
const stepReply = (obs: EnvObservation, request: string, at: number): JsonObject => ({
  type: envStep.reply,
  id: `${request}.${at}`,
  a2e: '1.0',
  version: '1.0',
  ts: obs.created_at,
  req_id: request,
  obs,
});

/** Returns the observation that stands for an episode which the session does not have. */
const noEpisode = (id: string): EnvObservation => ({ episode_id: id, step_num: 0, state: {}, done: true });
