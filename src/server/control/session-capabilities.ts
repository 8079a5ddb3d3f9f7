/**
 * The capabilities of a host that a model session uses beside its tools: memory and skills as tools, memory for the recall of a
 * turn, planning for the task list; environments, boards, learning, subagents, chains and processes as tools that a model finds
 * by search.
 *
 * One set for each session; `control/rounds/` decides when they are used. Every use is a request of an A2E session of the
 * session's owner: its rights, limits, journal and audit hold.
 */
import type { AgentSession } from '../../agent/agent.ts';
import { EnvClient } from '../../capabilities/env/client.ts';
import { LearningClient } from '../../capabilities/learning/client.ts';
import { PlanningClient } from '../../capabilities/planning/client.ts';
import { ProcClient } from '../../capabilities/proc/client.ts';
import { SkillClient } from '../../capabilities/skill/client.ts';
import type { CapabilityTool, OtherCapabilities } from '../../control/rounds/environment.ts';
import { MemoryCalls, memoryRisks, memoryTools } from '../../mcp-endpoint/memory-tools.ts';
import { isRun, skillsOf, skillToolName } from '../../mcp-endpoint/skills.ts';
import { capabilitiesChanged } from '../../protocol/a2e.ts';
import { fail } from '../../wire/errors.ts';
import { StoredPlan } from './session-plan.ts';
import { processTools } from './session-processes.ts';
import { workTools } from './session-work.ts';
import { foundOffer, given, optionalText, type Schema, text, textIn, textsIn } from './tool-parts.ts';

/** Capabilities that sessions ask hosts for beside `tools` and `toolkits`. */
export const OTHER_CAPABILITIES = [
  'memory',
  'planning',
  'skill',
  'env',
  'learning',
  'multi_agent',
  'chains',
  'proc',
] as const;

/** Further skills than these are found by search. */
const MAX_LISTED_SKILLS = 16;

const NO_TOOLS: Promise<readonly CapabilityTool[]> = Promise.resolve([]);

/** Returns the granted capabilities; undefined where none was granted. */
export function otherCapabilities(agent: AgentSession): OtherCapabilities | undefined {
  const has = (name: string): boolean => agent.capabilities.get(name)?.enabled === true;
  if (!OTHER_CAPABILITIES.some(has)) return undefined;
  const memory = has('memory') ? new MemoryCalls(agent, 'session') : undefined;
  const planning = has('planning') ? new PlanningClient(agent) : undefined;
  const skill = has('skill') ? new SkillClient(agent) : undefined;
  /** Ids of the episodes that the model has not closed: they end with this session. */
  const episodes = new Set<string>();
  const fixed = [
    ...(memory === undefined ? [] : toolsOfMemory(memory)),
    ...(planning === undefined ? [] : toolsOfPlanning(planning)),
    ...(has('env') ? toolsOfEnvironments(new EnvClient(agent), episodes) : []),
    ...(has('learning') ? toolsOfLearning(new LearningClient(agent)) : []),
    ...workTools(agent),
  ];
  // Kept between the rounds of a turn, which all list the tools.
  let skills: Promise<readonly CapabilityTool[]> | undefined;
  if (skill !== undefined) {
    agent.on(capabilitiesChanged, ({ capability }) => {
      if (capability === 'skill') skills = undefined;
    });
  }
  const listedSkills = ({ timeoutMs, again }: { timeoutMs?: number; again?: boolean }) => {
    if (again === true) skills = undefined;
    skills ??= toolsOfSkills(skill, given({ timeoutMs }));
    return skills;
  };
  const proc = has('proc') ? new ProcClient(agent) : undefined;
  let processes: Promise<readonly CapabilityTool[]> | undefined;
  // Without an answer, processes are left out until the next turn; the other granted capabilities stay.
  const listedProcesses = ({ timeoutMs, again }: { timeoutMs?: number; again?: boolean }) => {
    if (again === true) processes = undefined;
    processes ??= proc === undefined ? NO_TOOLS : proc.programs(given({ timeoutMs })).then(processTools, () => []);
    return processes;
  };
  // This session with the host is of one control session.
  let plan: StoredPlan | undefined;
  return {
    holds: () => episodes.size > 0,
    tools: async (options) => {
      const [skills, processes] = await Promise.all([listedSkills(options), listedProcesses(options)]);
      return [...fixed, ...processes, ...skills];
    },
    ...(memory !== undefined && {
      recall: (text, { limit, signal }) => memory.relevant(text, limit, signal),
    }),
    ...(planning !== undefined && {
      plan: (session) => {
        plan ??= new StoredPlan(planning, session);
        return plan;
      },
    }),
  };
}

const toolsOfMemory = (memory: MemoryCalls): CapabilityTool[] =>
  memoryTools.map(({ name, description, inputSchema }) => ({
    offer: { name, description, inputSchema: inputSchema as Schema, kind: 'memory', risks: memoryRisks(name) },
    run: (input, { signal }) => memory.call(name, input, signal),
  }));

async function toolsOfSkills(
  client: SkillClient | undefined,
  options: { readonly timeoutMs?: number },
): Promise<CapabilityTool[]> {
  if (client === undefined) return [];
  const skills = (await skillsOf(client, options)).filter(isRun);
  return skills.map(({ name, description, input_schema }, at) => ({
    offer: {
      name: skillToolName(name),
      description,
      inputSchema: { ...input_schema, type: 'object' },
      kind: 'skill',
      risks: [],
      deferred: at >= MAX_LISTED_SKILLS,
    },
    run: async (input, call) => (await client.call(name, input, call)).data,
  }));
}

