/**
 * The one error table. Every failure Handfast reports has a row here: its name, its form in each dialect, the exit code
 * of the command line, and whether a retry can help.
 *
 * `docs/errors.md` is generated from this file; a test compares the two and checks that every row can be found again
 * from the members that each dialect carries (A2E `code` + `detail.reason`, JSON-RPC `code` + `data.kind`).
 *
 * @see docs/protocol/a2e.md#replies-to-bad-input
 */

/** One row: the name of a failure on each edge. */
export interface ErrorRow {
  /** A2E `error.code`; rows that share a code are distinguished by `reason` in `detail.reason`. */
  readonly a2e: string;
  /** JSON-RPC 2.0 error number; rows that share a number are distinguished by `data.kind`. */
  readonly jsonrpc: number;
  /** HTTP status where the failure is the answer to an HTTP request. */
  readonly http: number;
  /** Exit code of the command line. */
  readonly exit: number;
  /**
   * True when the same request may succeed later without a change. An error of a request that had begun and is not
   * idempotent has false in any case, with `detail.may_have_run`.
   */
  readonly retryable: boolean;
  /** The failure and the remedy, for `docs/errors.md`. */
  readonly help: string;
}

const row = (a2e: string, jsonrpc: number, http: number, exit: number, retryable: boolean, help: string): ErrorRow => ({
  a2e,
  jsonrpc,
  http,
  exit,
  retryable,
  help,
});

const REMOTE = 5;

