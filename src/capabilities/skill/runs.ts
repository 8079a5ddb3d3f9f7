/**
 * Runs skills: verifies the files, checks arguments and result, and gives the code in the sandbox its grants: the tools that it
 * names, each called as the caller of the skill, with the caller's rights and within the caller's time.
 *
 * One sandbox serves all runs; it is tried before the first.
 */
import { counted } from '../../base/counted.ts';
import { foreignSchemas } from '../../base/foreign-schemas.ts';
import { orAborted } from '../../base/race.ts';
import { viewOf } from '../../base/workspace/path-cover.ts';
import { protectedPath } from '../../base/workspace/protected-paths.ts';
import type { CallContext } from '../../host/context.ts';
import { named } from '../../session/rights.ts';
import { asError, fail, type HandfastError } from '../../wire/errors.ts';
import { toolCall } from '../tools/messages.ts';
import { contextOf } from './context.ts';
import { failure } from './errors.ts';
import { textOf } from './folder/files.ts';
import type { LoadedSkill } from './folder/library.ts';
import { ANY_ARGUMENTS, whatOf } from './folder/skill-file.ts';
import type { SkillGrant } from './offer.ts';
import { Conversation, type Granted } from './sandbox/conversation.ts';
import type { Probe, Sandbox, Tier, View } from './sandbox/sandbox.ts';
import type { SkillResult } from './skill.schema.ts';

export interface RunLimits {
  readonly maxSeconds: number;
  readonly maxResultChars: number;
  readonly maxPrintedChars: number;
  readonly maxContextChars: number;
  readonly maxCalls: number;
  readonly maxEvents: number;
  readonly maxRuns: number;
}

/** The known state of the sandbox that the configuration requires. */
export interface SandboxState {
  readonly tier: Tier;
  /** Undefined: it was not tried yet. */
  readonly inForce: boolean | undefined;
  readonly reason?: string;
  readonly probe?: Probe;
}

/** Maximum time that a run waits for its share of the threads or processes of the host. */
const SLOT_WAIT_MS = 5_000;
/** Time after which a sandbox that did not work is probed again. */
const PROBE_AGAIN_MS = 30_000;

export class Runs {
  readonly #sandbox: Sandbox;
  readonly #limits: RunLimits;
  readonly #running = new Map<string, number>();
  readonly #onProbed: () => void;
  readonly #showsWorkspace: boolean;
  #probing: Promise<void> | undefined;
  /** End of the last probe, monotonic milliseconds; infinite while one runs. */
  #probedAt = Number.POSITIVE_INFINITY;
  #state: SandboxState;

  /**
   * @param showsWorkspace skills may read the workspace
   * @param onProbed called when the result of the probe is known
   */
  constructor(sandbox: Sandbox, limits: RunLimits, showsWorkspace: boolean, onProbed: () => void) {
    this.#sandbox = sandbox;
    this.#limits = limits;
    this.#onProbed = onProbed;
    this.#showsWorkspace = showsWorkspace;
    this.#state = { tier: sandbox.tier, inForce: undefined };
  }

  get state(): SandboxState {
    return this.#state;
  }

