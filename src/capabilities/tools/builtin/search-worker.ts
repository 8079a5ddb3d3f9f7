/** Entry of the search thread: accepts one job, sends one result, ends. */
import { constants, setPriority } from 'node:os';
import { parentPort, workerData } from 'node:worker_threads';
import { PathGuard } from '../../../base/workspace/protected-paths.ts';
import { asError, type ErrorName } from '../../../wire/errors.ts';
import { globFiles } from './glob.ts';
import { grepFiles } from './grep.ts';
import { rankFiles } from './ranked-search.ts';
import type { SearchAnswer, SearchJob } from './search.ts';
import { SearchProgress } from './search-progress.ts';

// The main thread, which serves all sessions, has priority. On other systems than Linux this would slow the whole process down.
if (process.platform === 'linux') setPriority(0, constants.priority.PRIORITY_LOW);

const { workspace, guard: known, search, spot: memory } = workerData as SearchJob;
const guard = known === undefined ? undefined : PathGuard.recall(known);
const spot = new SearchProgress(memory);
let answer: SearchAnswer;
try {
  answer = { value: await run() };
} catch (thrown) {
  const error = asError(thrown, 'tool_error');
  // The message of a foreign error may contain paths of the host.
  const message = error === thrown ? error.message : 'the search failed';
  answer = { error: { code: error.code as ErrorName, message, detail: error.detail } };
}
parentPort?.postMessage(answer);

function run(): Promise<unknown> {
  switch (search.tool) {
    case 'glob':
      return globFiles(workspace, search.args, spot, guard);
    case 'grep':
      return grepFiles(workspace, search.args, spot, guard);
    case 'search_files':
      return rankFiles(workspace, search.args, search.index, spot, guard);
  }
}
