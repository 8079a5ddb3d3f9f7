/**
 * The adapter file of the A2A SDK: the only file that names it. It is an optional peer, loaded when the first A2A agent is
 * served or called; importing its types costs nothing.
 */
import { fail } from '../../../wire/errors.ts';

export type {
  AgentCard,
  Artifact,
  Message,
  Part,
  SendMessageRequest,
  StreamResponse,
  Task,
  TaskState,
} from '@a2a-js/sdk';
export type { Client, RequestOptions } from '@a2a-js/sdk/client';
export type {
  A2ARequestHandler,
  AgentExecutionEvent,
  AgentExecutor,
  ExecutionEventBus,
  RequestContext,
  ServerCallContext,
  TaskStore,
} from '@a2a-js/sdk/server';

/** The parts of the SDK that serve an agent. */
export interface A2aServerSdk {
  readonly core: typeof import('@a2a-js/sdk');
  readonly server: typeof import('@a2a-js/sdk/server');
  readonly errors: typeof import('@a2a-js/sdk/errors');
}

/** The parts of the SDK that call an agent. */
export interface A2aClientSdk {
  readonly core: typeof import('@a2a-js/sdk');
  readonly client: typeof import('@a2a-js/sdk/client');
}

/** Loads the serving side. Fails with `not_configured`, whose message names the package to install. */
export async function loadA2aServer(): Promise<A2aServerSdk> {
  const [core, server, errors] = await Promise.all([
    import('@a2a-js/sdk'),
    import('@a2a-js/sdk/server'),
    import('@a2a-js/sdk/errors'),
  ]).catch(missing);
  return { core, server, errors };
}

/** Loads the calling side. Fails with `not_configured`, whose message names the package to install. */
export async function loadA2aClient(): Promise<A2aClientSdk> {
  const [core, client] = await Promise.all([import('@a2a-js/sdk'), import('@a2a-js/sdk/client')]).catch(missing);
  return { core, client };
}

function missing(error: unknown): never {
  const absent = (error as { code?: unknown }).code === 'ERR_MODULE_NOT_FOUND';
  const why = absent ? 'it is not installed: npm install @a2a-js/sdk' : (error as Error).message;
  throw fail('not_configured', `A2A needs the package @a2a-js/sdk; ${why}`, undefined, error);
}
