/**
 * Remembered answers: those of a session, found in its record, and those of a working directory, found in a store
 * outside the sessions. Called by `broker.ts`.
 */
import type { Approval } from '../../protocol/session-types.ts';
import type { SessionLog } from '../contract/session-log.ts';
import { coverageOf } from './coverage.ts';

/** An answer that holds for a working directory for good. */
export interface DirectoryRule {
  /** What it covers: {@link import('./coverage.ts').Coverage.key}. */
  readonly key: string;
  /** The same in words, for people who read the store. */
  readonly words: string;
  readonly decision: 'allow' | 'deny';
  /** Who answered. */
  readonly by: string;
  /** ISO 8601. */
  readonly at: string;
}

/** Stores the answers of directories. `directory-rules.ts` does so in a file. */
export interface DirectoryRules {
  /** The rules of one owner in one directory (absolute path). */
  get(owner: string, cwd: string): readonly DirectoryRule[];
  /** Adds a rule; one with the same key is replaced. In effect at once; storing it is the store's concern. */
  add(owner: string, cwd: string, rule: DirectoryRule): void;
}

/** A remembered answer that covers a call. */
export interface RememberedAnswer {
  readonly decision: 'allow' | 'deny';
  readonly reason: string;
}

/** Most answers one session remembers; the oldest goes first. */
const MAX_SESSION_ANSWERS = 1024;

/** The remembered answers of every loaded session. */
export class RememberedAnswers {
  readonly #directories: DirectoryRules;
  /** By session, then by key; removed with the session object. */
  readonly #sessions = new WeakMap<SessionLog, Map<string, 'allow' | 'deny'>>();

  constructor(directories: DirectoryRules) {
    this.#directories = directories;
  }

  /** Restores the answers of a stored session from the resolved approvals of its record. */
  restore(log: SessionLog): void {
    for (const approval of log.record.approvals) {
      if (approval.answer?.remember === 'session') this.#remember(log, approval);
    }
  }

  /** Remembers an answer for its scope. `directory` answers hold for the session too, should the store lose them. */
  add(log: SessionLog, approval: Approval): void {
    const { tool, answer } = approval;
    if (tool === undefined || answer === undefined || answer.remember === 'once') return;
    this.#remember(log, approval);
    if (answer.remember !== 'directory') return;
    const { key, words } = coverageOf(tool, approval.risks, log.record.cwd);
    this.#directories.add(log.record.owner, log.record.cwd, {
      key,
      words,
      decision: answer.decision,
      by: approval.answered_by ?? log.record.owner,
      at: approval.resolved_at ?? approval.created_at,
    });
  }

  /** The remembered answer for a key; the session's own wins. */
  find(log: SessionLog, key: string): RememberedAnswer | undefined {
    const ofSession = this.#sessions.get(log)?.get(key);
    if (ofSession !== undefined) return { decision: ofSession, reason: 'as answered before in this session' };
    const { owner, cwd } = log.record;
    const rule = this.#directories.get(owner, cwd).find((one) => one.key === key);
    return rule && { decision: rule.decision, reason: `as answered before in ${cwd}` };
  }

  #remember(log: SessionLog, { tool, risks, answer }: Approval): void {
    if (tool === undefined || answer === undefined) return;
    const answers = this.#sessions.get(log) ?? new Map<string, 'allow' | 'deny'>();
    this.#sessions.set(log, answers);
    const { key } = coverageOf(tool, risks, log.record.cwd);
    answers.delete(key);
    answers.set(key, answer.decision);
    for (const oldest of answers.keys()) {
      if (answers.size <= MAX_SESSION_ANSWERS) break;
      answers.delete(oldest);
    }
  }
}
