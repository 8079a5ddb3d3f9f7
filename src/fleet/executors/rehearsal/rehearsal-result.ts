/**
 * Writes the TASK_RESULT of a rehearsal turn as agents do: after the prose, or alone where the prompt requests that. Pure.
 */
import { FLEET_VERSION, type Status, type TaskResult } from '../../../protocol/fleet.ts';

/** The outcome of a turn. */
export interface TurnSummary {
  readonly status: Status;
  readonly summary: string;
  /** Changed files, relative to the working directory. */
  readonly files: readonly string[];
  readonly next: readonly string[];
  /** The failure, if any. */
  readonly trouble?: string;
  readonly answer?: unknown;
  /** Omits the result from a repair too. */
  readonly never?: boolean;
}

/** Returns the reply: `prose` followed by the block, or only the object where the prompt requests that. */
export function resultOf(taskId: string, turn: TurnSummary, prose: string, prompt: string): string {
  const { status, summary, files, next, trouble, answer } = turn;
  const alone = /\bnothing else\b/i.test(prompt);
  const result: TaskResult = {
    type: 'TASK_RESULT',
    protocol_version: FLEET_VERSION,
    task_id: taskId,
    status,
    summary: alone ? prose : summary,
    ...(next.length > 0 && { next_steps: next }),
    ...(status === 'error' && { error_summary: trouble ?? summary }),
    ...(files.length > 0 && { artifacts: { files_changed: files } }),
    ...(answer !== undefined && { answer }),
  };
  const json = JSON.stringify(result, undefined, 2);
  return alone ? json : `${prose}\n\n\`\`\`json\n${json}\n\`\`\``;
}
