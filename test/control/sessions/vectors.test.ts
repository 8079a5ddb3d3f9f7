/** The conversations about sessions, turns and saved chats, played against sessions with a scripted model. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { commandHandler } from '../../../src/control/commands.ts';
import { handles } from '../../../src/control/handlers.ts';
import { createRpcServer } from '../../../src/control/rpc/rpc-server.ts';
import { LOCAL_PRINCIPAL } from '../../../src/host/auth.ts';
import { stateGet } from '../../../src/protocol/session-rpc.ts';
import type { Snapshot } from '../../../src/protocol/session-types.ts';
import type { Message } from '../../../src/transport/link.ts';
import { memoryPair } from '../../../src/transport/memory.ts';
import { scriptedBackend } from '../support/scripted-backend.ts';
import { play, type VectorConnection, vectorsOf } from '../vectors.ts';
import { Harness, QUIET } from './harness.ts';

/** A server of sessions, chats and the one command that reaches into them, over a link in memory. */
async function serve(isConfigured: boolean): Promise<{ connection: VectorConnection; harness: Harness }> {
  const cwd = mkdtempSync(join(tmpdir(), 'handfast-vectors-'));
  const backend = scriptedBackend({ isConfigured: () => isConfigured });
  const ids = (): readonly string[] => harness.sessions.liveIds();
  const snapshot = (): Snapshot => ({
    auth: {
      enabledProviders: [],
      hasOpenAiToken: false,
      hasOpenRouterKey: false,
      hasAntigravityToken: false,
      antigravityProfile: null,
    },
    onboarding: { completed: false },
    model: { selectedModel: '', selectedThinking: 'HIGH', selectedOpenRouterProvider: 'any', selectedProvider: null },
    sessions: { count: ids().length, ids: ids() },
    skills: { count: 0, directories: [] },
  });
  const harness: Harness = await Harness.start({ backend, snapshot, defaultCwd: cwd });
  const { sessions } = harness;
  const unused = () => assert.fail('no vector comes here');
  const commands = commandHandler({
    callMethod: unused,
    checkSession: (id, { caller }) => void sessions.openFor(caller.principal, id),
    clear: (id) => sessions.clear(id),
    compress: (id) => sessions.compress(id),
    resumeChat: async (id, which, { caller }) => {
      const { id: chat } = await sessions.resumeChat(id, which, caller.principal);
      sessions.serverEvents.emit('state.changed', { reason: 'session_resumed', snapshot: snapshot() });
      return chat;
    },
    forgetEverything: unused,
    notice: unused,
    stateChanged: unused,
    shutdown: unused,
  });
  const server = createRpcServer({
    handlers: [...sessions.handlers(), commands, handles(stateGet, snapshot)],
    events: sessions.events,
    serverEvents: sessions.serverEvents,
    snapshot,
    shutdown: () => sessions.stop(),
    log: QUIET,
  });
  const [near, far] = memoryPair();
  const connection: VectorConnection = {
    write: (text) => near.send(JSON.parse(text) as Message),
    listen(onLine) {
      near.open({
        message: (message) => onLine(JSON.stringify(message)),
        malformed: () => {},
        ended: () => void near.close(),
        closed: () => {},
      });
    },
    async close() {
      await server.stop('test');
      await harness.stop();
      rmSync(cwd, { recursive: true, force: true });
    },
  };
  void server.serve(far, LOCAL_PRINCIPAL);
  return { connection, harness };
}

describe('vectors', { concurrency: 2 }, () => {
  for (const [conversation, isConfigured] of [
    ['03-session-idle', false],
    ['04-turns', true],
    ['05-queue-steer-interrupt', true],
    ['07-history', false],
    ['08-history-saved', true],
  ] as const) {
    test(`${conversation} holds, word for word`, async () => {
      const { connection, harness } = await serve(isConfigured);
      const outcomes = await play(vectorsOf(conversation), connection, {
        level: 'verbatim',
        fixtures: { 'scripted-model': (rounds) => harness.backend.rescript(...rounds) },
      });
      assert.deepEqual(
        outcomes.filter(({ outcome }) => outcome !== 'passed'),
        [],
      );
      assert.ok(outcomes.length > 10);
    });
  }
});
