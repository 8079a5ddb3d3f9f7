/**
 * The skill capability of an agent: `agent.skill`. Present only when the agent asked for `skill`.
 *
 * @see docs/skill.md
 */
import type { AgentSession } from '../../agent/agent.ts';
import type { Call, CallOptions } from '../../connection/call.ts';
import { answered } from '../../protocol/method.ts';
import { HandfastError } from '../../wire/errors.ts';
import * as messages from './messages.ts';
import * as replies from './skill.replies.generated.ts';
import type { SkillCallResp, SkillDefinition, SkillFile, SkillProblem, SkillResult } from './skill.schema.ts';

const calls = {
  discover: answered(messages.skillDiscover, replies.SkillDiscoverResp),
  describe: answered(messages.skillDescribe, replies.SkillDescribeResp),
  call: answered(messages.skillCall, replies.SkillCallResp),
};

export interface SkillFilter {
  /** Selects skills with any of these tags. */
  readonly tags?: readonly string[];
  /** Selects skills of one of these categories. */
  readonly categories?: readonly string[];
}

export interface SkillCallOptions extends CallOptions {
  /** A version other than the one that the name means. */
  readonly version?: string;
  /** Runs the skill only if its files have this digest. */
  readonly digest?: string;
  /** Free text stored with the call. */
  readonly correlationId?: string;
}

/** A skill with its instructions, files and versions. */
export interface SkillDescription {
  readonly skill: SkillDefinition;
  /** The manifest of its files. */
  readonly files: readonly SkillFile[];
  /** All its versions, the newest first. */
  readonly versions: readonly string[];
  /** The file that a call runs; null: none, a call returns its instructions. */
  readonly entry: string | null;
  /** The folder it was found in; for administrators. */
  readonly root?: string;
}

/** The sandbox in which the code of skills runs. */
export interface SkillSandbox {
  readonly tier: 'quickjs' | 'process' | 'bubblewrap';
  /** Whether it works on the host's machine; null: the host has not tried it yet. */
  readonly in_force: boolean | null;
  /** The reason why it does not work. */
  readonly reason?: string;
  /** Whether a skill in it reaches the network. */
  readonly network?: 'blocked' | 'open';
  /** Limits of the system that are in force, by name. */
  readonly limits?: Readonly<Record<string, number>>;
}

export class SkillClient {
  readonly #agent: AgentSession;

  constructor(agent: AgentSession) {
    this.#agent = agent;
  }

  /** The present state of the host's sandbox; undefined: the host does not report it. */
  get sandbox(): SkillSandbox | undefined {
    return this.#agent.capabilities.get('skill')?.metadata.sandbox as SkillSandbox | undefined;
  }

  /** Returns the skills that this principal may use, by name, each in the version that its name means. */
  list(filter: SkillFilter = {}, options: CallOptions = {}): Call<readonly SkillDefinition[]> {
    return this.#agent.calls.call(calls.discover, bodyOf(filter), options, ({ skills = [] }) => skills);
  }

  /** Returns the skills that were not loaded, with the reasons; for administrators, else empty. */
  problems(options: CallOptions = {}): Call<readonly SkillProblem[]> {
    return this.#agent.calls.call(calls.discover, bodyOf({}), options, ({ problems = [] }) => problems);
  }

  /** Returns a skill with all details. Rejects with `unknown_skill`. */
  describe(name: string, { version, ...options }: CallOptions & { version?: string } = {}): Call<SkillDescription> {
    const body = { name, ...(version !== undefined && { skill_version: version }) };
    return this.#agent.calls.call(calls.describe, body, options);
  }

  /**
   * Runs a skill: await it for the result, iterate it for the events. A skill without code returns its instructions and files.
   *
   * Rejects with `unknown_skill`, `schema_violation` (`detail.path`), `skill_error`, `skill.changed`, `skill.no_sandbox`,
   * `sandbox_crash`, `out_of_memory`, `timeout`, `cancelled`, `over_capacity`.
   * @example const { data } = await agent.skill.call('summarise', { path: 'README.md' }, { timeoutMs: 10_000 });
   */
  call<Data = unknown>(
    name: string,
    args: Readonly<Record<string, unknown>> = {},
    { version, digest, correlationId, ...options }: SkillCallOptions = {},
  ): Call<SkillResult & { data?: Data }> {
    const { calls: caller } = this.#agent;
    const body = {
      name,
      arguments: { ...args },
      streaming: false,
      // Whole seconds, rounded up: the client's deadline is the exact one.
      timeout: Math.ceil((options.timeoutMs ?? caller.limits.timeoutMs) / 1000),
      ...(version !== undefined && { skill_version: version }),
      ...(digest !== undefined && { digest }),
      ...(correlationId !== undefined && { correlation_id: correlationId }),
    };
    return caller.call(calls.call, body, options, resultOf as (reply: SkillCallResp) => SkillResult & { data?: Data });
  }
}

const bodyOf = ({ tags = [], categories = [] }: SkillFilter) => ({
  filter_tags: [...tags],
  filter_categories: [...categories],
});

/** Returns the result of a call; a failed one becomes the error that this host would have sent. */
function resultOf({ data, error }: SkillCallResp): SkillResult {
  if (data?.success) return data;
  const { code = data?.error_code, message = data?.error } = (error ?? {}) as { code?: string; message?: string };
  throw new HandfastError(code || 'skill_error', message || 'the skill failed', { capability: 'skill' });
}
