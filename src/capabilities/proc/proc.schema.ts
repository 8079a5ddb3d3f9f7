/**
 * The messages of the proc capability as schemas.
 *
 * The four pairs of A2E 1.0 and their event come first. Fields that A2E 1.0 does not have are optional, and so are the further
 * messages.
 * @see docs/proc.md
 */
import { answer, base, eventFields, fromAgent, fromHost } from '../../protocol/a2e.schema.ts';
import { anyObject, flag, may, number, oneOf, orNull, shape, text } from '../../protocol/shapes.schema.ts';
import { type Static, Type } from '../../wire/schema.ts';

const { Literal, Object: object } = Type;
const integer = (description: string) => Type.Integer({ description });
const count = (description: string) => Type.Integer({ minimum: 0, description });
const mayText = (description: string) => may(text(description));
const procId = mayText('The process.');

const Refusal = shape('Why a request with ok false was refused.', {
  code: text('proc.denied, proc_limit, unknown_proc, … see docs/proc.md.'),
  message: text('For people.'),
  detail: may(anyObject('More facts; row names the row of docs/errors.md.')),
});

const side = (description: string) => Type.Integer({ minimum: 1, maximum: 65_535, description });
const sides = { cols: side('Characters in a line.'), rows: side('Lines.') };
const ProcTerminal = shape('The size of a terminal.', sides);

const ProcSpawnReq = object(
  {
    ...base,
    type: Literal('proc/spawn/req'),
    session_id: mayText('Not needed: the session is that of the link.'),
    cmd: may(Type.Array(Type.String(), { description: 'Program and arguments; no shell is involved.' })),
    cwd: mayText('Folder in the workspace; empty: the workspace.'),
    env: may(
      Type.Unsafe<Readonly<Record<string, string>>>({
        type: 'object',
        additionalProperties: { type: 'string' },
        description: 'Variables beside those that every program gets.',
      }),
    ),
    stdin_mode: may(oneOf(['pipe', 'null'], 'null: it reads an empty input. Default pipe.')),
    timeout: may(Type.Number({ minimum: 0, description: 'Seconds until it is ended; 0 = never.' })),
    stream: may(flag('False: no events of this request; proc/read/req reads the output. Default true.')),
    overflow: may(
      oneOf(
        ['drop', 'pause'],
        'The treatment of a full store of output without a reader: the oldest output is dropped, or the process waits. Default drop.',
      ),
    ),
    chunks: may(flag('Output as it comes, not line by line.')),
    pty: may(ProcTerminal),
  },
  {
    ...fromAgent,
    description:
      'Starts a program, with pty at a terminal. Its output follows as proc/read/event, also behind the reply.',
  },
);

const ProcSpawnResp = object(
  {
    ...answer,
    type: Literal('proc/spawn/resp'),
    proc_id: text('Empty when refused.'),
    ok: flag('False: refused, see error.'),
    pid: integer('0 when refused.'),
    error: text('"Empty command", "Command not allowed", … Empty when it runs.'),
    refusal: may(Refusal),
  },
  { ...fromHost, description: 'The process.' },
);

const ProcWriteReq = object(
  {
    ...base,
    type: Literal('proc/write/req'),
    proc_id: procId,
    data: mayText('For its standard input.'),
    eof: may(flag('Closes its standard input behind it.')),
  },
  {
    ...fromAgent,
    description: 'Writes to the standard input of a process. The reply comes when the system has the text.',
  },
);

const ProcWriteResp = object(
  {
    ...answer,
    type: Literal('proc/write/resp'),
    proc_id: text('The process.'),
    ok: flag('False: refused, see error.'),
    pid: integer('0 when it is unknown.'),
    error: text('Empty when it was written.'),
    refusal: may(Refusal),
  },
  { ...fromHost, description: 'The outcome of the write.' },
);

const ProcReadEvent = object(
  {
    ...eventFields,
    type: Literal('proc/read/event'),
    proc_id: mayText('The process.'),
    stream_type: may(oneOf(['stdout', 'stderr'], 'Where the text was written to.')),
  },
  {
    ...fromHost,
    description:
      'Output of a process: data is {"text": line}, or {"code": exit code} at its end, negative for a signal. Of proc/read/req also seq, or of kind gap {"from", "to"}.',
  },
);

const ProcKillReq = object(
  {
    ...base,
    type: Literal('proc/kill/req'),
    proc_id: procId,
    signal: mayText('The name of a signal; default SIGTERM.'),
  },
  { ...fromAgent, description: 'Sends a signal to a process and all it has started.' },
);

const ProcKillResp = object(
  {
    ...answer,
    type: Literal('proc/kill/resp'),
    ok: flag('False: refused, see error.'),
    state: text(
      'running, stopped, crashed or timedout: what it is two seconds later at the latest. Empty when refused.',
    ),
    error: mayText('Why it was refused.'),
    refusal: may(Refusal),
  },
  { ...fromHost, description: 'The outcome of the signal.' },
);

const ProcStatusReq = object(
  {
    ...base,
    type: Literal('proc/status/req'),
    proc_id: mayText('Empty: all.'),
    all: may(flag('With those of other agents, as far as the principal reaches them. Default false.')),
  },
  { ...fromAgent, description: 'Says how a process, or how all are.' },
);

