/**
 * The subagents of a host: their owners, their limits, their stored records and their notifications.
 *
 * A subagent belongs to an agent of a principal. Only that agent and the agents above it reach the subagent. Its stored record
 * and results outlive the session that made it; the subagent ends with that session and with the host.
 */
import { randomBytes } from 'node:crypto';
import { Budget } from '../../base/budget.ts';
import type { CallContext, SessionView } from '../../host/context.ts';
import type { PluginContext } from '../../host/plugin.ts';
import type { Store } from '../../host/store/store.ts';
import type { Principal } from '../../session/principal.ts';
import { grantOf, may, named } from '../../session/rights.ts';
import { asError, type HandfastError } from '../../wire/errors.ts';
import type { SubagentBackend } from './backend.ts';
import { failure } from './errors.ts';
import { subagentEvent } from './messages.ts';
import type { SubagentMessage } from './multi_agent.schema.ts';
import { type Delegable, delegable, type MultiAgentGrant } from './rights.ts';
import { type Budgets, Subagent, type SubagentDeps, type SubagentSettings, type SubagentStatus } from './subagent.ts';
import type { StoredTask } from './task.ts';

/** A kind of subagent. */
export interface Kind {
  readonly name: string;
  readonly about: string;
  readonly backend: SubagentBackend;
  readonly capabilities?: readonly string[] | undefined;
  readonly tools?: SubagentSettings['tools'];
  readonly delegate?: Delegable | undefined;
  /** Longest time of a task, milliseconds. */
  readonly timeoutMs?: number | undefined;
  /** Maximum number of concurrent subagents of this kind. */
  readonly maxRunning?: number | undefined;
}

export interface SubagentLimits {
  /** Open subagents of one principal. */
  readonly maxSubagents: number;
  readonly maxDepth: number;
  /** Ended subagents of one agent whose results stay. */
  readonly maxEnded: number;
  readonly maxResultChars: number;
}

/** A stored subagent, under `sub/<id>` of the agent that made it. */
interface StoredSubagent {
  readonly id: string;
  /** The run of the host in which it was open. */
  readonly run: string;
  readonly depth: number;
  /**
   * Its number in the order of all subagents, the oldest first: the clock may be set back. Absent in records that are older
   * than this member.
   */
  readonly order?: number;
  readonly backend: string;
  readonly created_at: number;
  readonly ended_at: number;
  readonly status: SubagentStatus;
  readonly settings: SubagentSettings;
  readonly tasks: readonly StoredTask[];
  /** Absent: no session of session RPC ran it. */
  readonly control_session?: string;
}

/** An agent with subagents: of one name, of one principal. */
interface Owner {
  readonly key: string;
  readonly agentId: string;
  readonly principal: Principal;
  readonly store: Store;
  readonly own: Map<string, Subagent>;
  readonly budgets: Budgets;
  /** Shared by its subagents. */
  deps?: SubagentDeps | undefined;
}

const keyOf = (principal: string, agentId: string): string => JSON.stringify([principal, agentId]);
const keyOfSession = ({ principal, agentId }: SessionView): string => keyOf(principal.name, agentId);
const hex = (bytes: number): string => randomBytes(bytes).toString('hex');

export class Subagents {
  readonly #limits: SubagentLimits;
  readonly #owners = new Map<string, Owner>();
  /** The session of the last request of each principal. */
  readonly #lastAsked = new Map<string, SessionView>();
  /** By principal: an agent with another name has no other budget. */
  readonly #budgets = new Map<string, Budgets>();
  readonly #byId = new Map<
    string,
    { readonly subagent: Subagent; readonly owner: Owner; readonly madeIn: SessionView | undefined }
  >();
  readonly #sessions = new Map<string, Set<SessionView>>();
  /** Signals whose abort ends the subagents of their session. */
  readonly #followed = new WeakSet<AbortSignal>();
  readonly #run = hex(8);
  /** The last number that was given; the stored records of an agent are read before its subagents have further events. */
  #order = 0;
  #context: PluginContext | undefined;

  constructor(limits: SubagentLimits) {
    this.#limits = limits;
  }

  start(context: PluginContext): void {
    this.#context = context;
  }

  opened(session: SessionView): void {
    const key = keyOfSession(session);
    const all = this.#sessions.get(key) ?? new Set();
    this.#sessions.set(key, all.add(session));
  }