/** Name → row. The order is the order of `docs/errors.md`. */
export const errorTable = {
  // Input that could not be read.
  parse_error: row(
    'parse_error',
    -32700,
    400,
    REMOTE,
    false,
    'The line is not JSON, or not valid UTF-8; nothing was run. Send one JSON object on each line.',
  ),
  invalid_message: row(
    'invalid_message',
    -32600,
    400,
    REMOTE,
    false,
    'JSON, but not a message: no usable type or id, an id already in flight, or a second handshake. The message names the member; correct it.',
  ),
  too_large: row(
    'invalid_message',
    -32600,
    413,
    REMOTE,
    false,
    'The message exceeds a limit of its receiver and was skipped: `detail.limit` has it, in bytes (`limits.max_message_bytes`; of session RPC `control.max_message_bytes`), levels (`limits.max_depth`) or values (`limits.max_values`). Send less, or raise the setting there. After the handshake the link stays open.',
  ),
  unknown_type: row(
    'invalid_message',
    -32601,
    404,
    REMOTE,
    false,
    'The peer does not support this message type. Check its version and the granted capabilities.',
  ),
  schema_violation: row(
    'schema_violation',
    -32602,
    422,
    REMOTE,
    false,
    'A field is missing or has the wrong type; `detail.path` names it. Correct it; `schema/` has the shape of every message.',
  ),
  // Missing rights.
  unauthorized: row(
    'unauthorized',
    -32003,
    401,
    3,
    false,
    'The principal may not do this, or the session belongs to another principal. Use a token that has the right.',
  ),
  auth_failed: row(
    'unauthorized',
    -32003,
    401,
    3,
    false,
    'The token is missing or wrong. Pass the token of this host with `--token-file` or `HANDFAST_TOKEN`.',
  ),
  untrusted_folder: row(
    'unauthorized',
    -32003,
    403,
    3,
    false,
    'This user does not trust the content that came with a folder. Look at it and trust it with `handfast trust add`.',
  ),
  foreign_listener: row(
    'unauthorized',
    -32003,
    403,
    3,
    false,
    'The token of this user is for hosts of this user, and another user listens at the address, or may. Nothing was sent. Pass a token that is meant for that host with `--token-file` or `HANDFAST_TOKEN`.',
  ),
  handshake_required: row(
    'unauthorized',
    -32002,
    401,
    3,
    false,
    'A request arrived before the handshake. Send the handshake first.',
  ),
  handshake_timeout: row(
    'unauthorized',
    -32002,
    408,
    7,
    true,
    'No handshake arrived within `handshake_timeout_ms`, so the link was closed. Connect again.',
  ),
  version_mismatch: row(
    'version_mismatch',
    -32602,
    400,
    6,
    false,
    'The two sides have no common protocol version. Update the older one.',
  ),
  capability_missing: row(
    'capability_missing',
    -32601,
    403,
    6,
    false,
    'The capability was not granted in the handshake. `handfast caps` shows the reason.',
  ),
  no_caps: row(
    'capability_missing',
    -32601,
    403,
    6,
    false,
    'None of the requested capabilities is available. `handfast caps` shows the reason for each.',
  ),
  server_error: row(
    'runtime_error',
    -32603,
    500,
    6,
    true,
    'The host could not complete the handshake: it is stopping, at a limit, or a plugin refused. Retry later.',
  ),
  dialect_not_served: row(
    'invalid_message',
    -32601,
    404,
    6,
    false,
    'This listener does not serve the protocol of the first message. Use another address of the host.',
  ),
  // Time, limits, and links.
  timeout: row(
    'timeout',
    -32004,
    504,
    7,
    true,
    'The deadline passed before the work was done; the work was aborted. Retry with a longer timeout; with `detail.may_have_run` check first what was done.',
  ),
  cancelled: row(
    'runtime_error',
    -32800,
    499,
    130,
    false,
    'The caller cancelled the request. Send it again if it is still wanted.',
  ),
  over_capacity: row(
    'runtime_error',
    -32001,
    429,
    REMOTE,
    true,
    'A concurrency limit or a queue is full. Retry after `detail.retry_after_ms`.',
  ),
  slow_consumer: row(
    'runtime_error',
    -32001,
    503,
    REMOTE,
    true,
    'The reader was slower than its limits permit, so its link was detached. Reconnect to resume, and read faster; with `detail.may_have_run` check first what was done.',
  ),
  interrupted: row(
    'runtime_error',
    -32000,
    503,
    REMOTE,
    true,
    'The host stopped before the work was done. Retry when it runs again; with `detail.may_have_run` check first what was done.',
  ),
  reply_lost: row(
    'runtime_error',
    -32000,
    410,
    REMOTE,
    false,
    'The request ran, but the journal no longer has its reply. Check its effect before repeating it.',
  ),
  session_expired: row(
    'runtime_error',
    -32000,
    410,
    REMOTE,
    true,
    'The session ended: it was idle, or disconnected for longer than `resume_window_ms`. Open a new one; with `detail.may_have_run` check first what was done.',
  ),
  session_not_found: row(
    'unauthorized',
    -32603,
    404,
    3,
    false,
    'This principal has no session of this id. Check the id and the token.',
  ),
  superseded: row(
    'runtime_error',
    -32000,
    409,
    REMOTE,
    false,
    'Another link has taken over this session; this one is closed. Use one client for a session, or open a new one.',
  ),
  connection_lost: row(
    'runtime_error',
    -32000,
    502,
    4,
    true,
    'The link ended before the reply. Reconnect and retry; with `detail.may_have_run` check first what was done.',
  ),
  unreachable: row(
    'runtime_error',
    -32000,
    502,
    4,
    true,
    'No process responds at this address. Start the host, or correct the address.',
  ),
  // The work itself.
  runtime_error: row(
    'runtime_error',
    -32603,
    500,
    REMOTE,
    false,
    'The handler failed. The host log has the details under `detail.correlation_id`.',
  ),
  out_of_memory: row(
    'out_of_memory',
    -32603,
    500,
    REMOTE,
    true,
    'The work exceeded its memory limit. Retry with less data.',
  ),
  sandbox_crash: row(
    'sandbox_crash',
    -32603,
    500,
    REMOTE,
    true,
    'The sandbox around the work ended unexpectedly. Retry, or read the log of the host.',
  ),
  unknown_tool: row(
    'unknown_tool',
    -32602,
    404,
    REMOTE,
    false,
    'No tool has this name. `handfast tools ls` lists the tools.',
  ),
  tool_denied: row(
    'tool_denied',
    -32003,
    403,
    REMOTE,
    false,
    'A rule of the host does not allow this call; the message names the reason. The configuration of the host sets the rules.',
  ),
  tool_error: row(
    'tool_error',
    -32603,
    500,
    REMOTE,
    false,
    'The tool ran and failed; the message is from the tool. Correct what it names and call it again.',
  ),
  // Sessions of the control edge. Version 1.0.0 of session RPC has one number for all of these.
  session_busy: row(
    'runtime_error',
    -32603,
    409,
    REMOTE,
    true,
    'A turn is running. Queue the prompt, steer the turn, or wait.',
  ),
  session_closed: row(
    'runtime_error',
    -32603,
    410,
    REMOTE,
    false,
    'The session was closed. Load it again with `session.load`.',
  ),
  empty_prompt: row('schema_violation', -32603, 422, 2, false, 'The prompt is empty. Send text or an image.'),
  not_found: row(
    'runtime_error',
    -32603,
    404,
    REMOTE,
    false,
    'There is no such chat, model, turn, prompt or approval. List them and use an id of the list.',
  ),
  not_configured: row(
    'runtime_error',
    -32603,
    409,
    REMOTE,
    false,
    'A setting is missing, such as a model, a token or the credentials of a provider. Set what the message names.',
  ),
  provider_error: row(
    'runtime_error',
    -32603,
    502,
    REMOTE,
    false,
    'The model provider refused or failed the request; the message has its reason. Check the key, the model and the limits of the provider.',
  ),
  login_failed: row(
    'runtime_error',
    -32603,
    401,
    3,
    false,
    'Signing in to a provider failed; the message has the reason. Start the sign-in again.',
  ),
  denied: row(
    'runtime_error',
    -32603,
    403,
    REMOTE,
    false,
    'The user or the approval policy denied it. The rules are in `control.approvals` of the configuration.',
  ),
  batch_not_supported: row(
    'invalid_message',
    -32600,
    400,
    REMOTE,
    false,
    'An array of requests is not supported. Send them one by one.',
  ),
  // Capabilities.
  quota_exceeded: row(
    'runtime_error',
    -32001,
    507,
    REMOTE,
    false,
    'The store of this capability is full for its owner; delete something, or raise `quota_bytes`.',
  ),
  call_depth_exceeded: row(
    'runtime_error',
    -32603,
    508,
    REMOTE,
    false,
    'Capabilities called each other too deeply; `detail.limit` is the bound. Look for a cycle of calls.',
  ),
  no_handler: row(
    'runtime_error',
    -32601,
    501,
    REMOTE,
    false,
    'The agent has no handler for this request of the host. Register one with `agent.serve`.',
  ),
  // Tasks of the fleet edge.
  lease_lost: row(
    'runtime_error',
    -32603,
    409,
    REMOTE,
    false,
    'The lease of this attempt was lost; another one may run. `handfast task show` shows which.',
  ),
  budget_spent: row(
    'runtime_error',
    -32603,
    429,
    REMOTE,
    false,
    'The task used its whole token budget. Raise `token_budget`, or split the task.',
  ),
  duplicate_conflict: row(
    'runtime_error',
    -32603,
    409,
    REMOTE,
    false,
    'A task of this id with other content exists already. Use another id.',
  ),
  // The host's own disk and configuration.
  disk_full: row(
    'runtime_error',
    -32603,
    507,
    REMOTE,
    true,
    'A file could not be written because the disk is full. Free space on it; with `detail.may_have_run` check first what was done.',
  ),
  journal_corrupt: row(
    'runtime_error',
    -32603,
    500,
    REMOTE,
    false,
    'A journal file is damaged. The message names the file; move it away if it was not quarantined.',
  ),
  journal_damaged: row(
    'runtime_error',
    -32603,
    500,
    REMOTE,
    false,
    'The newest writes of a journal or another database are lost; the others can be read, and no cursor is used again. Check the disk; restore only copies that were made with their `-wal` file or of a stopped process; then delete the record that `handfast doctor` names.',
  ),
  journal_locked: row(
    'runtime_error',
    -32603,
    503,
    REMOTE,
    true,
    'Another process has this journal open. Stop that process, or use another data folder.',
  ),
  config_invalid: row(
    'invalid_message',
    -32602,
    400,
    2,
    false,
    'A configuration, in a file or a program, has an error; the message names where. `handfast config check` lists all.',
  ),
  usage: row('invalid_message', -32602, 400, 2, false, 'A command or function got wrong arguments; see `--help`.'),
} as const satisfies Record<string, ErrorRow>;

