/**
 * The agent card of a worker, and the reading of the card of any agent. The public card names the fleet protocol and tells
 * nothing about the worker; the extended one, for clients with a token, holds its announce.
 *
 * @see docs/a2a.md#card
 */
import { type Feature, FLEET_EXTENSION, type SessionAnnounce } from '../../../protocol/fleet.ts';
import { type FleetReading, fleetExtension, MODES, readFleetExtension, TASK_SKILL } from '../plain/card.ts';
import type { WorkerPort } from '../reply-channel.ts';
import type { AgentCard } from './sdk.ts';

/** Version of A2A that is spoken. */
export const A2A_VERSION = '1.0';
export const JSON_RPC = 'JSONRPC';

/** Features of the fleet protocol that A2A carries. The last two need a worker that supports them. */
const CARRIED: readonly Feature[] = ['ack', 'progress', 'lease', 'cancel', 'poll', 'announce', 'questions', 'steer'];
const OF_THE_WORKER: ReadonlySet<Feature> = new Set(['questions', 'steer']);

export interface CardFacts {
  readonly worker: Pick<WorkerPort, 'agentId' | 'features'>;
  readonly name?: string;
  readonly description?: string;
  /** Address of JSON-RPC. */
  readonly url: string;
  readonly version?: string;
  /** A bearer token is required. */
  readonly token: boolean;
}

export const featuresOf = (worker: Pick<WorkerPort, 'features'>): readonly Feature[] =>
  CARRIED.filter((feature) => !OF_THE_WORKER.has(feature) || worker.features.includes(feature));

/** Returns the card that needs no token. */
export function publicCard(facts: CardFacts): AgentCard {
  const { worker, name = worker.agentId, url, version = '0.0.0', token } = facts;
  const { description = 'A coding agent that works on one repository and reports what it did.' } = facts;
  return {
    name,
    description,
    supportedInterfaces: [{ url, protocolBinding: JSON_RPC, tenant: '', protocolVersion: A2A_VERSION }],
    provider: undefined,
    version,
    capabilities: {
      streaming: true,
      pushNotifications: false,
      extendedAgentCard: true,
      extensions: [
        fleetExtension('Tasks, results and descriptions as messages of the fleet handshake.', featuresOf(worker)),
      ],
    },
    securitySchemes: token
      ? {
          bearer: {
            scheme: {
              $case: 'httpAuthSecurityScheme',
              value: { description: '', scheme: 'bearer', bearerFormat: '' },
            },
          },
        }
      : {},
    securityRequirements: token ? [{ schemes: { bearer: { list: [] } } }] : [],
    defaultInputModes: MODES,
    defaultOutputModes: MODES,
    skills: [{ ...TASK_SKILL, examples: [], inputModes: MODES, outputModes: MODES, securityRequirements: [] }],
    signatures: [],
  };
}

/** Returns the same card with the worker's announce. */
export function extendedCard(card: AgentCard, { envelope: _, ...announce }: SessionAnnounce): AgentCard {
  const [skill, ...skills] = card.skills;
  const { tools } = announce.capabilities;
  return {
    ...card,
    capabilities: {
      ...card.capabilities,
      extensions: (card.capabilities?.extensions ?? []).map((extension) =>
        extension.uri === FLEET_EXTENSION ? { ...extension, params: { ...extension.params, announce } } : extension,
      ),
    },
    skills: skill === undefined ? [] : [{ ...skill, tags: [...new Set([...skill.tags, ...tools])] }, ...skills],
  };
}

export interface CardReading extends FleetReading {
  readonly streaming: boolean;
}

/** Reads the card of any agent, which may lack anything. */
export function readCard({ capabilities }: AgentCard): CardReading {
  return { ...readFleetExtension(capabilities, new Set(CARRIED)), streaming: capabilities?.streaming === true };
}
