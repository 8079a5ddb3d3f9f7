/**
 * Settings on a separate data directory, called as `rpc/` calls them: parameters read by the method's own reader, events
 * collected in order.
 */
import type { TestContext } from 'node:test';
import type { Compaction } from '../../../src/control/contract/backend.ts';
import type { ServerEvents } from '../../../src/control/contract/events.ts';
import type { RpcCall } from '../../../src/control/contract/handlers.ts';
import {
  createSettings,
  type Settings,
  type SettingsHandlerDeps,
  type SettingsOptions,
} from '../../../src/control/providers/settings.ts';
import { readParams } from '../../../src/protocol/rpc-reader.ts';
import { fail } from '../../../src/wire/errors.ts';
import { temporaryFolder } from '../../host/temporary-folder.ts';

export interface Recorded {
  readonly type: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into payloads of every type.
  readonly payload: any;
}

export interface CallOptions {
  readonly signal?: AbortSignal;
  readonly principal?: string;
  readonly admin?: boolean;
}

export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

export interface OpenSettings {
  readonly settings: Settings;
  readonly home: string;
  readonly events: readonly Recorded[];
  readonly logs: readonly LogLine[];
  /** Returns types of the events so far. */
  types(): string[];
  /** Returns the next event of a type that was not handed out yet; waits for it. */
  event(type: string): Promise<Recorded>;
  // biome-ignore lint/suspicious/noExplicitAny: results of every method.
  call(method: string, params?: unknown, options?: CallOptions): Promise<any>;
}

/** Session that `checkSession` knows. */
export const KNOWN_SESSION = 'session-1';

const NOTHING_TO_COMPRESS: Compaction = {
  compressed: false,
  reason: 'auto',
  estimated_tokens_before: 0,
  estimated_tokens_after: 0,
  model_context_window: 32_000,
  target_limit: 26_240,
  anchor_event_index_before: 0,
  anchor_event_index_after: 0,
};

/** Opens settings; stopped when the test ends, unless it has done so. No keyring unless one is given. */
export async function openSettings(
  t: TestContext,
  options: Partial<SettingsOptions & Pick<SettingsHandlerDeps, 'compress'>> = {},
): Promise<OpenSettings> {
  const { compress = async () => NOTHING_TO_COMPRESS, ...rest } = options;
  const home = options.home ?? temporaryFolder(t);
  const events: Recorded[] = [];
  const logs: LogLine[] = [];
  const handedOut = new Set<Recorded>();
  let told = Promise.withResolvers<void>();
  const logged =
    (level: string) =>
    (message: string, fields: Record<string, unknown> = {}): void =>
      void logs.push({ level, message, fields });
  const serverEvents: ServerEvents = {
    emit(type, payload) {
      events.push({ type, payload });
      told.resolve();
      told = Promise.withResolvers();
    },
  };
  const settings = await createSettings({
    env: {},
    keyring: null,
    platform: 'linux',
    serverEvents,
    log: { debug: logged('debug'), info: logged('info'), warn: logged('warn'), error: logged('error') },
    ...rest,
    home,
  });
  t.after(() => settings.stop());
  const others = { sessions: { count: 0, ids: [] }, skills: { count: 0, directories: [] } };
  const handled = settings.handlers({
    checkSession(id) {
      if (id !== KNOWN_SESSION) throw fail('session_not_found', `unknown session: ${id}`, { session_id: id });
    },
    compress,
    configure() {},
    backends: [{ name: 'model', label: 'A model' }],
    backendOf: () => ({ name: 'model', settings: {} }),
    stateChanged: (reason) =>
      serverEvents.emit('state.changed', { reason, snapshot: { ...settings.snapshotParts(), ...others } }),
  });
  const handlers = new Map(handled.map((one) => [one.method.name, one]));

  return {
    settings,
    home,
    events,
    logs,
    types: () => events.map(({ type }) => type),
    async event(type) {
      for (;;) {
        const found = events.find((event) => event.type === type && !handedOut.has(event));
        if (found !== undefined) {
          handedOut.add(found);
          return found;
        }
        await told.promise;
      }
    },
    async call(method, params, { signal = new AbortController().signal, principal = 'local', admin } = {}) {
      const handled = handlers.get(method);
      if (handled === undefined) throw new Error(`no handler for ${method}`);
      const after: (() => void)[] = [];
      const call: RpcCall = {
        caller: {
          connectionId: 'connection-1',
          principal: { name: principal, settings: true, admin },
          clientName: null,
          clientVersion: null,
          transport: 'test',
        },
        signal,
        yieldSlot: () => () => {},
        afterAnswer: (work) => void after.push(work),
        replay: async () => 0,
      };
      const result = await handled.handle(readParams(handled.method, params), call);
      for (const work of after) work();
      return result;
    },
  };
}
