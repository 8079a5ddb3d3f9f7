import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type CallMethod, type CommandDeps, commandHandler } from '../../src/control/commands.ts';
import { type Handled, handles, type RpcCall } from '../../src/control/contract/handlers.ts';
import { readParams } from '../../src/protocol/rpc-reader.ts';
import {
  authStatus,
  historyList,
  limitsGet,
  modelList,
  onboardingStatus,
  skillsList,
  toolsList,
} from '../../src/protocol/session-rpc.ts';
import type { Principal } from '../../src/session/principal.ts';
import { fail } from '../../src/wire/errors.ts';

const admin: Principal = { name: 'local', admin: true };

const callBy = (principal: Principal): RpcCall => ({
  caller: { connectionId: 'c', principal, clientName: null, clientVersion: null, transport: 'memory' },
  signal: new AbortController().signal,
  yieldSlot: () => () => {},
  afterAnswer: () => {},
  replay: async () => 0,
});

const modelListed = {
  providers: [],
  models: [],
  selected_model: 'm',
  selected_thinking: 'HIGH',
  selected_provider: null,
  selected_openrouter_provider: 'any',
} as const;

const status = {
  enabled_providers: [],
  has_openai_token: false,
  has_openrouter_key: false,
  has_antigravity_token: false,
  antigravity_profile: null,
};

const compaction = {
  compressed: true,
  reason: 'manual',
  estimated_tokens_before: 9,
  estimated_tokens_after: 3,
  model_context_window: 100,
  target_limit: 82,
  anchor_event_index_before: 0,
  anchor_event_index_after: 4,
} as const;

/** Commands over other parts that only note their calls. */
/** Calls methods out of a list of handlers; parameters are read as if they had come over the wire. */
function methodCaller(handlers: Iterable<Handled>): CallMethod {
  const known = new Map([...handlers].map((handled) => [handled.method.name, handled]));
  return async (method, params, call) => {
    const handled = known.get(method);
    if (handled === undefined) throw fail('unknown_type', `method not found: ${method}`, { method });
    return handled.handle(readParams(handled.method, params), call);
  };
}

function setUp(changes: Partial<CommandDeps> = {}) {
  const deeds: string[] = [];
  const others: Handled[] = [
    handles(authStatus, () => status),
    handles(onboardingStatus, () => ({ completed: true })),
    handles(modelList, () => modelListed),
    handles(limitsGet, () => {
      throw fail('not_configured', 'limits requires at least one oauth provider');
    }),
    handles(historyList, ({ limit }) => ({
      total: 0,
      cursor: 0,
      limit: limit ?? 0,
      sessions: [],
      next_cursor: null,
      next_page_cursor: null,
    })),
    handles(skillsList, () => ({ directories: [], errors: [], skills: [] })),
    handles(toolsList, () => ({ tools: [] })),
  ];
  const note = (deed: string) => {
    deeds.push(deed);
  };
  const parts: CommandDeps = {
    callMethod: methodCaller(others),
    checkSession(id) {
      if (id !== 's') throw fail('session_not_found', `unknown session: ${id}`);
    },
    clear: (id) => note(`clear ${id}`),
    async compress(id) {
      note(`compress ${id}`);
      return compaction;
    },
    async resumeChat(id, which) {
      note(`resume ${id} ${which ?? '(newest)'}`);
      if (which === 'abc') throw fail('not_found', 'no saved chat matched id: abc');
      return 'chat-1';
    },
    async forgetEverything() {
      note('forget');
    },
    settled: () => undefined,
    notice: (id, text) => note(`notice ${id}: ${text}`),
    stateChanged: (reason) => note(`state.changed ${reason}`),
    shutdown: (reason) => note(`shutdown ${reason}`),
    ...changes,
  };
  const handler = commandHandler(parts);
  const execute = async (raw_command: string, { session_id = 's', principal = admin } = {}) =>
    (await handler.handle(readParams(handler.method, { session_id, raw_command }), callBy(principal))) as {
      handled: boolean;
      output?: Record<string, unknown>;
    };
  return { deeds, execute };
}

test('text that is no command is not handled', async () => {
  const { execute } = setUp();
  assert.deepEqual(await execute('hello /help'), { handled: false });
});

