/**
 * The agent card of the upstream dialect. Public, so it says that this protocol is spoken, and nothing of what the worker
 * is: that is in the announce.
 *
 * Used by `worker-server.ts` and `replies.ts`, and read by `peer.ts`.
 * @see docs/protocol/fleet.md#http
 */
import { type Feature, FLEET_EXTENSION, FLEET_VERSION } from '../../../protocol/fleet.ts';
import { readStrictJson } from '../../messages/strict-json.ts';
import { knownFeatures } from '../features.ts';
import { RPC_PATH } from './messages.ts';

export interface CardFacts {
  readonly name: string;
  readonly url: string;
  readonly version: string | undefined;
  readonly features: readonly Feature[];
  /** A bearer token is asked for. */
  readonly token: boolean;
}

export function cardOf({ name, url, version = '0.0.0', features, token }: CardFacts): object {
  const modes = ['text/plain', 'application/json'];
  return {
    protocolVersion: '0.3.0',
    name,
    description: 'Takes tasks as text, with hints in the text, or as messages of the fleet handshake.',
    url: `${url.replace(/\/+$/, '')}${RPC_PATH}`,
    preferredTransport: 'JSONRPC',
    version,
    capabilities: {
      streaming: false,
      pushNotifications: false,
      extensions: [
        {
          uri: FLEET_EXTENSION,
          description: 'Fleet handshake: announce, dispatch, result',
          required: false,
          params: { protocol_versions: [FLEET_VERSION], features },
        },
      ],
    },
    defaultInputModes: modes,
    defaultOutputModes: modes,
    skills: [{ id: 'task', name: 'Task', description: 'Does a task in its repository.', tags: ['task'] }],
    ...(token && {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      security: [{ bearer: [] }],
    }),
  };
}

/** What a card says about this protocol; undefined: the body is no card. */
export function readCard(
  body: Uint8Array,
): { readonly fleet: boolean; readonly features: ReadonlySet<Feature> } | undefined {
  const json = readStrictJson(body);
  if (!json.ok) return undefined;
  const { capabilities } = json.value as { capabilities?: { extensions?: unknown } | null };
  const listed = capabilities?.extensions;
  const ours = (Array.isArray(listed) ? listed : []).find((one) => one?.uri === FLEET_EXTENSION);
  const features = ours?.params?.features;
  return {
    fleet: ours !== undefined,
    features: knownFeatures(Array.isArray(features) ? features.filter((one) => typeof one === 'string') : []),
  };
}