  /** Ends the subagents of a closed session; their results stay. */
  closed(session: SessionView): void {
    const key = keyOfSession(session);
    const all = this.#sessions.get(key);
    all?.delete(session);
    if (all?.size === 0) this.#sessions.delete(key);
    const ended = this.#endOf(session, asError(session.signalOf(CAPABILITY).reason));
    // A subagent is unloaded with the agent above it.
    if (session.principal.subagent === undefined) void ended.then(() => this.#unload(key));
  }

  /**
   * Ends the subagents of a session with it, and when the session loses the right to them: even one that another capability
   * uses for the session.
   */
  #endsWith(session: SessionView): void {
    const signal = session.signalOf(CAPABILITY);
    if (this.#followed.has(signal)) return;
    this.#followed.add(signal);
    signal.addEventListener('abort', () => void this.#endOf(session, asError(signal.reason)), { once: true });
  }

  async #endOf(session: SessionView, { code }: HandfastError): Promise<void> {
    const error =
      session.suspended === true
        ? failure('interrupted', 'the host stopped')
        : code === 'capability_missing'
          ? failure('terminated', 'the agent above may have no subagents any more')
          : failure('terminated', 'the session of the agent above has ended', { session_ended: true });
    const own = [...this.#byId.values()].filter(({ madeIn }) => madeIn === session);
    await Promise.all(own.map(({ subagent }) => subagent.end('TERMINATED', error, session.suspended === true)));
  }

  /** Ends all subagents and stores their ends. */
  async stop(): Promise<void> {
    const error = failure('interrupted', 'the host stopped');
    await Promise.all([...this.#byId.values()].map(({ subagent }) => subagent.end('TERMINATED', error, true)));
  }

  /** Makes a subagent. Rejects with `denied`, `limit`, `budget_spent`, `not_started`, `interrupted`, and with `disk_full` and the like. */
  async spawn(
    kind: Kind,
    settings: SubagentSettings,
    budget: { readonly tokens?: number | undefined; readonly cost_usd?: number | undefined },
    context: CallContext,
  ): Promise<Subagent> {
    const { session } = context;
    const owner = this.#owner(context);
    const grant = grantOfRoot(session.principal);
    const parent = this.#self(session);
    if (session.principal.subagent !== undefined && parent?.isOpen !== true) {
      throw failure('ended', 'this subagent has ended and makes no others');
    }
    if (grant.kinds !== undefined && !named(grant.kinds, kind.name)) {
      throw failure('denied', `the grant does not include the kind ${JSON.stringify(kind.name)}`, { kind: kind.name });
    }
    const depth = (parent?.depth ?? 0) + 1;
    this.#mustBeBelow('depth', depth - 1, grant.max_depth ?? this.#limits.maxDepth);
    const open = [...this.#byId.values()].filter(({ subagent }) => subagent.isOpen);
    const ofPrincipal = open.filter((one) => one.owner.principal.name === session.principal.name);
    this.#mustBeBelow('subagents', ofPrincipal.length, grant.max_subagents ?? this.#limits.maxSubagents);
    if (kind.maxRunning !== undefined) {
      const ofKind = open.filter(({ subagent }) => subagent.settings.kind === kind.name);
      this.#mustBeBelow(`kind ${kind.name}`, ofKind.length, kind.maxRunning);
    }
    const above = parent?.budgets ?? owner.budgets;
    const id = this.#newId();
    let made: Subagent | undefined;
    const budgetOf = (unit: 'tokens' | 'cost', asked: number | undefined): Budget => {
      const left = above[unit].left;
      if (left !== null && left <= 0) {
        throw failure('budget_spent', `no ${unit} are left to give`, { unit });
      }
      const limit = asked === undefined ? null : Math.min(asked, left ?? asked);
      const spent = (total: number, most: number) => made?.exhausted(unit, total, most);
      return new Budget(limit, { notice: () => {}, spent }, above[unit]);
    };
    const budgets = { tokens: budgetOf('tokens', budget.tokens), cost: budgetOf('cost', budget.cost_usd) };
    const facts = {
      id,
      settings,
      parent,
      backend: kind.backend.name,
      createdAt: Date.now(),
      order: ++this.#order,
      depth,
    };
    const subagent = new Subagent(facts, this.#deps(owner), { budgets });
    made = subagent;
    owner.own.set(id, subagent);
    this.#byId.set(id, { subagent, owner, madeIn: session });
    this.#endsWith(session);
    await subagent.start(kind.backend, {
      workspace: context.workspace,
      log: context.log,
      principal: session.principal.name,
      madeIn: session.id,
      rights: (principal) => this.#rights(subagent, principal),
      acquireProcess: () => context.acquireProcess(subagent.signal),
    });
    try {
      await this.#store(owner, subagent);
    } catch (error) {
      await subagent.end('TERMINATED', failure('not_started', 'the subagent could not be stored'));
      this.#forget(owner, subagent);
      throw error;
    }
    return subagent;
  }

  /** Returns a subagent that this session may act on: its own, or one below those. Fails with `unknown_subagent`. */
  find(id: string, context: CallContext): Subagent {
    const key = keyOfSession(context.session);
    this.#owner(context);
    let at = this.#byId.get(id);
    const { subagent } = at ?? {};
    for (; at !== undefined; at = at.subagent.parent && this.#byId.get(at.subagent.parent.id)) {
      if (at.owner.key === key) return subagent as Subagent;
    }
    // An absent subagent and one of another agent get the same error.
    throw failure('unknown', `there is no subagent ${JSON.stringify(id.slice(0, 64))} of this agent`);
  }

  /** Returns the open subagent whose session this is. */
  self(session: SessionView): Subagent {
    const own = this.#self(session);
    if (own?.isOpen === true) return own;
    throw failure('denied', 'only the session of a subagent has tasks to fetch');
  }

  /** Returns the subagent whose session this is; undefined: none. */
  selfOf(session: SessionView): Subagent | undefined {
    return this.#self(session);
  }

  byId(id: string): Subagent | undefined {
    return this.#byId.get(id)?.subagent;
  }

  /** Returns the agent of a session as one key. */
  keyOf(session: SessionView): string {
    return keyOfSession(session);
  }

  /** Returns the key of the agent that made a subagent. */
  keyAbove({ id }: Subagent): string {
    return this.#byId.get(id)?.owner.key ?? '';
  }

  /** Returns the open sessions of the agent of this session. */
  sessionsOf(session: SessionView): readonly SessionView[] {
    return [...(this.#sessions.get(keyOfSession(session)) ?? [])];
  }

  /** Returns the open sessions of the agent that made a subagent. */
  sessionsAbove(subagent: Subagent): readonly SessionView[] {
    return [...(this.#sessions.get(this.keyAbove(subagent)) ?? [])];
  }

  /** Returns a subagent of the same agent. */
  sibling(subagent: Subagent, id: string): Subagent | undefined {
    const other = this.#byId.get(id);
    return other?.owner.key === this.keyAbove(subagent) ? other.subagent : undefined;
  }

  /** Delivers a message to a subagent, and announces it. Returns false if the subagent has ended. */
  deliver(subagent: Subagent, from: string, message: SubagentMessage): boolean {
    if (!subagent.deliver(from, message)) return false;
    this.#announce(subagent, 'message', { from, type: message.type });
    return true;
  }

  #self({ principal }: SessionView): Subagent | undefined {
    return principal.subagent === undefined ? undefined : this.#byId.get(principal.subagent)?.subagent;
  }

  /** Returns the subagents of an agent, oldest first. */
  list(context: CallContext, all: boolean): Subagent[] {
    const own = [...this.#owner(context).own.values()];
    const below = (subagent: Subagent): Subagent[] => [subagent, ...[...subagent.children].flatMap(below)];
    return all ? own.flatMap(below) : own;
  }

  /** Returns the agents above a subagent: its parent, and the one at the top. */
  agentsAbove({ id, parent }: Subagent): { parent: string; root: string } {
    let top = id;
    for (let at = parent; at !== undefined; at = at.parent) top = at.id;
    return { parent: this.#byId.get(id)?.owner.agentId ?? '', root: this.#byId.get(top)?.owner.agentId ?? '' };
  }

  /** Returns the agent of a session with its subagents, whose stored records are read once. */
  #owner({ session, store }: Pick<CallContext, 'session' | 'store'>): Owner {
    const { principal, agentId } = session;
    this.#lastAsked.set(principal.name, session);
    const key = keyOf(principal.name, agentId);
    let owner = this.#owners.get(key);
    if (owner === undefined) {
      const budgets = this.#budgetsOf(principal);
      owner = { key, agentId, principal, store: store.agent, own: new Map(), budgets };
      this.#owners.set(key, owner);
      this.#load(owner, undefined);
    }
    return owner;
  }

  #budgetsOf(principal: Principal): Budgets {
    let budgets = this.#budgets.get(principal.name);
    if (budgets === undefined) {
      const { name } = principal;
      budgets = {
        tokens: new Budget(() => this.#grantNow(name).max_tokens ?? null, SILENT),
        cost: new Budget(() => this.#grantNow(name).max_cost_usd ?? null, SILENT),
      };
      this.#budgets.set(name, budgets);
    }
    return budgets;
  }

  /** Returns the present grant of a principal: open sessions have the rights of a reloaded configuration. */
  #grantNow(name: string): MultiAgentGrant {
    const isWorking = ({ subagent, owner, madeIn }: { subagent: Subagent; owner: Owner; madeIn?: SessionView }) =>
      subagent.isOpen && madeIn !== undefined && owner.principal.name === name;
    // A subagent ends with its session, so the session of an open subagent is open.
    const session = this.#byId.values().find(isWorking)?.madeIn ?? this.#lastAsked.get(name);
    return session === undefined ? {} : grantOfRoot(session.principal);
  }

  /** Unloads an agent without sessions, whose subagents have all ended: its stored records are read when it returns. */
  #unload(key: string): void {
    const owner = this.#owners.get(key);
    if (owner === undefined || this.#sessions.has(key)) return;
    if ([...owner.own.values()].some(({ isOpen }) => isOpen)) return;
    this.#owners.delete(key);
    for (const id of owner.own.keys()) {
      this.#byId.delete(id);
      this.#unload(keyOf(owner.principal.name, id));
    }
  }

  /**
   * Loads the stored subagents of an agent, and those below them. A subagent that was open in another run of the host has
   * ended.
   */
  #load(owner: Owner, parent: Subagent | undefined): void {
    const stored = owner.store.list<StoredSubagent>({ prefix: PREFIX, limit: 10_000 });
    // Their keys do not show their age.
    const age = (a: StoredSubagent, b: StoredSubagent) =>
      (a.order ?? 0) - (b.order ?? 0) || a.created_at - b.created_at;
    for (const { value } of stored.toSorted((a, b) => age(a.value, b.value))) {
      this.#order = Math.max(this.#order, value.order ?? 0, ...value.tasks.map(({ order = 0 }) => order));
      const known = this.#byId.get(value.id);
      if (known !== undefined) continue;
      const wasOpen = value.ended_at === 0;
      const tasks = value.tasks.map((task) => (task.end === undefined ? { ...task, end: INTERRUPTED } : task));
      const hadTask = value.tasks.some(({ end }) => end === undefined);
      const subagent = new Subagent(
        {
          id: value.id,
          settings: value.settings,
          parent,
          backend: value.backend,
          createdAt: value.created_at,
          order: value.order ?? 0,
          depth: value.depth,
        },
        this.#deps(owner),
        {
          ended: wasOpen ? Date.now() : value.ended_at,
          status: hadTask ? 'FAILED' : wasOpen ? 'TERMINATED' : value.status,
          tasks,
        },
      );
      subagent.controlSession = value.control_session ?? '';
      owner.own.set(value.id, subagent);
      this.#byId.set(value.id, { subagent, owner, madeIn: undefined });
      if (wasOpen) this.#store(owner, subagent).catch((error: unknown) => this.#notStored(subagent, error));
      const { principal } = owner;
      const view = { id: '', agentId: value.id, principal } as const;
      const store = this.#context?.store.of(view).agent;
      if (store === undefined) continue;
      const below: Owner = {
        ...owner,
        deps: undefined,
        key: keyOf(principal.name, value.id),
        agentId: value.id,
        store,
        own: new Map(),
      };
      this.#owners.set(below.key, below);
      this.#load(below, subagent);
    }
  }

  #deps(owner: Owner): SubagentDeps {
    owner.deps ??= this.#depsOf(owner);
    return owner.deps;
  }

  #depsOf(owner: Owner): SubagentDeps {
    return {
      store: (subagent) => this.#store(owner, subagent),
      notStored: (subagent, error) => this.#notStored(subagent, error),
      announce: (subagent, event, content) => this.#announce(subagent, event, content),
      accept: (subagent, link, counted) => {
        this.#context?.accept(link, {
          agentId: subagent.id,
          owner: owner.principal,
          rights: (principal) => this.#rights(subagent, principal),
          admit: (type) => (!counted || OWN_REQUEST.test(type) ? undefined : subagent.requested()),
          opened: (session) => {
            subagent.opened(session);
          },
          // The message may have had the result: without an end, the task would run until its timeout.
          unread: ({ code, message, detail }) => {
            if (code !== 'too_large') return;
            subagent.task?.fail(failure('limit', `a message of the subagent could not be read: ${message}`, detail));
          },
        });
      },
      newId: () => `task_${hex(8)}`,
      order: () => ++this.#order,
      maxResultChars: this.#limits.maxResultChars,
    };
  }

  /** Returns the rights of a subagent, derived from the present rights of the principal at the top. */
  #rights(subagent: Subagent, principal: Principal): Principal | undefined {
    if (!subagent.isOpen || !may(principal, 'use', CAPABILITY)) return undefined;
    const above = subagent.parent === undefined ? principal : this.#rights(subagent.parent, principal);
    return above && subagent.rights(delegable(above));
  }

  async #store(owner: Owner, subagent: Subagent): Promise<void> {
    const { id, depth, order, backend, createdAt, endedAt, status, settings, tasks } = subagent;
    const value: StoredSubagent = {
      id,
      run: this.#run,
      depth,
      order,
      backend,
      created_at: createdAt,
      ended_at: endedAt,
      status,
      settings,
      tasks: [...tasks],
      ...(subagent.controlSession !== '' && { control_session: subagent.controlSession }),
    };
    await owner.store.set(PREFIX + id, value);
    await this.#forgetOldest(owner).catch((error: unknown) => {
      this.#context?.log.error('the oldest subagents were not deleted; the next host has them', { error });
    });
  }

  #notStored({ id }: Subagent, error: unknown): void {
    this.#context?.log.error('a subagent was not stored; its results end with the host', { subagent: id, error });
  }

