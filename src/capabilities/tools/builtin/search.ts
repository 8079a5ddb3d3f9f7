/**
 * Runs a search in a separate thread and stops the thread on abort or timeout, so that neither a huge tree nor a catastrophic
 * expression holds up the host. Each principal has a share of the threads of the process. Loaded on the first call.
 */
import { join } from 'node:path';
import { Worker } from 'node:worker_threads';
import { compiledCode } from '../../../base/compiled-code.ts';
import { counted } from '../../../base/counted.ts';
import { isShortage, whyNotStarted } from '../../../base/not-started.ts';
import { within } from '../../../base/race.ts';
import { processTimer } from '../../../base/timer-queue.ts';
import type { GuardMemory } from '../../../base/workspace/protected-paths.ts';
import type { CallContext } from '../../../host/context.ts';
import { type ErrorDetail, type ErrorName, fail, type HandfastError } from '../../../wire/errors.ts';
import { result, type ShapedResult } from '../tool.ts';
import type { FoundFiles, GlobArgs } from './glob.ts';
import type { GrepArgs, GrepResult } from './grep.ts';
import type { RankedArgs, RankedResult } from './ranked-search.ts';
import { SearchProgress } from './search-progress.ts';

/** The data of the thread. */
export interface SearchJob {
  readonly workspace: string;
  /** Protected paths that the search must not read. */
  readonly guard: GuardMemory | undefined;
  readonly search:
    | { readonly tool: 'glob'; readonly args: GlobArgs }
    | { readonly tool: 'grep'; readonly args: GrepArgs }
    | { readonly tool: 'search_files'; readonly args: RankedArgs; readonly index: string };
  readonly spot: SharedArrayBuffer;
}

/** The one message that the thread sends. */
export type SearchAnswer =
  | { readonly value: unknown }
  | { readonly error: { readonly code: ErrorName; readonly message: string; readonly detail: ErrorDetail } };

/** Maximum heap of the thread in MiB; a search that exceeds it fails with `out_of_memory`. */
const MAX_HEAP_MIB = 256;
/** Maximum wait for the end of a stopped thread; only one that is stuck in the kernel takes longer. */
const END_WAIT_MS = 2_000;

/** Searches files by name. See `glob.ts`. */
export async function searchNames(args: GlobArgs, context: CallContext): Promise<ShapedResult<FoundFiles>> {
  const found = (await runSearch({ tool: 'glob', args }, context)) as FoundFiles;
  const summary = `${counted(found.paths.length, 'file')}${found.truncated ? ' (there are more)' : ''}`;
  return result(found, { summary, truncated: found.truncated });
}

/** Searches lines by content. See `grep.ts`. */
export async function searchContents(args: GrepArgs, context: CallContext): Promise<ShapedResult<GrepResult>> {
  const found = (await runSearch({ tool: 'grep', args }, context)) as GrepResult;
  const more = found.truncated ? ' (there are more)' : '';
  return result(found, {
    summary: `matches in ${found.files.length} of ${counted(found.files_searched, 'file')}${more}`,
    truncated: found.truncated,
  });
}

/** Searches passages by words, the best first. See `ranked-search.ts`. */
export async function searchPassages(args: RankedArgs, context: CallContext): Promise<ShapedResult<RankedResult>> {
  // An index of restricted principals excludes their protected paths, even from the frequencies of words.
  const index = join(
    await context.dataFolder(),
    context.pathGuard === undefined ? 'search.db' : 'search-restricted.db',
  );
  const found = (await runSearch({ tool: 'search_files', args, index }, context)) as RankedResult;
  const part = found.complete ? '' : '; the index is not complete';
  return result(found, {
    summary: `${counted(found.passages.length, 'passage')} of ${counted(found.files_searched, 'file')}${part}`,
    truncated: found.truncated,
  });
}

/**
 * Runs a search in a thread. The deadline is enforced from here: the thread is stopped in any case. Its slot is free once it
 * has ended.
 */
async function runSearch(search: SearchJob['search'], context: CallContext): Promise<unknown> {
  // Waits for a slot at most for its timeout.
  const release = await context.acquireThread(context.signal, search.args.time_limit_seconds * 1000);
  const spot = new SearchProgress();
  let worker: Worker;
  try {
    worker = startThread({
      workspace: context.workspace,
      guard: memoryOf(context),
      search,
      spot: spot.memory,
    });
  } catch (error) {
    release();
    throw threadError(error);
  }
  worker.once('exit', release);
  const { signal } = context;
  const { promise, resolve, reject } = Promise.withResolvers<SearchAnswer>();
  const abort = () => reject(signal.reason);
  signal.addEventListener('abort', abort, { once: true });
  if (signal.aborted) abort();
  const timer = setTimeout(() => reject(new TimeLimit()), search.args.time_limit_seconds * 1000);
  worker.once('message', resolve);
  worker.once('error', (error: unknown) => reject(threadError(error)));
  worker.once('exit', () => reject(fail('tool_error', 'the search ended without an answer', { reason: 'no_answer' })));
  try {
    const answer = await promise;
    if ('value' in answer) return answer.value;
    throw fail(answer.error.code, answer.error.message, answer.error.detail);
  } catch (error) {
    if (!(error instanceof TimeLimit)) throw error;
    // Only a thread that has ended writes no further progress.
    await within(worker.terminate(), END_WAIT_MS, processTimer);
    throw timeLimitError(spot, search.args.time_limit_seconds);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', abort);
    await within(worker.terminate(), END_WAIT_MS, processTimer);
  }
}

/** Returns the present memory of the call's guard. */
function memoryOf({ pathGuard }: CallContext): GuardMemory | undefined {
  pathGuard?.refresh();
  return pathGuard?.memory();
}

function startThread(workerData: SearchJob): Worker {
  const extension = import.meta.url.endsWith('.ts') ? '.ts' : '.js';
  return new Worker(new URL(`./search-worker${extension}`, import.meta.url), {
    workerData,
    // The thread gets nothing else of the host's start-up or environment.
    execArgv: [],
    env: { ...compiledCode() },
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MIB },
  });
}

class TimeLimit extends Error {}

function timeLimitError(spot: SearchProgress, seconds: number): HandfastError {
  const where = spot.path === '' ? '' : ` in ${JSON.stringify(spot.path)}`;
  return fail(
    'timeout',
    `the search was stopped after ${seconds} s${where}; use a simpler pattern or a smaller part of the workspace`,
    { reason: 'time_limit', stopped_at: spot.path, files_begun: spot.files },
  );
}

function threadError(error: unknown): HandfastError {
  if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY') {
    return fail('out_of_memory', 'the search exceeded its memory limit; search a smaller part of the workspace');
  }
  if (isShortage(error)) {
    const message = `the search could not be started: ${whyNotStarted(error)}`;
    return fail('tool_error', message, { reason: 'thread_failed' }, error);
  }
  return fail('tool_error', 'the search failed', { reason: 'thread_failed' }, error);
}