const ProcStatus = shape('A process.', {
  proc_id: text('Its id.'),
  cmd: text('Program and arguments, with spaces between.'),
  state: text('running, stopped, crashed or timedout.'),
  pid: integer('Its process id.'),
  exit_code: orNull(integer('Null while it runs; negative for a signal.')),
  started_at: number('When it was started, epoch seconds.'),
  argv: may(Type.Array(Type.String(), { description: 'Program and arguments.' })),
  agent_id: mayText('The agent that owns it.'),
  principal: mayText('The principal that owns it.'),
  signal: mayText('The signal that ended it; empty for none.'),
  reason: mayText(
    'Why it ended: exited, signal, killed, timedout, limit, session_ended, host_stopped. Empty while it runs.',
  ),
  ended_at: may(number('When it ended, epoch seconds; 0 while it runs.')),
  limits: may(
    Type.Unsafe<Readonly<Record<string, number>>>({
      type: 'object',
      description:
        'The limits that are in force: seconds, output_bytes, and of the system cpu_seconds, memory_bytes, file_bytes, open_files.',
    }),
  ),
  output: may(
    shape('Its output.', {
      first: count('Number of the oldest piece that is stored.'),
      next: count('Number of the piece that comes next.'),
      bytes: count('Bytes written in all.'),
      paused: flag('True while the process waits for a reader.'),
    }),
  ),
  pty: may(ProcTerminal),
});

const ProcStatusResp = object(
  {
    ...answer,
    type: Literal('proc/status/resp'),
    proc_id: text('The process; empty: all.'),
    status: text(
      'running, completed, failed, killed, not_found or error. Of all: running while any runs, else completed.',
    ),
    error: text('exit code n, the signal, or why it is not known; empty for none.'),
    procs: may(Type.Array(ProcStatus, { description: 'The process, or all, oldest first.' })),
    programs: may(
      Type.Array(Type.String(), { description: 'Of all: the rules of the programs that the principal may start.' }),
    ),
  },
  { ...fromHost, description: 'How it is.' },
);

const ProcReadReq = object(
  {
    ...base,
    type: Literal('proc/read/req'),
    proc_id: procId,
    from: may(count('Number of the first piece wanted. Default 0: all that is stored.')),
    follow: may(flag('False: what is stored, then the end. Default true: until the process has ended.')),
    reader: mayText('A name for proc/ack/req, which no other reader of the session has.'),
    window: may(
      count('Characters, with 64 for each piece, that may be sent before proc/ack/req. Default 0: any number.'),
    ),
  },
  {
    ...fromAgent,
    description:
      'Reads the output of a process as proc/read/event behind the reply. A process waits for its slowest reader.',
  },
);

const ProcReadResp = object(
  { ...answer, type: Literal('proc/read/resp'), proc: ProcStatus },
  { ...fromHost, description: 'The process; its output follows.' },
);

const ProcAckReq = object(
  {
    ...base,
    type: Literal('proc/ack/req'),
    reader: text('The name of the reader.'),
    seq: count('Number of the last piece that was used.'),
  },
  { ...fromAgent, description: 'Says how far a reader with a window has come.' },
);

const ProcAckResp = object(
  { ...answer, type: Literal('proc/ack/resp'), ok: flag('False: that reader has ended.') },
  { ...fromHost, description: 'Noted.' },
);

const ProcResizeReq = object(
  { ...base, type: Literal('proc/resize/req'), proc_id: procId, ...sides },
  { ...fromAgent, description: 'Gives the terminal of a process another size. A host that has it also has pty.' },
);

const ProcResizeResp = object(
  { ...answer, type: Literal('proc/resize/resp'), proc: ProcStatus },
  { ...fromHost, description: 'The process.' },
);

/** Every message and shape, in the order in which the documentation shows them. */
export const procSchemas = {
  ProcSpawnReq,
  ProcSpawnResp,
  ProcWriteReq,
  ProcWriteResp,
  ProcReadEvent,
  ProcKillReq,
  ProcKillResp,
  ProcStatusReq,
  ProcStatusResp,
  ProcStatus,
  ProcReadReq,
  ProcReadResp,
  ProcAckReq,
  ProcAckResp,
  ProcTerminal,
  ProcResizeReq,
  ProcResizeResp,
};

export type ProcAckReq = Static<typeof ProcAckReq>;
export type ProcAckResp = Static<typeof ProcAckResp>;
export type ProcKillReq = Static<typeof ProcKillReq>;
export type ProcKillResp = Static<typeof ProcKillResp>;
export type ProcReadEvent = Static<typeof ProcReadEvent>;
export type ProcReadReq = Static<typeof ProcReadReq>;
export type ProcReadResp = Static<typeof ProcReadResp>;
export type ProcResizeReq = Static<typeof ProcResizeReq>;
export type ProcResizeResp = Static<typeof ProcResizeResp>;
export type ProcSpawnReq = Static<typeof ProcSpawnReq>;
export type ProcSpawnResp = Static<typeof ProcSpawnResp>;
export type ProcStatus = Static<typeof ProcStatus>;
export type ProcStatusReq = Static<typeof ProcStatusReq>;
export type ProcStatusResp = Static<typeof ProcStatusResp>;
export type ProcWriteReq = Static<typeof ProcWriteReq>;
export type ProcWriteResp = Static<typeof ProcWriteResp>;
