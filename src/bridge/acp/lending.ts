/**
 * Lends a session the files and terminals of the editor: waits for requests of the session's tools, sends them to the
 * editor, and returns its replies.
 *
 * Requests name files relative to the folder of the session. The server decides which of them may be read and written;
 * no path outside the folder is passed on, and no method that was not offered.
 */
import { resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { LOAN_METHODS, type LoanMethod, type LoanOffer, offerOf } from '../../acp/loan.ts';
import type { AgentContext, ClientCapabilities } from '../../acp/sdk.ts';
import { isInside } from '../../base/is-inside.ts';
import type { ControlClient } from '../../control-client/control.ts';
import { asError, fail } from '../../wire/errors.ts';

export interface EditorLoan {
  readonly sessionId: string;
  /** Absolute. */
  readonly cwd: string;
  readonly control: ControlClient;
  readonly client: AgentContext;
  readonly capabilities: ClientCapabilities;
  /** Shows a terminal in the call that runs in it. Resolves when the editor has the update, or has no such call. */
  readonly showTerminal: (command: readonly string[], terminalId: string) => Promise<void>;
  /** Receives why the editor is not used any more. */
  readonly note: (line: string) => void;
}

/** Between two attempts while the server cannot be reached, in milliseconds. */
const RETRY_MS = 1000;

/** Serves the requests of the session until the signal aborts, or another editor opens the session. Never rejects. */
export async function lendEditor(loan: EditorLoan, signal: AbortSignal): Promise<void> {
  const { sessionId: session_id, control, note } = loan;
  const offer = offerOf(loan.capabilities);
  if (!Object.values(offer).includes(true)) return;
  const terminals = new Set<string>();
  while (!signal.aborted) {
    try {
      // Waits as long as the tools need nothing.
      const next = await control.rpc.editorNext({ session_id, ...offer }, { signal, timeoutMs: 0 });
      void answer(loan, offer, next, terminals);
    } catch (thrown) {
      // No later request can release them.
      for (const terminalId of terminals) release(loan, terminalId);
      terminals.clear();
      const { code, message } = asError(thrown);
      if (signal.aborted || control.state === 'closed') return;
      if (code === 'connection_lost') {
        await pause(RETRY_MS, undefined, { signal }).catch(() => {});
        continue;
      }
      // A server without the method, or a session of another principal: its tools use the files of its host.
      if (code !== 'superseded') note(`session ${session_id}: its tools do not use the editor: ${message}`);
      return;
    }
  }
}

type Request = Awaited<ReturnType<ControlClient['rpc']['editorNext']>>;

async function answer(loan: EditorLoan, offer: LoanOffer, request: Request, terminals: Set<string>): Promise<void> {
  const { sessionId, control, client, note } = loan;
  const { request_id, method, params } = request;
  const reply = async (): Promise<{ result?: Readonly<Record<string, unknown>>; error?: string }> => {
    try {
      if (!Object.hasOwn(LOAN_METHODS, method) || !offer[LOAN_METHODS[method as LoanMethod]]) {
        throw fail('unknown_type', `no ${method}`);
      }
      const asked = { sessionId, ...params, ...placed(params, loan.cwd) };
      const result = (await client.request<Readonly<Record<string, unknown>> | null>(method, asked)) ?? {};
      if (method === 'terminal/create') {
        const { command, args } = params as { command: string; args?: readonly string[] };
        terminals.add(String(result.terminalId));
        await loan.showTerminal([command, ...(args ?? [])], String(result.terminalId));
      }
      if (method === 'terminal/release') terminals.delete(String(params.terminalId));
      return { result };
    } catch (error) {
      return { error: asError(error).message };
    }
  };
  try {
    const answered = await reply();
    const { accepted } = await control.rpc.editorReply({ session_id: sessionId, request_id, ...answered });
    const terminalId = answered.result?.terminalId;
    // The call ended before its terminal was there.
    if (!accepted && method === 'terminal/create' && terminalId !== undefined) release(loan, String(terminalId));
  } catch (error) {
    note(`session ${sessionId}: the answer of the editor did not arrive: ${asError(error).message}`);
  }
}

/** Ends the program in a terminal whose call is lost. */
function release({ client, sessionId }: EditorLoan, terminalId: string): void {
  for (const method of ['terminal/kill', 'terminal/release']) {
    client.request(method, { sessionId, terminalId }).catch(() => {});
  }
}

/** Returns the paths of a request in the editor's form. Fails with `tool_denied` for one outside the folder. */
function placed(params: Readonly<Record<string, unknown>>, cwd: string): Readonly<Record<string, string>> {
  const members = ['path', 'cwd'].filter((member) => typeof params[member] === 'string');
  return Object.fromEntries(
    members.map((member) => {
      const path = resolve(cwd, params[member] as string);
      if (!isInside(cwd, path)) {
        throw fail('tool_denied', `${path} is outside the folder of the session`);
      }
      return [member, path];
    }),
  );
}
