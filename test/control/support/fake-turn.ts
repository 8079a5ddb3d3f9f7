/**
 * A turn without sessions: records the backend's calls. Approvals are answered by `answers`, steers are handed in with `steer`,
 * and the history is the one of a `FakeSessionLog`.
 */
import type { ApprovalRequest } from '../../../src/control/contract/approver.ts';
import type { Turn } from '../../../src/control/contract/backend.ts';
import type { HistoryItem } from '../../../src/control/contract/session-log.ts';
import type { Approval, SessionSettings, ToolCall, ToolDone, Usage } from '../../../src/protocol/session-types.ts';
import type { Principal } from '../../../src/session/principal.ts';
import { fail } from '../../../src/wire/errors.ts';
import { FakeSessionLog } from './fake-session-log.ts';

/** One thing a backend did, in order. */
export type Deed =
  | { readonly kind: 'thought'; readonly text: string }
  | { readonly kind: 'answer'; readonly text: string }
  | { readonly kind: 'status'; readonly label: string; readonly detail?: Readonly<Record<string, unknown>> }
  | {
      readonly kind: 'started';
      readonly round: number;
      readonly call: ToolCall;
      readonly facts?: { readonly toolKind?: string; readonly risks?: readonly string[] };
    }
  | { readonly kind: 'output'; readonly callId: string; readonly stream: string; readonly text: string }
  | { readonly kind: 'done'; readonly round: number; readonly done: ToolDone; readonly durationMs?: number }
  | { readonly kind: 'results'; readonly round: number; readonly done: readonly ToolDone[] }
  | { readonly kind: 'steers'; readonly texts: readonly string[] };

export interface FakeTurnOptions {
  readonly log?: FakeSessionLog;
  readonly text?: string;
  readonly cwd?: string;
  readonly settings?: SessionSettings;
  readonly continued?: boolean;
  readonly principal?: Principal;
  /** Answers questions. Default: everything is allowed. */
  readonly answers?: (request: ApprovalRequest) => Partial<Approval> | Promise<Partial<Approval>>;
  /** Told of each deed, synchronously. */
  readonly onDeed?: (deed: Deed, turn: FakeTurn) => void;
}

export class FakeTurn implements Turn {
  readonly id = 'turn-1';
  readonly log: FakeSessionLog;
  readonly principal: Principal;
  readonly settings: SessionSettings;
  readonly cwd: string;
  readonly prompt: Turn['prompt'];
  readonly history: readonly HistoryItem[];
  readonly continued: boolean;
  readonly deeds: Deed[] = [];
  readonly asked: ApprovalRequest[] = [];
  readonly used: Usage[] = [];
  readonly steps: { readonly stage: string; readonly data: unknown }[] = [];
  readonly #controller = new AbortController();
  readonly #options: FakeTurnOptions;
  #steers: string[] = [];

  constructor(options: FakeTurnOptions = {}) {
    this.#options = options;
    this.log = options.log ?? new FakeSessionLog({ cwd: options.cwd ?? '/project' });
    this.principal = options.principal ?? { name: 'local', admin: true };
    this.settings = options.settings ?? {};
    this.cwd = options.cwd ?? '/project';
    this.prompt = { text: options.text ?? 'do it', images: [] };
    this.continued = options.continued ?? false;
    this.history = this.log.record.history;
    if (!this.continued) this.log.remember([{ role: 'user', turn: this.id, text: this.prompt.text }]);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The text that the user sees in the end. */
  get answerText(): string {
    return this.deeds.map((deed) => (deed.kind === 'answer' ? deed.text : '')).join('');
  }

  /** The items of this turn that the model got and gave. */
  get items(): readonly HistoryItem[] {
    return this.log.record.history.filter(({ turn }) => turn === this.id);
  }

  deedsOf<Kind extends Deed['kind']>(kind: Kind): Extract<Deed, { kind: Kind }>[] {
    return this.deeds.filter((deed): deed is Extract<Deed, { kind: Kind }> => deed.kind === kind);
  }

  /** Aborts the turn, as `session.interrupt` does. */
  interrupt(): void {
    this.#controller.abort(fail('interrupted', 'interrupted by the user'));
  }

  steer(text: string): void {
    this.#steers.push(text);
  }

  thought(text: string): void {
    this.#note({ kind: 'thought', text });
  }

  answer(text: string): void {
    this.#note({ kind: 'answer', text });
  }

  status(label: string, detail?: Readonly<Record<string, unknown>>): void {
    this.#note({ kind: 'status', label, ...(detail !== undefined && { detail }) });
  }

  toolStarted(round: number, call: ToolCall, facts?: Extract<Deed, { kind: 'started' }>['facts']): void {
    this.#note({ kind: 'started', round, call, ...(facts !== undefined && { facts }) });
  }

  toolOutput(callId: string, stream: string, text: string): void {
    this.#note({ kind: 'output', callId, stream, text });
  }

  toolDone(round: number, done: ToolDone, durationMs?: number): void {
    this.#note({ kind: 'done', round, done, durationMs });
  }

  toolResults(round: number, done: readonly ToolDone[]): void {
    this.#note({ kind: 'results', round, done });
  }

  usage(used: Usage): void {
    this.used.push(used);
  }

  takeSteers(): readonly string[] {
    const texts = this.#steers;
    this.#steers = [];
    if (texts.length > 0) {
      this.#note({ kind: 'steers', texts });
      this.log.remember(texts.map((text) => ({ role: 'user', turn: this.id, text })));
      this.status('steer applied; continuing...');
    }
    return texts;
  }

  async ask(request: ApprovalRequest): Promise<Approval> {
    this.asked.push(request);
    const answered = (await this.#options.answers?.(request)) ?? { state: 'allowed' as const };
    return {
      id: `approval-${this.asked.length}`,
      session_id: this.log.record.id,
      turn_id: this.id,
      kind: request.kind,
      title: request.title,
      ...(request.tool !== undefined && { tool: request.tool }),
      risks: request.risks,
      reason: '',
      created_at: '2026-01-01T00:00:00.000Z',
      expires_at: '2026-01-01T01:00:00.000Z',
      state: 'allowed',
      ...answered,
    };
  }

  debug(stage: string, data: unknown): void {
    this.steps.push({ stage, data });
  }

  #note(deed: Deed): void {
    this.deeds.push(deed);
    this.#options.onDeed?.(deed, this);
  }
}

/** Deeds as short lines: `answer Hi`, `started 1 bash c1`, `done 1 c1 ok`, `results 1 c1 c2`, `status …`. */
export const inShort = (deeds: readonly Deed[]): string[] => deeds.map(shortened);

function shortened(deed: Deed): string {
  switch (deed.kind) {
    case 'thought':
    case 'answer':
      return `${deed.kind} ${deed.text}`;
    case 'status':
      return `status ${deed.label}`;
    case 'started':
      return `started ${deed.round} ${deed.call.name} ${deed.call.callId}`;
    case 'output':
      return `output ${deed.callId} ${deed.stream} ${deed.text}`;
    case 'done':
      return `done ${deed.round} ${deed.done.callId} ${deed.done.ok ? 'ok' : 'failed'}`;
    case 'results':
      return `results ${deed.round} ${deed.done.map(({ callId }) => callId).join(' ')}`.trim();
    case 'steers':
      return `steers ${deed.texts.join(' | ')}`;
  }
}
