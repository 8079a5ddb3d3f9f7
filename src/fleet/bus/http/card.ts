/**
 * The agent card of the upstream dialect. Public, so it names this protocol and tells nothing about the worker: the announce
 * does.
 *
 * @see docs/protocol/fleet.md#http
 */
import { trimmedEnd } from '../../../base/trim-end.ts';
import type { Feature } from '../../../protocol/fleet.ts';
import { readStrictJson } from '../../../wire/strict-json.ts';
import { type FleetReading, fleetExtension, MODES, readFleetExtension, TASK_SKILL } from '../plain/card.ts';
import { RPC_PATH } from './messages.ts';

/** Features of the fleet protocol that HTTP carries to a receiver that declares the fleet extension. */
export const CARRIED: readonly Feature[] = ['cancel', 'poll', 'announce', 'steer'];

export interface CardFacts {
  readonly name: string;
  readonly url: string;
  readonly version: string | undefined;
  readonly features: readonly Feature[];
  /** A bearer token is required. */
  readonly token: boolean;
}

export function cardOf({ name, url, version = '0.0.0', features, token }: CardFacts): object {
  return {
    protocolVersion: '0.3.0',
    name,
    description: 'Takes tasks as text, with hints in the text, or as messages of the fleet handshake.',
    url: `${trimmedEnd(url, '/')}${RPC_PATH}`,
    preferredTransport: 'JSONRPC',
    version,
    capabilities: {
      streaming: false,
      pushNotifications: false,
      extensions: [fleetExtension('Fleet handshake: announce, dispatch, result', features)],
    },
    defaultInputModes: MODES,
    defaultOutputModes: MODES,
    skills: [TASK_SKILL],
    ...(token && {
      securitySchemes: { bearer: { type: 'http', scheme: 'bearer' } },
      security: [{ bearer: [] }],
    }),
  };
}

/** Reads a card; undefined: the body is not one. */
export function readCard(body: Uint8Array): FleetReading | undefined {
  const json = readStrictJson(body);
  return json.ok ? readFleetExtension(json.value.capabilities, new Set(CARRIED)) : undefined;
}