/** Every name of the table. */
export type ErrorName = keyof typeof errorTable;

/** Rows whose name is not their A2E code, so `detail.reason` must distinguish them. */
const byReason = new Map<string, ErrorName>();
for (const name of Object.keys(errorTable) as ErrorName[]) byReason.set(`${errorTable[name].a2e} ${name}`, name);
const byNumber = new Map<string, ErrorName>();
for (const name of Object.keys(errorTable) as ErrorName[]) byNumber.set(`${errorTable[name].jsonrpc} ${name}`, name);

/** The name of a JSON-RPC number when no reason is given. */
const numberDefaults: Record<number, ErrorName> = {
  [-32700]: 'parse_error',
  [-32600]: 'invalid_message',
  [-32601]: 'unknown_type',
  [-32602]: 'schema_violation',
  [-32603]: 'runtime_error',
  [-32000]: 'connection_lost',
  [-32001]: 'over_capacity',
  [-32002]: 'handshake_required',
  [-32003]: 'unauthorized',
  [-32004]: 'timeout',
  [-32800]: 'cancelled',
};

/** Returns the table row name for an A2E error, or undefined when the code, an open string, is not in the table. */
export function nameOfA2E(code: string, reason?: unknown): ErrorName | undefined {
  const named = typeof reason === 'string' ? byReason.get(`${code} ${reason}`) : undefined;
  return named ?? byReason.get(`${code} ${code}`);
}

