/**
 * A session without a store, for tests of the parts that get one: stores emitted events, and folds as much of them as those
 * parts look at.
 */
import type { HistoryItem, SessionLog, SessionRecord } from '../../../src/control/contract/session-log.ts';
import type { SessionEventPayloads, SessionEventType } from '../../../src/protocol/session-events.ts';
import { type Approval, NO_USAGE, type UiMessage } from '../../../src/protocol/session-types.ts';
import { fail } from '../../../src/wire/errors.ts';

/** One emitted event, as a listener sees it. */
export interface EmittedEvent {
  readonly type: SessionEventType;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly turnId: string | undefined;
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };

export class FakeSessionLog implements SessionLog {
  readonly record: Mutable<SessionRecord>;
  readonly events: EmittedEvent[] = [];
  /** Called with each event, synchronously, after it was folded. */
  onEvent: ((event: EmittedEvent) => void) | undefined;
  /** Emitting fails from now on, as after `session.delete`. */
  deleted = false;
  flushes = 0;
  /** Makes storing a question take time or fail; default: neither. */
  keeping: (() => Promise<void>) | undefined;

  constructor(given: Partial<SessionRecord> = {}) {
    this.record = {
      id: 'session-1',
      owner: 'local',
      parent: null,
      subagent: null,
      createdAt: '2026-01-01T00:00:00.000Z',
      updatedAt: '2026-01-01T00:00:00.000Z',
      title: 'a session',
      cwd: '/project',
      backend: 'rehearsal',
      settings: {},
      phase: 'running',
      statusLabel: 'ready',
      messages: [],
      history: [],
      queue: [],
      turn: { id: 'turn-1', text: 'do it', startedAt: '2026-01-01T00:00:00.000Z' },
      steers: [],
      approvals: [],
      work: [],
      plan: null,
      turns: [],
      chatId: null,
      provider: null,
      usage: NO_USAGE,
      context: {
        tokens: 0,
        source: 'history',
        provider: null,
        breakdown: { pinned_tokens: 0, conversation_tokens: 0, tool_schema_tokens: 0, provider_overhead_tokens: 0 },
      },
      seq: 0,
      ...given,
    };
  }

  emit<Type extends SessionEventType>(type: Type, payload: SessionEventPayloads[Type], turnId?: string): void {
    if (this.deleted) throw fail('session_closed', 'the session is gone');
    const event = { type, payload: payload as Readonly<Record<string, unknown>>, turnId };
    this.record.seq++;
    if (type === 'approval.requested' || type === 'approval.resolved') {
      const { approval } = payload as { approval: Approval };
      this.record.approvals = [...this.record.approvals.filter(({ id }) => id !== approval.id), approval];
    }
    if (type === 'session.status') {
      this.record.statusLabel = (payload as SessionEventPayloads['session.status']).status_label;
    }
    if (type === 'session.renamed') this.record.title = (payload as SessionEventPayloads['session.renamed']).title;
    if (type === 'session.configured') {
      const { settings } = payload as SessionEventPayloads['session.configured'];
      this.record.settings = { ...this.record.settings, ...settings };
    }
    this.events.push(event);
    this.onEvent?.(event);
  }

  remember(items: readonly HistoryItem[], mode: 'append' | 'replace' = 'append'): void {
    this.record.history = mode === 'replace' ? [...items] : [...this.record.history, ...items];
  }

  appendMessage(kind: UiMessage['kind'], text: string, turnId?: string): UiMessage {
    const message: UiMessage = { id: this.record.messages.length + 1, kind, text };
    this.record.messages = [...this.record.messages, message];
    this.emit('session.message.appended', { message }, turnId);
    return message;
  }

  persistApproval(_approval: Approval): Promise<void> | undefined {
    if (this.deleted) throw fail('session_closed', 'the session is gone');
    return this.keeping?.();
  }

  async flushed(): Promise<void> {
    this.flushes++;
  }

  /** Returns the payloads of one type, oldest first. */
  of<Type extends SessionEventType>(type: Type): SessionEventPayloads[Type][] {
    return this.events
      .filter((event) => event.type === type)
      .map(({ payload }) => payload as SessionEventPayloads[Type]);
  }

  /** Returns the state after a restart: the same record in a new session, nothing emitted. */
  reopened(changes: Partial<SessionRecord> = {}): FakeSessionLog {
    return new FakeSessionLog({ ...structuredClone(this.record), ...changes });
  }
}
