/**
 * The cost of an empty first turn: a figure of the configuration, or measured once and stored. A task with a smaller budget
 * would be stopped before it had started. The turn runs in a scratch folder, so that it changes nothing of the user's.
 *
 * Determined at the start of the worker.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { asError } from '../../wire/errors.ts';
import type { WorkerJournal } from './journal.ts';
import type { WorkerOptions } from './worker-options.ts';

/** Longest time that measuring may take, milliseconds. */
const MEASURE_MS = 300_000;

export interface Overhead {
  /** Tokens, or null while unknown. */
  readonly tokens: number | null;
  /** Resolves when nothing is measured any more and the scratch folder is removed; at once when nothing is measured. */
  readonly settled: Promise<void>;
}

/**
 * Returns the cost as far as it is known. Where it has to be measured and was not for this agent, version and model, that
 * starts now, and `measured` is called when it is known.
 */
export function overheadOf(
  { executor, model, overheadTokens, log }: WorkerOptions,
  journal: WorkerJournal,
  version: string,
  signal: AbortSignal,
  measured: (tokens: number) => void,
): Overhead {
  if (overheadTokens !== 'measure') return { tokens: overheadTokens ?? null, settled: Promise.resolve() };
  const key = `overhead ${executor.kind} ${version} ${model ?? ''}`;
  const stored = journal.value(key);
  if (stored !== undefined) return { tokens: Number(stored), settled: Promise.resolve() };
  const measure = async (): Promise<void> => {
    let cwd: string | undefined;
    try {
      cwd = await mkdtemp(join(tmpdir(), 'handfast-empty-turn-'));
      const bound = AbortSignal.any([signal, AbortSignal.timeout(MEASURE_MS)]);
      const tokens = await executor.measureOverhead?.({ cwd, signal: bound });
      if (tokens == null || signal.aborted) return;
      journal.storeValue(key, String(tokens));
      measured(tokens);
    } catch (thrown) {
      log.warn('cost of an empty turn could not be measured', { error: asError(thrown).message });
    } finally {
      if (cwd !== undefined) await rm(cwd, { recursive: true, force: true }).catch(() => {});
    }
  };
  return { tokens: null, settled: measure() };
}