test('an unknown session is reported before the command is read', async () => {
  const { execute, deeds } = setUp();
  for (const command of ['/quit', '/nope', 'hello']) {
    await assert.rejects(execute(command, { session_id: 'x' }), {
      code: 'session_not_found',
      message: 'unknown session: x',
    });
  }
  assert.deepEqual(deeds, []);
});

test('an unknown command is an answer, named in lower case', async () => {
  const { execute } = setUp();
  assert.deepEqual(await execute('/Nope now'), { handled: true, output: { error: 'unknown command: /nope' } });
  assert.deepEqual(await execute('/'), { handled: true, output: { error: 'unknown command: /' } });
  assert.deepEqual(await execute('/constructor'), {
    handled: true,
    output: { error: 'unknown command: /constructor' },
  });
});

test('/help names every command with a description, in any case and with anything behind it', async () => {
  const { execute } = setUp();
  const { output } = await execute('  /HELP extra ');
  const listed = output?.commands as { name: string; description: string }[];
  assert.deepEqual(
    listed.map(({ name }) => name).join(' '),
    '/auth /onboarding /forgeteverything /model /limits /history /compress /skills /tools /clear /quit /help /exit',
  );
  assert.ok(listed.every(({ description }) => description.length > 5));
});

test('commands that say what a method says', async () => {
  const { execute } = setUp();
  const outputOf = async (command: string) => (await execute(command)).output;
  const { auth_status, hint } = (await outputOf('/auth')) as { auth_status: unknown; hint: string };
  assert.deepEqual(auth_status, status);
  assert.ok(hint.length > 0);
  assert.deepEqual(await outputOf('/onboarding'), { completed: true });
  assert.deepEqual(await outputOf('/model'), {
    selected_model: 'm',
    selected_provider: null,
    selected_thinking: 'HIGH',
    selected_openrouter_provider: 'any',
    available: modelListed,
  });
  assert.deepEqual(await outputOf('/skills'), { directories: [], errors: [], skills: [] });
  assert.deepEqual(await outputOf('/tools'), { tools: [] });
  for (const command of ['/history', '/history list', '/history ALL']) {
    assert.equal((await outputOf(command))?.limit, 100);
  }
  await assert.rejects(execute('/limits'), { message: 'limits requires at least one oauth provider' });
});

test('/history with last or an id continues that chat', async () => {
  const { execute, deeds } = setUp();
  assert.deepEqual((await execute('/history last')).output, { resumed: 'chat-1' });
  assert.deepEqual((await execute('/history AbC1')).output, { resumed: 'chat-1' });
  await assert.rejects(execute('/history abc'), { code: 'not_found', message: 'no saved chat matched id: abc' });
  assert.deepEqual(deeds, ['resume s (newest)', 'resume s AbC1', 'resume s abc']);
});

test('/clear and /compress act on the calling session', async () => {
  const { execute, deeds } = setUp();
  assert.deepEqual((await execute('/clear')).output, { cleared: true });
  assert.deepEqual((await execute('/compress')).output, compaction);
  assert.deepEqual(deeds, ['clear s', 'compress s']);
});

test('/forgeteverything forgets, empties the calling session, says so and tells everybody, in this order', async () => {
  const { execute, deeds } = setUp();
  assert.deepEqual((await execute('/forgeteverything')).output, { cleared: true });
  assert.deepEqual(deeds, [
    'forget',
    'clear s',
    'notice s: all local config was cleared. onboarding restarted.',
    'state.changed forgeteverything',
  ]);
});

test('weakness 26: /forgeteverything is refused without the rights of an administrator, and nothing is deleted', async () => {
  const { execute, deeds } = setUp();
  for (const principal of [{ name: 'guest' }, { name: 'guest', admin: false }]) {
    await assert.rejects(execute('/forgeteverything', { principal }), { code: 'unauthorized' });
  }
  assert.deepEqual(deeds, []);
});

test('weakness 23: /quit and /exit really end the server', async () => {
  const { execute, deeds } = setUp();
  assert.deepEqual((await execute('/quit')).output, { shutting_down: true });
  assert.deepEqual((await execute('/exit now')).output, { shutting_down: true });
  assert.deepEqual(deeds, ['shutdown quit_command', 'shutdown quit_command']);
});

test('a method that is not there is an error of its own', async () => {
  const { execute } = setUp({ callMethod: methodCaller([]) });
  await assert.rejects(execute('/tools'), { code: 'unknown_type', message: 'method not found: tools.list' });
});
