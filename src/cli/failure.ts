/**
 * The failure of a command: one message on stderr, as a line of text or of JSON, and the exit code of the error table.
 *
 * Exit codes: 0 done, 2 wrong usage or configuration, 3 not allowed, 4 unreachable, 5 failed at the other side, 6 refused in
 * the handshake, 7 out of time, 130 interrupted. 1 is no failure of a command: it did its work, and the thing it ran or checked
 * failed or differs.
 */
import { styleText } from 'node:util';
import { escapeControls, escapedJson } from '../base/escape-controls.ts';
import { exitCodeOf } from '../wire/errors.ts';

/** An error as `--json` prints it, on one line of stderr. */
export interface FailureLine {
  readonly error: {
    readonly code: string;
    readonly message: string;
    readonly detail: Readonly<Record<string, unknown>>;
    readonly retryable: boolean;
  };
}

/** Returns any thrown value in the shape of an error of the table. */
export function failureOf(thrown: unknown): FailureLine['error'] {
  const { code, message, detail, retryable } = (thrown ?? {}) as Partial<FailureLine['error']>;
  // Errors of the system carry codes too, but none of the error table.
  const named = thrown instanceof Error && typeof code === 'string' && /^[a-z][a-z_]*(\.[a-z_]+)?$/.test(code);
  return {
    code: named ? code : 'runtime_error',
    message: typeof message === 'string' && message !== '' ? message : String(thrown),
    detail: named && typeof detail === 'object' && detail !== null ? detail : {},
    retryable: named && retryable === true,
  };
}

/** Advice on the next step, where the message came from a host and cannot know the command line. */
const NEXT: Readonly<Record<string, string>> = {
  unknown_tool: 'handfast tools ls lists the tools',
  unknown_type: 'handfast schema export a2e has the message types',
  session_not_found: 'handfast session ls lists the sessions',
  mcp_server_not_found: 'handfast mcp ls lists the servers',
  mcp_prompt_not_found: 'handfast mcp prompts lists the prompts',
  unknown_skill: 'handfast skill ls lists the skills',
  'chains.unknown_chain': 'handfast chain ls lists the stored chains',
  'toolkits.unknown': 'handfast toolkits ls lists the toolkits',
};

/** Returns the next step that the message does not name; '' = none. */
export function nextStepOf({ code, message, detail }: FailureLine['error']): string {
  if (detail.may_have_run === true && !/may have (?:run|changed)/.test(message)) {
    return '; it may have run: look at what it did before you repeat it';
  }
  return Object.hasOwn(NEXT, code) && !message.includes(';') ? `; ${NEXT[code]}` : '';
}

/** Writes the failure to stderr and returns its exit code. */
export function reportFailure(thrown: unknown, json: boolean): number {
  const error = failureOf(thrown);
  if (json) process.stderr.write(`${escapedJson({ error })}\n`);
  else {
    const next = nextStepOf(error);
    const name = styleText('red', 'handfast:', { stream: process.stderr });
    process.stderr.write(`${name} ${escapeControls(error.message)}${next} [${escapeControls(error.code)}]\n`);
  }
  return exitCodeOf(error.code, error.detail);
}
