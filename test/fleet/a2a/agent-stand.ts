/**
 * A worker of the test as an A2A agent on a separate port, and the official client to it.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { type Message, type Part, Role, type SendMessageRequest, type Task } from '@a2a-js/sdk';
import {
  type Client,
  ClientFactory,
  createAuthenticatingFetchWithRetry,
  DefaultAgentCardResolver,
  JsonRpcTransportFactory,
  type RequestOptions,
  ServiceParameters,
  withA2AExtensions,
} from '@a2a-js/sdk/client';
import { type A2aAgentOptions, type ServedA2a, serveA2a } from '../../../src/fleet/bus/a2a/worker-server.ts';
import type { WorkerPort } from '../../../src/fleet/bus/reply-channel.ts';
import { FLEET_EXTENSION, type FleetMessage } from '../../../src/protocol/fleet.ts';
import { createAuthenticator, tokenDigest } from '../../../src/session/auth.ts';
import { quiet } from '../support/stream-links.ts';

export const TOKEN = 'token-of-the-boss';

export async function folder(test: TestContext): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'handfast-a2a-'));
  test.after(() => rm(path, { recursive: true, force: true }));
  return path;
}

/** Serves a worker; closed after the test. */
export async function served(
  test: TestContext,
  worker: WorkerPort,
  options: Partial<A2aAgentOptions> & { readonly port?: number } = {},
): Promise<ServedA2a> {
  const agent = await serveA2a(worker, {
    port: 0,
    file: options.file ?? join(await folder(test), 'a2a.db'),
    auth: createAuthenticator([
      { principal: { name: 'boss', fleet: { submit: true } }, digests: [tokenDigest(TOKEN)] },
      { principal: { name: 'other', fleet: { submit: true } }, digests: [tokenDigest('token-of-another')] },
    ]),
    log: quiet,
    ...options,
  });
  test.after(() => agent.close());
  return agent;
}

/** Connects the official client, unchanged. */
export async function clientOf(address: string, token = TOKEN): Promise<Client> {
  const fetchImpl = createAuthenticatingFetchWithRetry(fetch, {
    headers: async () => ({ Authorization: `Bearer ${token}` }),
    shouldRetryWithHeaders: async () => undefined,
  });
  const factory = new ClientFactory({
    transports: [new JsonRpcTransportFactory({ fetchImpl })],
    cardResolver: new DefaultAgentCardResolver(),
  });
  return factory.createFromUrl(address);
}

/** Names our extension. */
export const FLEET: RequestOptions = {
  serviceParameters: ServiceParameters.create(withA2AExtensions(FLEET_EXTENSION)),
};

export const text = (value: string): Part => ({
  content: { $case: 'text', value },
  metadata: undefined,
  filename: '',
  mediaType: 'text/plain',
});

export const data = (value: object): Part => ({
  content: { $case: 'data', value },
  metadata: undefined,
  filename: '',
  mediaType: 'application/json',
});

export interface Asking {
  readonly parts: Part[];
  readonly messageId?: string;
  readonly contextId?: string;
  readonly taskId?: string;
  readonly returnImmediately?: boolean;
}

let asked = 0;

export function request(asking: Asking): SendMessageRequest {
  const { parts, messageId = `m-${asked++}`, contextId = '', taskId = '', returnImmediately = false } = asking;
  return {
    tenant: '',
    message: {
      messageId,
      contextId,
      taskId,
      role: Role.ROLE_USER,
      parts,
      metadata: undefined,
      extensions: [],
      referenceTaskIds: [],
    },
    configuration: { acceptedOutputModes: [], taskPushNotificationConfig: undefined, returnImmediately },
    metadata: undefined,
  };
}

/** A message that holds a message of the fleet protocol. */
export const saying = (message: FleetMessage, more: Partial<Asking> = {}): SendMessageRequest =>
  request({ parts: [text('see the data'), data(message)], ...more });

export function asTask(answer: Message | Task): Task {
  if (!('status' in answer)) throw new Error(`expected a task, got a message: ${JSON.stringify(answer.parts)}`);
  return answer;
}

/** Returns the objects in data parts. */
export const dataIn = (parts: readonly Part[] | undefined): Record<string, unknown>[] =>
  (parts ?? []).flatMap(({ content }) => (content?.$case === 'data' ? [content.value as Record<string, unknown>] : []));

export const wordsIn = (parts: readonly Part[] | undefined): string =>
  (parts ?? []).flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : [])).join('\n');