/** Returns the table row name for a JSON-RPC error. */
export function nameOfJsonRpc(number: number, reason?: unknown): ErrorName | undefined {
  const named = typeof reason === 'string' ? byNumber.get(`${number} ${reason}`) : undefined;
  return named ?? numberDefaults[number];
}

/** Facts for a peer or a caller beside the message. Always plain JSON, never a stack, a path of the host or a secret. */
export type ErrorDetail = Record<string, unknown>;

/**
 * The one error class. Callers compare `error.code`, never the class or the message.
 *
 * `code` is a name of {@link errorTable} or, for an error a peer sent, the string that the peer used.
 */
export class HandfastError extends Error {
  readonly code: ErrorName | (string & {});
  readonly detail: ErrorDetail;
  readonly retryable: boolean;
  /** The capability the failure belongs to, or `''`. */
  readonly capability: string;

  constructor(
    code: ErrorName | (string & {}),
    message: string,
    options: { detail?: ErrorDetail; retryable?: boolean; capability?: string; cause?: unknown } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'HandfastError';
    this.code = code;
    this.detail = options.detail ?? {};
    this.retryable = options.retryable ?? ownRow(code)?.retryable ?? false;
    this.capability = options.capability ?? '';
  }
}

/** Makes an error of the table: `throw fail('unknown_tool', 'no tool named "x"', { tool: 'x' })`. */
export function fail(code: ErrorName, message: string, detail?: ErrorDetail, cause?: unknown): HandfastError {
  return new HandfastError(code, message, { detail, cause });
}

/**
 * Returns the error of a request that had begun and whose work may be done, in whole or in part: it is not `retryable`,
 * and `detail.may_have_run` is true. Repeat the request only after its effect was checked.
 */
export function mayHaveRun({ code, message, detail, capability, cause }: HandfastError): HandfastError {
  const uncertain = { ...detail, may_have_run: true };
  return new HandfastError(code, message, { detail: uncertain, retryable: false, capability, cause });
}

/**
 * Turns any thrown value into a {@link HandfastError}; a value that is not one already becomes `runtime_error` with the
 * value as its cause.
 */
export function asError(thrown: unknown, fallback: ErrorName = 'runtime_error'): HandfastError {
  if (thrown instanceof HandfastError) return thrown;
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new HandfastError(fallback, message, { cause: thrown });
}

/**
 * Returns the row that decides how an error is sent: the row with its name, or for a code of a capability (see
 * {@link capabilityErrors}) the row that its `detail.row` names. Any other code counts as `runtime_error`.
 */
export function rowOf(code: string, detail: ErrorDetail = {}): ErrorRow {
  return ownRow(code) ?? ownRow(detail.row) ?? errorTable.runtime_error;
}

const ownRow = (name: unknown): ErrorRow | undefined =>
  typeof name === 'string' && Object.hasOwn(errorTable, name) ? errorTable[name as ErrorName] : undefined;

/** Returns the exit code of the command line for an error code; unknown codes count as remote errors (5). */
export function exitCodeOf(code: string, detail?: ErrorDetail): number {
  return rowOf(code, detail).exit;
}

/** An error of a capability: the row of the table it behaves like, and its code where a protocol fixes the spelling. */
export type CapabilityErrorRow = ErrorName | { readonly row: ErrorName; readonly code: string };

/**
 * Declares the error codes of a capability. Each is `<capability>.<name>` on every wire, unless a protocol fixes another
 * spelling, and gets JSON-RPC number, HTTP status, exit code and retryability from one row of {@link errorTable}. The
 * row travels as `detail.row`, so that peers which do not know the capability still treat the error rightly.
 *
 * @example
 * const failure = capabilityErrors('notes', { missing: 'not_found', full: { row: 'over_capacity', code: 'notes_full' } });
 * throw failure('missing', 'no note "a"', { key: 'a' });
 */
export function capabilityErrors<Name extends string>(
  capability: string,
  codes: Readonly<Record<Name, CapabilityErrorRow>>,
): (name: Name, message: string, detail?: ErrorDetail, cause?: unknown) => HandfastError {
  return (name, message, detail = {}, cause) => {
    const entry: CapabilityErrorRow = codes[name];
    const { row, code } = typeof entry === 'string' ? { row: entry, code: `${capability}.${name}` } : entry;
    const { retryable } = errorTable[row];
    return new HandfastError(code, message, { detail: { row, ...detail }, retryable, capability, cause });
  };
}
