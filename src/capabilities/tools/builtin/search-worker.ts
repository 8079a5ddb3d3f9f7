/**
 * Entry of the search thread: takes one job, sends one answer, ends. Started by `search.ts`.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { asError, type ErrorName } from '../../../wire/errors.ts';
import { globFiles } from './glob.ts';
import { grepFiles } from './grep.ts';
import type { SearchAnswer, SearchJob } from './search.ts';
import { SearchProgress } from './search-progress.ts';

const { workspace, search, spot: memory } = workerData as SearchJob;
const spot = new SearchProgress(memory);
let answer: SearchAnswer;
try {
  const value =
    search.tool === 'glob'
      ? await globFiles(workspace, search.args, spot)
      : await grepFiles(workspace, search.args, spot);
  answer = { value };
} catch (thrown) {
  const error = asError(thrown, 'tool_error');
  // What is not ours may hold paths of the host in its message.
  const message = error === thrown ? error.message : 'the search failed';
  answer = { error: { code: error.code as ErrorName, message, detail: error.detail } };
}
parentPort?.postMessage(answer);
