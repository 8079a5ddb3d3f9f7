/**
 * The TASK_RESULT of a rehearsal turn, as agents write it: at the end of the prose, or alone where nothing else is wanted.
 * Pure; called by `rehearsal.ts`.
 */
import { FLEET_VERSION, type Status, type TaskResult } from '../../../protocol/fleet.ts';

/** How a turn went. */
export interface Told {
  readonly status: Status;
  readonly summary: string;
  /** Changed files, relative to the working directory. */
  readonly files: readonly string[];
  readonly next: readonly string[];
  /** What failed. */
  readonly trouble?: string;
  readonly answer?: unknown;
  /** Omits its result also when it is asked again. */
  readonly never?: boolean;
}

/** The reply: `prose` and the block behind it, or only the object, when that is what the prompt asks for. */
export function resultOf(taskId: string, told: Told, prose: string, prompt: string): string {
  const { status, summary, files, next, trouble, answer } = told;
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
