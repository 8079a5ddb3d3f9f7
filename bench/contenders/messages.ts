/**
 * The A2E messages of a tool call, as the yardsticks write them: the same fields and about the same size as the ones
 * Handfast sends, so that `bare` and `limit` compare machinery and not bytes.
 *
 * @see docs/protocol/a2e.md#tools
 */

export const SESSION = '5f0c0a3e9d5b4c7e8a1f2b3c4d5e6f70';

export interface CallRequest {
  readonly type: 'tool/call/req';
  readonly id: string;
  readonly tool_name: string;
  readonly arguments: { readonly text?: string; readonly n?: number; readonly count?: number };
}

/** Message that a yardstick's client reads: a reply or an event, by `type`. */
export interface Incoming {
  readonly type: string;
  readonly req_id: string;
  readonly data: { readonly data?: { readonly text?: string }; readonly message?: string };
}

const seconds = (): number => Date.now() / 1000;

export function handshakeRequest(id: string): object {
  return {
    type: 'handshake/req',
    id,
    a2e: '1.0',
    version: '1.0',
    ts: seconds(),
    agent_id: 'bench',
    agent_caps: ['tools'],
    auth_token: '',
  };
}

export function handshakeReply(id: string, requestId: string): object {
  return {
    type: 'handshake/resp',
    id,
    a2e: '1.0',
    version: '1.0',
    ts: seconds(),
    req_id: requestId,
    session_id: SESSION,
    accepted_caps: [
      {
        capability: 'tools',
        enabled: true,
        metadata: { name: 'tools', type: 'tools', priority: 0, exclusive: false },
      },
    ],
    max_parallel: 64,
    ok: true,
    reason: '',
  };
}

export function callRequest(id: string, tool: string, args: object, streaming: boolean): object {
  return {
    type: 'tool/call/req',
    id,
    a2e: '1.0',
    version: '1.0',
    ts: seconds(),
    session_id: SESSION,
    tool_name: tool,
    arguments: args,
    correlation_id: '',
    streaming,
    timeout: 30,
  };
}

export function callReply(id: string, requestId: string, tool: string, data: object): object {
  return {
    type: 'tool/call/resp',
    id,
    a2e: '1.0',
    version: '1.0',
    ts: seconds(),
    req_id: requestId,
    data: {
      success: true,
      tool_name: tool,
      data,
      summary: null,
      truncated: false,
      exit_code: null,
      error: null,
      error_code: null,
      duration_ms: 0,
      events: [],
    },
    created_at: seconds(),
  };
}

export function toolEvent(id: string, requestId: string, seq: number, message: string): object {
  return {
    type: 'tool/event',
    id,
    a2e: '1.0',
    version: '1.0',
    ts: seconds(),
    req_id: requestId,
    kind: 'log',
    data: { level: 'info', message },
    seq,
  };
}

/** Ids as Handfast makes them: a prefix for the session and a counter. */
export function idSource(): () => string {
  let count = 0;
  return () => `k7w2m-${count++}`;
}