  /** Tries the sandbox, once. Fails with `skill.no_sandbox`. */
  async ready(): Promise<void> {
    // A probe that failed for lack of descriptors or processes may succeed later.
    if (this.#state.inForce === false && performance.now() - this.#probedAt > PROBE_AGAIN_MS) this.#probing = undefined;
    this.#probing ??= this.#probe();
    await this.#probing;
    const { tier, inForce, reason = '' } = this.#state;
    if (inForce) return;
    throw failure(
      'no_sandbox',
      `the sandbox ${tier}, which this host requires for skills, does not work here: ${reason}`,
      {
        tier,
        reason,
      },
    );
  }

  close(): Promise<void> {
    return this.#sandbox.close();
  }

  /**
   * Runs a skill. Fails with `schema_violation` for arguments, `skill_error`, `out_of_memory`, `sandbox_crash`, `timeout`,
   * `skill.no_sandbox`, `over_capacity`.
   */
  async run(loaded: LoadedSkill, given: Readonly<Record<string, unknown>>, context: CallContext): Promise<SkillResult> {
    const { skill } = loaded;
    const args =
      skill.parameters === ANY_ARGUMENTS
        ? given
        : await foreignSchemas.check(skill.parameters, given, {
            what: whatOf('parameters', skill.name),
            signal: context.signal,
          });
    const common = {
      success: true,
      summary: null,
      error: null,
      error_code: null,
      events: [],
      skill_version: skill.version,
    };
    const duration = () => Math.round(performance.now() - context.startedAt);
    if (skill.entry === undefined) {
      const { data, leftOut } = contextOf(loaded, this.#limits.maxContextChars);
      const more = leftOut.length > 0 ? `, ${leftOut.length} left out` : '';
      return {
        ...common,
        data,
        summary: `instructions and ${counted(data.resources.length, 'file')}${more}`,
        truncated: leftOut.some(({ reason }) => reason === 'size'),
        left_out: [...leftOut],
        digest: skill.digest,
        duration_ms: duration(),
      };
    }
    context.limit(Math.min(skill.timeoutSeconds ?? Number.POSITIVE_INFINITY, this.#limits.maxSeconds) * 1000);
    const release = this.#count(context);
    try {
      await orAborted(this.ready(), context.signal);
      const data = await this.#inside(loaded, args, context);
      return {
        ...common,
        data,
        truncated: false,
        digest: skill.digest,
        tier: this.#sandbox.tier,
        duration_ms: duration(),
      };
    } finally {
      release();
    }
  }

  async #probe(): Promise<void> {
    const { tier } = this.#sandbox;
    this.#probedAt = Number.POSITIVE_INFINITY;
    try {
      this.#state = { tier, inForce: true, probe: await this.#sandbox.probe() };
    } catch (error) {
      this.#state = { tier, inForce: false, reason: (error as Error).message };
    }
    this.#probedAt = performance.now();
    this.#onProbed();
  }

  /** Counts a run of the principal. Fails with `over_capacity`. */
  #count({ session, grant }: CallContext): () => void {
    const max = (grant as SkillGrant | undefined)?.max_runs ?? this.#limits.maxRuns;
    const { name } = session.principal;
    const running = this.#running.get(name) ?? 0;
    if (running >= max)
      throw fail(
        'over_capacity',
        `${counted(max, 'skill of this principal runs', 'skills of this principal run')} already`,
        { limit: max },
      );
    this.#running.set(name, running + 1);
    return () => {
      const left = (this.#running.get(name) ?? 1) - 1;
      if (left > 0) this.#running.set(name, left);
      else this.#running.delete(name);
    };
  }

  async #viewFor(context: CallContext): Promise<View | undefined> {
    return this.#showsWorkspace ? workspaceView(context) : undefined;
  }

  async #inside({ skill, files }: LoadedSkill, args: unknown, context: CallContext): Promise<unknown> {
    const { maxResultChars, maxPrintedChars, maxCalls, maxEvents } = this.#limits;
    const slot = this.#sandbox.tier === 'quickjs' ? context.acquireThread : context.acquireProcess;
    const release = await slot.call(context, context.signal, SLOT_WAIT_MS);
    const view = await this.#viewFor(context).catch((thrown: unknown) => {
      release();
      throw thrown;
    });
    const ended = new AbortController();
    const granted = grantedTo(skill.allowedTools, context, ended.signal);
    const limits = { maxMessageChars: maxResultChars, maxPrintedChars, maxCalls, maxEvents };
    const conversation = new Conversation(granted, limits);
    const stop = new AbortController();
    const late = (): void => {
      stop.abort();
      conversation.fail(context.signal.reason as HandfastError);
    };
    context.signal.addEventListener('abort', late, { once: true });
    if (context.signal.aborted) late();
    const job = { files: textsOf(files), entry: skill.entry as string, args, view };
    const endWatch = view?.watch(() => {
      conversation.fail(
        fail('tool_denied', 'the skill was ended: a protected folder appeared in its view', {
          reason: 'protected_path',
        }),
      );
      stop.abort();
    });
    // Its slot is free once no part of the run executes any more.
    const over = this.#sandbox
      .run(job, conversation, stop.signal)
      .catch((thrown: unknown) => conversation.fail(asError(thrown)))
      .then(() => conversation.fail(failure('crash', 'the sandbox ended without a result', { reason: 'ended' })))
      .finally(release);
    try {
      await context.emit('skill.started', { skill: skill.name, version: skill.version });
      const value = await conversation.result;
      const result =
        skill.result === undefined
          ? (value ?? null)
          : await foreignSchemas.check(skill.result, value ?? null, {
              what: whatOf('result', skill.name),
              signal: context.signal,
            });
      await context.emit('skill.completed', { skill: skill.name });
      return result;
    } catch (thrown) {
      if (!context.signal.aborted)
        await context.emit('skill.failed', { skill: skill.name, code: asError(thrown).code });
      throw thrown;
    } finally {
      endWatch?.();
      // Calls that the run did not await end with it.
      ended.abort();
      stop.abort();
      context.signal.removeEventListener('abort', late);
      void over;
    }
  }
}

/** Returns the tools that a skill may call, and the receiver of its events. */
function grantedTo(allowedTools: readonly string[], context: CallContext, signal: AbortSignal): Granted {
  return {
    async call(tool, args) {
      if (!named(allowedTools, tool)) {
        const name = JSON.stringify(tool.slice(0, 64));
        throw fail('tool_denied', `allowed-tools of this skill does not name ${name}`, { tool: tool.slice(0, 64) });
      }
      await context.emit('tool.started', { tool });
      try {
        const body = { tool_name: tool, arguments: args as Record<string, unknown>, timeout: 0 };
        const { data } = await context.call(toolCall, body, { signal });
        await context.emit('tool.completed', { tool });
        return data.data;
      } catch (error) {
        if (!signal.aborted) await context.emit('tool.failed', { tool, code: asError(error).code });
        throw error;
      }
    },
    event: (kind, data) => (signal.aborted ? undefined : context.emit(kind, { ...data })),
  };
}

/** Returns the view of the workspace, without the paths that are protected from the caller. */
async function workspaceView({ workspace, pathGuard: guard, signal }: CallContext): Promise<View> {
  if (guard?.above(workspace) === 'all') throw protectedPath('.');
  return { folder: workspace, ...(await viewOf(workspace, guard, signal)) };
}

/** Returns the texts of a skill's files, without files that are no text. */
function textsOf(files: ReadonlyMap<string, Buffer>): Record<string, string> {
  const texts: Record<string, string> = Object.create(null);
  for (const [path, bytes] of files) {
    const text = textOf(bytes);
    if (text !== undefined) texts[path] = text;
  }
  return texts;
}

/** Returns true when a principal with this grant may use a skill. */
export const mayUse = (grant: unknown, name: string): boolean =>
  named((grant as SkillGrant | undefined)?.skills ?? ['*'], name);
