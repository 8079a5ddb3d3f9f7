/**
 * The context of every fleet case. A target that is started (`stdio:`) or dials in is a worker, and the kit is its
 * orchestrator; at any other address an orchestrator listens, and the kit is a worker of it.
 */
import { readFileSync } from 'node:fs';
import { fail } from '../../wire/errors.ts';
import { bindingOf } from '../carriers.ts';
import { type Case, expect, Mismatch, Skip, unanswered } from '../case.ts';
import type { DiallingTarget } from '../dialling-target.ts';
import { type Fields, LinePeer, Transcript } from '../line-peer.ts';
import { checksByType, packageFile, problemOf } from '../published.ts';
import type { CaseRun } from '../run.ts';

/** The user's description of the target. */
export interface FleetTarget {
  readonly address: string;
  /** Address for a worker that the kit does not start. */
  readonly dialling?: DiallingTarget;
  readonly token: string;
  /** Longest wait for one answer, in milliseconds. */
  readonly patienceMs: number;
  /** A harmless brief that a worker may run; without it nothing is run. */
  readonly brief?: string;
}

/** The side of the protocol that the target is. */
export type FleetRole = 'worker' | 'orchestrator';

export type FleetCase = Case<FleetContext>;

/** The name of the worker that the kit plays, and of the server that no worker has. */
export const WORKER = 'conformance';
export const UNKNOWN = 'conformance-unknown-name';

/** The smallest announce that is valid, of a worker at its limit. */
export const announced: Fields = {
  type: 'SESSION_ANNOUNCE',
  protocol_version: '2.0',
  worker: { agent_id: WORKER },
  capabilities: { tools: [], mcp_servers: [] },
  session: { active_tasks: 1_000 },
};

/** Returns the recorded messages of one kind: name and content, in the order of their names. */
export function recorded(kind: 'message' | 'message_text', prefix: string): readonly { name: string; value: Fields }[] {
  const read = (file: string): Fields => JSON.parse(readFileSync(packageFile(`test/vectors/fleet/${file}`), 'utf8'));
  const { cases } = read('manifest.json') as { cases?: readonly { file: string; kind: string }[] };
  return (cases ?? [])
    .filter((each) => each.kind === kind && each.file.startsWith(prefix))
    .map(({ file }) => ({ name: file.slice(prefix.length).replace(/\.json$/, ''), value: read(file) }));
}

let checks: ReturnType<typeof checksByType> | undefined;

/** Fails the case unless a message fits the published schema of its type. */
export function fits(message: Fields): void {
  checks ??= checksByType();
  const problem = problemOf(checks.get(String(message.type)), message);
  if (problem !== undefined) throw new Mismatch(`${String(message.type)} as its schema has it: ${problem}`, message);
}

/** The link of a worker that connects by itself: all cases use it, since a worker whose links break reconnects ever later. */
export interface SharedLink {
  peer?: LinePeer;
}

export class FleetContext {
  readonly target: FleetTarget;
  readonly #shared: SharedLink;
  readonly role: FleetRole;
  readonly transcript: Transcript;
  readonly #opened: LinePeer[] = [];
  static #count = 0;

  constructor(target: FleetTarget, shared: SharedLink) {
    this.target = target;
    this.#shared = shared;
    this.transcript = new Transcript(target.token);
    const isWorker = target.dialling !== undefined || bindingOf(target.address) === 'stdio';
    this.role = isWorker ? 'worker' : 'orchestrator';
  }

  /** Skips the case where the target is the other side. */
  only(role: FleetRole): void {
    if (role !== this.role) throw new Skip(`only for ${role === 'worker' ? 'a worker' : 'an orchestrator'}`);
  }

  /** Returns an id that no other case uses. */
  id(): string {
    FleetContext.#count += 1;
    return `${WORKER}-${Math.trunc(performance.timeOrigin).toString(36)}-${FleetContext.#count}`;
  }

  async open(): Promise<LinePeer> {
    const { address, dialling, patienceMs } = this.target;
    if (dialling !== undefined) return this.#link(dialling);
    const peer = await LinePeer.open({ address, patienceMs, transcript: this.transcript });
    this.#opened.push(peer);
    return peer;
  }