  /** Deletes the oldest ended subagents above the maximum, with their results. */
  async #forgetOldest(owner: Owner): Promise<void> {
    const ended = [...owner.own.values()].filter(({ isOpen }) => !isOpen);
    for (const subagent of ended.slice(0, Math.max(0, ended.length - this.#limits.maxEnded))) {
      this.#forget(owner, subagent);
      const below = keyOf(owner.principal.name, subagent.id);
      await this.#owners.get(below)?.store.clear();
      this.#owners.delete(below);
      await owner.store.delete(PREFIX + subagent.id);
    }
  }

  #forget(owner: Owner, subagent: Subagent): void {
    owner.own.delete(subagent.id);
    this.#byId.delete(subagent.id);
    subagent.parent?.children.delete(subagent);
  }

  /**
   * Pushes an event to the sessions of every agent above, and to those of the subagent if a task of it was stopped. Leaves out
   * parts that no message may hold.
   */
  #announce(subagent: Subagent, event: string, content: Readonly<Record<string, unknown>>): void {
    const { id, depth } = subagent;
    const body = { subagent_id: id, event, content: { ...content, depth } };
    const push = (session: SessionView | undefined): void => {
      try {
        session?.push(subagentEvent, body);
      } catch (thrown) {
        if (asError(thrown).code !== 'too_large') throw thrown;
        const { task_id, ...rest } = content;
        const short = { ...(task_id !== undefined && { task_id }), depth, left_out: Object.keys(rest) };
        session?.push(subagentEvent, { ...body, content: short });
      }
    };
    const seen = new Set<string>();
    for (let at: Subagent | undefined = subagent; at !== undefined; at = at.parent) {
      const key = this.#byId.get(at.id)?.owner.key;
      if (key === undefined || seen.has(key)) continue;
      seen.add(key);
      for (const session of this.#sessions.get(key) ?? []) push(session);
    }
    if (event === 'cancelled' || event === 'failed') push(subagent.session);
  }

  #mustBeBelow(limit: string, has: number, most: number): void {
    if (has < most) return;
    throw failure('limit', `there may be ${most} (${limit})`, { limit, most });
  }

  /**
   * Returns a new id of `sub_` and eight digits, as other implementations make them: the key of its owner protects a subagent,
   * not its id.
   */
  #newId(): string {
    for (;;) {
      const id = `sub_${hex(4)}`;
      if (!this.#byId.has(id)) return id;
    }
  }
}

const CAPABILITY = 'multi_agent';
const PREFIX = 'sub/';
const SILENT = { notice: () => {}, spent: () => {} };
/** Requests of a subagent about its task; they are no steps. */
const OWN_REQUEST = /^multi_agent\/(?:task|progress|finish)\/req$/;
const INTERRUPTED = {
  state: 'FAILED',
  result: null,
  code: 'multi_agent.interrupted',
  error: 'the host ended while the task ran',
} as const;

/** Returns the grant of the principal at the top: its limits hold for those below. */
function grantOfRoot(principal: Principal): MultiAgentGrant {
  let root = principal;
  while (root.within !== undefined) root = root.within;
  return (grantOf(root, CAPABILITY) ?? {}) as MultiAgentGrant;
}
