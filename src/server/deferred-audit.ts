/**
 * The audit of a host whose first handshake may arrive before the writer is loaded: records are buffered until the writer is
 * open. One for every host with an audit, and for servers of sessions without such a host; a host that has time opens it early.
 *
 * Loading the writer costs as much as starting the rest of a small host, because it hashes and locks.
 */

import type { Log } from '../base/log.ts';
import { isShortage } from '../base/not-started.ts';
import type { HostConfig } from '../config/config.ts';
import type { Audit, AuditHealth, AuditOptions, AuditRecord } from '../host/audit/audit.ts';
import type { AuditSink } from '../host/host.ts';

/** Delay before the first record loads the writer: the peer that caused it is likely to send more requests at once. */
const LOAD_AFTER_MS = 100;

/** Records buffered while the writer is loaded; further ones are dropped. */
const MAX_BUFFERED = 8_192;

export const DAY_MS = 86_400_000;

/** Makes the audit of a configuration; undefined where it has none. */
export const auditOf = ({ audit }: HostConfig, log: Log): DeferredAudit | undefined =>
  audit.enabled ? new DeferredAudit({ ...audit, retainMs: audit.retainDays * DAY_MS }, log) : undefined;

export class DeferredAudit implements AuditSink {
  readonly #options: AuditOptions;
  readonly #log: Log;
  readonly #buffered: AuditRecord[] = [];
  #audit: Audit | undefined;
  #opening: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;

  constructor(options: AuditOptions, log: Log) {
    this.#options = options;
    this.#log = log;
  }

  record(record: AuditRecord): void {
    if (this.#audit !== undefined) return this.#audit.record(record);
    if (this.#buffered.length < MAX_BUFFERED) this.#buffered.push(record);
    else this.#dropped++;
    this.#timer ??= setTimeout(() => void this.open(), LOAD_AFTER_MS).unref();
  }

  /** Loads the writer now. Never rejects: a host without an audit still serves, and logs the failure. */
  open(): Promise<void> {
    clearTimeout(this.#timer);
    this.#opening ??= this.#open();
    return this.#opening;
  }

  async #open(): Promise<void> {
    try {
      const { openAudit } = await import('../host/audit/audit.ts');
      const audit = openAudit(this.#options);
      await audit.prepare();
      this.#audit = audit;
      for (const record of this.#buffered.splice(0)) this.#audit.record(record);
    } catch (error) {
      this.#log.error('audit log could not be opened; requests are not audited', { error });
      if (!isShortage(error)) return;
      // It is tried again with the next request.
      this.#opening = undefined;
      this.#timer = undefined;
    }
  }

  /** State of the audit; undefined until the writer is loaded. */
  get health(): AuditHealth | undefined {
    const health = this.#audit?.health;
    return health && { ...health, dropped: health.dropped + this.#dropped };
  }

  /** Writes the remaining records and closes. Never rejects; bounded as `Audit.close` is. */
  async close(): Promise<void> {
    // A host that was never asked anything leaves no trace.
    if (this.#opening === undefined && this.#buffered.length === 0) return clearTimeout(this.#timer);
    await this.open();
    await this.#audit?.close();
  }
}