  /** Returns the link that the worker has opened; the next one if it has ended. */
  async #link(dialling: DiallingTarget): Promise<LinePeer> {
    const known = this.#shared.peer;
    if (known !== undefined && !known.over) {
      known.transcript = this.transcript;
      return known;
    }
    const { address, patienceMs } = this.target;
    await known?.close();
    this.#shared.peer = await LinePeer.open({ address, dialling, patienceMs, transcript: this.transcript });
    return this.#shared.peer;
  }

  /** Returns a worker that was started, with its announce accepted. */
  async worker(): Promise<{ peer: LinePeer; announce: Fields }> {
    this.only('worker');
    const earlier = this.#shared.peer;
    const peer = await this.open();
    const announce = await peer.find(({ type }) => type === 'SESSION_ANNOUNCE', 'SESSION_ANNOUNCE');
    if (peer === earlier) return { peer, announce };
    const terms = { peer_id: WORKER, features: ['ack', 'accept'], heartbeat_s: 60, lease_ttl_s: 600 };
    peer.line({ type: 'SESSION_ACCEPT', protocol_version: '2.0', ...terms });
    return { peer, announce };
  }

  /** Sends a dispatch and waits for the worker's reply: TASK_ACK or TASK_RESULT. */
  async dispatch(peer: LinePeer, message: Fields): Promise<Fields> {
    const message_id = this.id();
    const from = peer.messages.length;
    peer.line({ ...message, envelope: { message_id, attempt: 1, sent_at: new Date().toISOString() } });
    const task = (message.task as Fields | undefined)?.task_id;
    const concerns = ({ type, task_id, envelope }: Fields): boolean =>
      (type === 'TASK_ACK' || type === 'TASK_RESULT') &&
      (task_id === task || (envelope as Fields | undefined)?.causation_id === message_id);
    const answer = await peer.find(concerns, 'TASK_ACK or TASK_RESULT for the dispatch', from);
    fits(answer);
    return answer;
  }

  /** Returns a dispatch whose requirements no worker meets, so that it is refused before any program is started. */
  impossible(more: Fields = {}): Fields {
    const task = { task_id: this.id(), reply_schema: 'structured' };
    const requirements = { required_mcp: [UNKNOWN], access: 'read' };
    return { type: 'TASK_DISPATCH', protocol_version: '2.0', task, requirements, brief: 'none', ...more };
  }

  /**
   * Announces a worker that is at its limit, so that it gets no tasks, and that understands SESSION_ACCEPT. Waits for
   * the orchestrator's reply.
   */
  async announce(peer: LinePeer, announce: Fields, token = this.target.token): Promise<Fields | undefined> {
    const { worker, session } = announce;
    const own: { worker?: Fields; session?: Fields } = {};
    if (isObject(worker) && (worker.features === undefined || Array.isArray(worker.features)))
      own.worker = { ...worker, features: [...(worker.features ?? []), 'accept'] };
    if (isObject(session) && session.active_tasks === undefined) own.session = { ...session, active_tasks: 1_000 };
    const envelope = { message_id: this.id(), ...(token !== '' && { token }) };
    peer.line({ ...announce, ...own, envelope });
    const answer = await peer.sought(({ type }) => type === 'SESSION_ACCEPT' || type === 'SESSION_BYE');
    if (answer !== undefined) fits(answer);
    return answer;
  }

  /**
   * Works as {@link announce}; the announce must be accepted. An orchestrator without SESSION_ACCEPT accepts by leaving
   * the link open.
   */
  async accepted(peer: LinePeer, announce: Fields): Promise<Fields | undefined> {
    const answer = await this.announce(peer, announce);
    const isOpen = answer === undefined && !peer.over;
    expect(answer?.type === 'SESSION_ACCEPT' || isOpen, 'SESSION_ACCEPT', answer ?? 'the end of the link');
    return answer;
  }

  async end(): Promise<void> {
    await Promise.all(
      this.#opened.map(async (peer) => {
        if (this.role === 'orchestrator' && !peer.over) {
          const bye = { agent_id: WORKER, incarnation: WORKER, reason: 'shutdown' };
          peer.line({ type: 'SESSION_BYE', protocol_version: '2.0', ...bye });
        }
        await peer.close();
      }),
    );
  }
}

const isObject = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Fails the case unless a dispatch was refused before anything was started; `codes` are those of which one must be given. */
export function expectRefusal(answer: Fields, ...codes: readonly string[]): void {
  expect(answer.type === 'TASK_RESULT' && answer.status === 'blocked', 'TASK_RESULT with status blocked', answer);
  expect(answer.tokens_spent === 0, 'tokens_spent 0', answer);
  const reason = String(answer.blocked_reason ?? '');
  expect(reason.trim() !== '', 'a blocked_reason', answer);
  if (codes.length === 0) return;
  const code = (answer.blocked as Fields | undefined)?.code ?? /^[a-z_]+/.exec(reason)?.[0];
  expect(codes.includes(String(code)), `blocked with code ${codes.join(' or ')}`, answer);
}

/**
 * Fails if nothing shows that the target is an orchestrator. One without SESSION_ACCEPT does not reply to an announce,
 * like any other server that accepts connections: all cases in which no message may come would pass. It ends the link
 * of a worker that announces itself a second time.
 */
async function orchestrates(context: FleetContext): Promise<void> {
  const peer = await context.open();
  const answer = await context.announce(peer, announced);
  if (answer?.type === 'SESSION_ACCEPT') return;
  if (answer !== undefined) throw fail('auth_failed', `the target refused the announce: ${String(answer.reason)}`);
  if (peer.over) throw new Mismatch('SESSION_ACCEPT', 'the target ended the connection');
  await context.announce(await context.open(), announced);
  const isReplaced = (): boolean => peer.over || peer.messages.some(({ type }) => type === 'SESSION_BYE');
  if (await peer.until(isReplaced)) return;
  throw new Mismatch('SESSION_ACCEPT, or the end of the link of a worker that announces itself once more', 'nothing');
}

/** A run of fleet cases. */
export class FleetRun implements CaseRun<FleetContext> {
  readonly target: FleetTarget;
  readonly #shared: SharedLink = {};

  constructor(target: FleetTarget) {
    this.target = target;
  }

  begin(): FleetContext {
    return new FleetContext(this.target, this.#shared);
  }

  transcript({ transcript }: FleetContext): Transcript['lines'] {
    return transcript.lines;
  }

  end(context: FleetContext): Promise<void> {
    return context.end();
  }

  /** Fails where the target is not there, does not announce itself as a worker, or as an orchestrator refuses one or does nothing at all. */
  async first(): Promise<void> {
    const context = this.begin();
    try {
      if (context.role === 'worker') await context.worker();
      else await orchestrates(context);
    } catch (thrown) {
      throw thrown instanceof Mismatch ? unanswered(this.target.address, thrown) : thrown;
    } finally {
      await context.end();
    }
  }

  /** Ends the link that cases share, where they do. */
  async close(): Promise<void> {
    await this.#shared.peer?.close();
  }
}
