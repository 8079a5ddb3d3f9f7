/** Tasks as people read them: figures that were only claimed are marked wherever they are shown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventLine, showOutcome, showTask, taskLines } from '../../../src/cli/output/task-output.ts';
import type { Terminal } from '../../../src/cli/output/terminal.ts';
import type { TaskRecord } from '../../../src/fleet/orchestrator/task.ts';

function taskWith(tokens_claimed: boolean | undefined): TaskRecord {
  return {
    task_id: 't-1',
    state: 'done',
    attempt: 1,
    worker: 'w',
    attempts: [
      { attempt: 1, worker: 'w', mode: 'inline', sent_at: 0, outcome: 'done', tokens_spent: 900, tokens_claimed },
    ],
    tokens_spent: 900,
    created_at: 0,
    verification: [],
    verified: null,
    late_results: [],
    questions: [],
    result: null,
    spec: {
      brief: 'x',
      priority: 'normal',
      token_budget: null,
      required_mcp: [],
      required_capabilities: [],
      after: [],
    },
  } as unknown as TaskRecord;
}

/** Returns everything that is printed of a task. */
function printed(task: TaskRecord): string[] {
  const lines: string[] = [];
  const terminal = {
    line: (text = '') => lines.push(text),
    note: (text: string) => lines.push(text),
    columns: (_headings: readonly string[], rows: readonly (readonly string[])[]) => rows.map((row) => row.join(' ')),
  } as unknown as Terminal;
  showTask(task, terminal, 0);
  showOutcome(task, terminal);
  lines.push(...taskLines([task], terminal, 0));
  const { tokens_spent, attempts } = task;
  const body = { state: 'done', tokens_spent, tokens_claimed: attempts[0]?.tokens_claimed };
  lines.push(eventLine('t-1', { seq: 1, ts: 0, kind: 'ended', body } as unknown as Parameters<typeof eventLine>[1]));
  return lines.filter((line) => line.includes('900'));
}

test('a figure that was only claimed is marked in every line that shows it, a measured one in none', () => {
  const claimed = printed(taskWith(true));
  assert.equal(claimed.length, 5);
  for (const line of claimed) assert.match(line, /900 claimed/);
  for (const line of printed(taskWith(undefined))) assert.doesNotMatch(line, /claimed/);
});