/** A tool that is found by search. */
const found = (
  kind: string,
  name: string,
  description: string,
  risks: readonly string[],
  properties: Schema,
  required: readonly string[],
  run: CapabilityTool['run'],
): CapabilityTool => ({ offer: foundOffer(kind, name, description, risks, properties, required), run });

const PLAN = { plan_id: text('Id of the plan, as plan_boards has it.') };

function toolsOfPlanning(planning: PlanningClient): CapabilityTool[] {
  const status = text('A column of the plan.');
  return [
    found(
      'planning',
      'plan_boards',
      'The plans of the user with their tasks by column: shared task boards, not your own task list.',
      ['reads'],
      { plan_id: text('One plan. Left out: all.') },
      [],
      ({ plan_id }, call) => Promise.resolve(planning.boards(optionalText(plan_id, 'plan_id'), { limit: 50 }, call)),
    ),
    found(
      'planning',
      'plan_task_add',
      'Adds a task to a plan of the user.',
      ['writes'],
      { ...PLAN, title: text('The work to do.'), description: text('More of it.'), status },
      ['plan_id', 'title'],
      ({ plan_id, title, description, status }, call) =>
        Promise.resolve(
          planning.add(
            textIn(plan_id, 'plan_id'),
            textIn(title, 'title'),
            given({ description: optionalText(description, 'description'), status: optionalText(status, 'status') }),
            call,
          ),
        ),
    ),
    found(
      'planning',
      'plan_task_update',
      'Changes the status or the title of a task in a plan of the user, or says something about it.',
      ['writes'],
      {
        ...PLAN,
        task_id: text('Id of the task.'),
        status,
        title: text('A new title.'),
        comment: text('A comment on it.'),
      },
      ['plan_id', 'task_id'],
      ({ plan_id, task_id, status, title, comment }, call) =>
        Promise.resolve(
          planning.update(
            textIn(plan_id, 'plan_id'),
            textIn(task_id, 'task_id'),
            given({
              status: optionalText(status, 'status'),
              title: optionalText(title, 'title'),
              comment: optionalText(comment, 'comment'),
            }),
            call,
          ),
        ),
    ),
  ];
}

function toolsOfEnvironments(env: EnvClient, episodes: Set<string>): CapabilityTool[] {
  const episode = { episode_id: text('Id of the episode, as env_reset gave it.') };
  return [
    found(
      'env',
      'env_list',
      'The environments of the host: simulated tasks and games that are played step by step.',
      ['reads'],
      {},
      [],
      (_input, call) => Promise.resolve(env.list(call)),
    ),
    found(
      'env',
      'env_reset',
      'Starts an episode of an environment. Gives its id, the first observation, and what can be done.',
      ['reads'],
      { name: text('The environment, as env_list has it.'), seed: { type: 'integer', minimum: 0 } },
      ['name'],
      async ({ name, seed }, call) => {
        const options = Number.isSafeInteger(seed) ? { seed: seed as number } : {};
        const started = await env.reset(textIn(name, 'name'), options, call);
        episodes.add(started.id);
        return {
          episode_id: started.id,
          observation: started.observation,
          // Many environments suggest nothing.
          suggestions: await started.suggestions(call).catch(() => []),
        };
      },
    ),
    found(
      'env',
      'env_step',
      'Takes one action in an episode. Gives observation, reward, and whether the episode has ended.',
      ['reads'],
      {
        ...episode,
        action: { description: 'The action: a number, a list, an object or a text, as the environment has it.' },
      },
      ['episode_id', 'action'],
      async ({ episode_id, action }, call) => {
        if (action === undefined) throw fail('schema_violation', '/action is missing');
        const played = await env.episode(textIn(episode_id, 'episode_id'), call);
        return played.step(action, call);
      },
    ),
    found('env', 'env_close', 'Ends an episode.', ['reads'], episode, ['episode_id'], async ({ episode_id }, call) => {
      const id = textIn(episode_id, 'episode_id');
      await (await env.episode(id, call)).close(call);
      episodes.delete(id);
      return { closed: true };
    }),
  ];
}

function toolsOfLearning(learning: LearningClient): CapabilityTool[] {
  return [
    found(
      'learning',
      'learning_decide',
      'Chooses one of several named options by what earlier rewards taught. Send what came of it with learning_reward.',
      ['reads'],
      {
        choice: text('Name of the choice; the same name learns from the same rewards.'),
        options: { type: 'array', items: { type: 'string' }, minItems: 1, description: 'Names of the options.' },
      },
      ['choice', 'options'],
      ({ choice, options }, call) =>
        Promise.resolve(learning.decide(textIn(choice, 'choice'), textsIn(options, 'options'), call)),
    ),
    found(
      'learning',
      'learning_reward',
      'Tells what came of a decision of learning_decide: 0 for a failure to 1 for a success.',
      ['reads'],
      {
        experience_id: text('As learning_decide gave it.'),
        reward: { type: 'number', minimum: 0, maximum: 1, description: 'How well it went.' },
      },
      ['experience_id', 'reward'],
      async ({ experience_id, reward }, call) => {
        if (typeof reward !== 'number') throw fail('schema_violation', '/reward must be a number');
        return { rewarded: await learning.reward(textIn(experience_id, 'experience_id'), reward, call) };
      },
    ),
  ];
}
