/**
 * Slash commands: `command.execute`. Most return the result of another method; the others act on the session through
 * functions that `control-server.ts` passes in.
 *
 * @see docs/protocol/session-rpc.md#commands
 */
import {
  type AuthStatus,
  authStatus,
  commandExecute,
  historyList,
  limitsGet,
  type ModelListResult,
  modelList,
  onboardingStatus,
  skillsList,
  toolsList,
} from '../protocol/session-rpc.ts';
import { must } from '../session/rights.ts';
import type { Compaction } from './contract/backend.ts';
import { type Handled, handles, type RpcCall } from './contract/handlers.ts';

/** Calls another method of the server as this caller. Fails as that method does, or with `unknown_type`. */
export type CallMethod = (method: string, params: Readonly<Record<string, unknown>>, call: RpcCall) => Promise<unknown>;

/** Functions that the commands call besides other methods. */
export interface CommandDeps {
  readonly callMethod: CallMethod;
  /** Fails with `session_not_found` unless the caller may use this session. Runs before the command is parsed. */
  checkSession(sessionId: string, call: RpcCall): void | Promise<void>;
  /** Empties messages and history of a session and detaches its saved chat; queue and steers stay. No event. */
  clear(sessionId: string, call: RpcCall): void | Promise<void>;
  /**
   * Ends a running turn and waits for it, then compresses: `compressing context...`, `compaction.*`, a system line,
   * `ready`. Fails with `not_configured` where the session has no model.
   */
  compress(sessionId: string, call: RpcCall): Promise<Compaction>;
  /**
   * Loads a saved chat into the session, chooses its model, emits `state.changed` with `session_resumed`, and answers the
   * chat's id. Fails with `not_found`: `no saved chat history yet`, or `no saved chat matched id: x`.
   * @param which an id or the beginning of one; undefined = the newest
   */
  resumeChat(sessionId: string, which: string | undefined, call: RpcCall): Promise<string>;
  /** Deletes settings, stored credentials and the model cache, and resets model and onboarding. No event. */
  forgetEverything(call: RpcCall): Promise<void>;
  /** Resolves when the changes of a session are stored and its events are sent. */
  settled(sessionId: string): Promise<unknown> | undefined;
  /** Appends a system line to a session's messages. */
  notice(sessionId: string, text: string): void;
  /** Emits `state.changed`. */
  stateChanged(reason: string): void;
  /**
   * Ends the server as `system.shutdown` does: turns, `state.changed` with this reason, then the process. Resolves before
   * the server waits for open requests: this one is among them.
   */
  shutdown(reason: string, call: RpcCall): void | Promise<void>;
}

/** One command. `words` follow its name. */
interface Command {
  readonly name: string;
  readonly description: string;
  run(parts: CommandDeps, sessionId: string, words: readonly string[], call: RpcCall): unknown;
}

/** Saved chats `/history` lists. */
const LISTED_CHATS = 100;

/** In the order of `/help`. */
const commands: readonly Command[] = [
  {
    name: '/auth',
    description: 'show which providers are signed in',
    async run({ callMethod }, _sessionId, _words, call) {
      const status = (await callMethod(authStatus.name, {}, call)) as AuthStatus;
      return { auth_status: status, hint: 'sign in with auth.connect.*, or store a key with auth.set.*' };
    },
  },
  {
    name: '/onboarding',
    description: 'show whether the set-up is done',
    run: ({ callMethod }, _sessionId, _words, call) => callMethod(onboardingStatus.name, {}, call),
  },
  {
    name: '/forgeteverything',
    description: 'delete all settings and credentials of this server',
    run: forgetEverything,
  },
  {
    name: '/model',
    description: 'show the chosen model and those that can be chosen',
    async run({ callMethod }, _sessionId, _words, call) {
      const available = (await callMethod(modelList.name, {}, call)) as ModelListResult;
      const { selected_model, selected_provider, selected_thinking, selected_openrouter_provider } = available;
      return { selected_model, selected_provider, selected_thinking, selected_openrouter_provider, available };
    },
  },
  {
    name: '/limits',
    description: "show what is left of the providers' limits",
    run: ({ callMethod }, _sessionId, _words, call) => callMethod(limitsGet.name, {}, call),
  },
  {
    name: '/history',
    description: 'list saved chats; with "last" or an id, continue one',
    async run({ callMethod, resumeChat }, sessionId, [which = 'list'], call) {
      const word = which.toLowerCase();
      if (word === 'list' || word === 'all') return callMethod(historyList.name, { limit: LISTED_CHATS }, call);
      return { resumed: await resumeChat(sessionId, word === 'last' ? undefined : which, call) };
    },
  },
  {
    name: '/compress',
    description: 'compress the conversation to free space in the context',
    run: ({ compress }, sessionId, _words, call) => compress(sessionId, call),
  },
  {
    name: '/skills',
    description: 'list the skills on disk',
    run: ({ callMethod }, _sessionId, _words, call) => callMethod(skillsList.name, {}, call),
  },
  {
    name: '/tools',
    description: 'list the tools a model is given',
    run: ({ callMethod }, _sessionId, _words, call) => callMethod(toolsList.name, {}, call),
  },
  {
    name: '/clear',
    description: 'empty this session; its saved chat stays',
    async run({ clear }, sessionId, _words, call) {
      await clear(sessionId, call);
      return { cleared: true };
    },
  },
  { name: '/quit', description: 'end the server', run: quit },
  {
    name: '/help',
    description: 'list the commands',
    run: () => ({ commands: commands.map(({ name, description }) => ({ name, description })) }),
  },
  { name: '/exit', description: 'end the server', run: quit },
];

const byName: ReadonlyMap<string, Command> = new Map(commands.map((command) => [command.name, command]));

/** Returns the handler of `command.execute`. */
export function commandHandler(parts: CommandDeps): Handled {
  return handles(commandExecute, async ({ session_id, raw_command }, call) => {
    await parts.checkSession(session_id, call);
    if (!raw_command.startsWith('/')) return { handled: false };
    const [first = '', ...words] = raw_command.split(/\s+/);
    const name = first.toLowerCase();
    const command = byName.get(name);
    if (command === undefined) return { handled: true, output: { error: `unknown command: ${name}` } };
    return { handled: true, output: await command.run(parts, session_id, words, call) };
  });
}

/** Forgets everything. Credentials of other people go with it, so being connected is not enough. */
async function forgetEverything(
  parts: CommandDeps,
  sessionId: string,
  _words: readonly string[],
  call: RpcCall,
): Promise<unknown> {
  must(call.caller.principal, 'administer');
  await parts.forgetEverything(call);
  await parts.clear(sessionId, call);
  parts.notice(sessionId, 'all local config was cleared. onboarding restarted.');
  // Clients get the change of the server behind the message, which waits until it is stored.
  await parts.settled(sessionId);
  parts.stateChanged('forgeteverything');
  return { cleared: true };
}

async function quit(
  { shutdown }: CommandDeps,
  _sessionId: string,
  _words: readonly string[],
  call: RpcCall,
): Promise<unknown> {
  must(call.caller.principal, 'administer');
  await shutdown('quit_command', call);
  return { shutting_down: true };
}
