/**
 * Remembered answers: the answers of a session are in its record, the answers of a working directory in a store outside the
 * sessions.
 */
import { setNewest } from '../../base/evict-oldest.ts';
import type { Approval } from '../../protocol/session-types.ts';
import type { SessionLog } from '../contract/session-log.ts';
import type { CommandReader } from './commands/command-reader.ts';
import { type Coverage, type CoveredPart, coverageOf } from './coverage.ts';

/** An answer that holds for a working directory for good. */
export interface DirectoryRule {
  /** Its coverage: {@link import('./coverage.ts').CoveredPart.key}. */
  readonly key: string;
  /** Its coverage in words, for people who read the store. */
  readonly words: string;
  readonly decision: 'allow' | 'deny';
  /** Name of the principal who answered. */
  readonly by: string;
  /** ISO 8601. */
  readonly at: string;
}

/** Stores the answers of directories. `directory-rules.ts` does so in a file. */
export interface DirectoryRules {
  /** Returns the rules of one owner in one directory (absolute path). */
  get(owner: string, cwd: string): readonly DirectoryRule[];
  /** Adds a rule; one with the same key is replaced. In effect at once; storing it is the store's concern. */
  add(owner: string, cwd: string, rule: DirectoryRule): void;
}

/** A remembered answer that covers a call. */
export interface RememberedAnswer {
  readonly decision: 'allow' | 'deny';
  readonly reason: string;
}

/** Maximum number of answers one session remembers; the oldest goes first. */
const MAX_SESSION_ANSWERS = 1024;

/** The remembered answers of every loaded session. */
export class RememberedAnswers {
  readonly #directories: DirectoryRules;
  readonly #reader: CommandReader;
  /** Answers by session, then by key; removed with the session object. */
  readonly #sessions = new WeakMap<SessionLog, Map<string, 'allow' | 'deny'>>();

  constructor(directories: DirectoryRules, reader: CommandReader) {
    this.#directories = directories;
    this.#reader = reader;
  }

  /** Restores the answers of a stored session from the resolved approvals of its record. */
  restore(log: SessionLog): void {
    for (const approval of log.record.approvals) {
      if (approval.answer?.remember === 'session') this.#remember(log, approval);
    }
  }

  /**
   * Remembers an answer for its scope, and returns its coverage. `directory` answers hold for the session too, should the store
   * lose them.
   */
  add(log: SessionLog, approval: Approval): ReadonlyMap<string, RememberedAnswer> {
    const { answer } = approval;
    if (answer === undefined || answer.remember === 'once') return new Map();
    const parts = this.#remember(log, approval);
    const { decision } = answer;
    const given = new Map(parts.map(({ key }) => [key, { decision, reason: '' }]));
    if (answer.remember !== 'directory') return given;
    for (const { key, words } of parts) {
      this.#directories.add(log.record.owner, log.record.cwd, {
        key,
        words,
        decision,
        by: approval.answered_by ?? log.record.owner,
        at: approval.resolved_at ?? approval.created_at,
      });
    }
    return given;
  }

  /**
   * Returns the remembered answer for a call: no where one of its parts, or the call itself, was refused; yes where every part
   * was allowed. Of one key, the session's own answer wins.
   *
   * @param given answers by key that count too
   */
  find(
    log: SessionLog,
    { parts, whole, lasting }: Coverage,
    given?: ReadonlyMap<string, RememberedAnswer>,
  ): RememberedAnswer | undefined {
    const known = [whole, ...parts].map(({ key }) => given?.get(key) ?? this.#answerTo(log, key));
    const refused = known.find((answer) => answer?.decision === 'deny');
    if (refused !== undefined || !lasting) return refused;
    const [ofWhole, ...ofParts] = known;
    if (ofWhole !== undefined) return ofWhole;
    return ofParts.every((answer) => answer !== undefined) ? ofParts[0] : undefined;
  }

  #answerTo(log: SessionLog, key: string): RememberedAnswer | undefined {
    const ofSession = this.#sessions.get(log)?.get(key);
    if (ofSession !== undefined) return { decision: ofSession, reason: 'as answered before in this session' };
    const { owner, cwd } = log.record;
    const rule = this.#directories.get(owner, cwd).find((one) => one.key === key);
    return rule && { decision: rule.decision, reason: `as answered before in ${cwd}` };
  }

  /** Remembers an answer in the session, and returns the parts it covers. */
  #remember(log: SessionLog, { tool, risks, answer }: Approval): readonly CoveredPart[] {
    if (tool === undefined || answer === undefined) return [];
    const { parts, whole, lasting } = coverageOf(tool, risks, log.record.cwd, this.#reader);
    if (answer.decision === 'allow' && !lasting) return [];
    const answers = this.#sessions.get(log) ?? new Map<string, 'allow' | 'deny'>();
    this.#sessions.set(log, answers);
    const covered = answer.decision === 'allow' ? parts : [whole];
    for (const { key } of covered) setNewest(answers, key, answer.decision, MAX_SESSION_ANSWERS);
    return covered;
  }
}
