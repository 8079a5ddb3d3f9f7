/**
 * The agent card of a worker, and what a card says of any agent. The public card says that the fleet protocol is spoken and
 * nothing of what the worker is; the extended one, shown to whoever has a token, holds its announce.
 *
 * Written by `worker-server.ts`, read by `connection.ts`. @see docs/a2a.md#card
 */
import { type Feature, FLEET_EXTENSION, FLEET_VERSION, type SessionAnnounce } from '../../../protocol/fleet.ts';
import { knownFeatures } from '../features.ts';
import type { WorkerPort } from '../reply-channel.ts';
import type { AgentCard } from './sdk.ts';

/** Where the card of an agent is, below its address. */
export const CARD_PATH = '/.well-known/agent-card.json';
/** Version of A2A that is spoken. */
export const A2A_VERSION = '1.0';
export const JSON_RPC = 'JSONRPC';

/** What A2A carries of the fleet protocol. The last two need a worker that can do them too. */
const CARRIED: readonly Feature[] = ['ack', 'progress', 'lease', 'cancel', 'poll', 'announce', 'questions', 'steer'];
const OF_THE_WORKER: ReadonlySet<Feature> = new Set(['questions', 'steer']);

export interface CardFacts {
  readonly worker: Pick<WorkerPort, 'agentId' | 'features'>;
  readonly name?: string;
  readonly description?: string;
  /** Where JSON-RPC is served. */
  readonly url: string;
  readonly version?: string;
  /** A bearer token is asked for. */
  readonly token: boolean;
}

export const featuresOf = (worker: Pick<WorkerPort, 'features'>): readonly Feature[] =>
  CARRIED.filter((feature) => !OF_THE_WORKER.has(feature) || worker.features.includes(feature));

/** The card everybody may read. */
export function publicCard(facts: CardFacts): AgentCard {
  const { worker, name = worker.agentId, url, version = '0.0.0', token } = facts;
  const { description = 'A coding agent that works on one repository and reports what it did.' } = facts;
  const modes = ['text/plain', 'application/json'];
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
        {
          uri: FLEET_EXTENSION,
          description: 'Tasks, results and descriptions as messages of the fleet handshake.',
          required: false,
          params: { protocol_versions: [FLEET_VERSION], features: featuresOf(worker) },
        },
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
    defaultInputModes: modes,
    defaultOutputModes: modes,
    skills: [
      {
        id: 'task',
        name: 'Task',
        description: 'Does a task in its repository.',
        tags: ['task'],
        examples: [],
        inputModes: modes,
        outputModes: modes,
        securityRequirements: [],
      },
    ],
    signatures: [],
  };
}

/** The same with all the worker says of itself. */
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

/** What a card says about how its agent can be spoken with. */
export interface CardReading {
  /** It declares our extension. */
  readonly fleet: boolean;
  readonly features: ReadonlySet<Feature>;
  readonly streaming: boolean;
}

/** Reads the card of any agent, which may lack whatever it likes. */
export function readCard(card: AgentCard): CardReading {
  const { capabilities } = card;
  const listed: readonly { uri?: unknown; params?: Readonly<Record<string, unknown>> }[] = Array.isArray(
    capabilities?.extensions,
  )
    ? capabilities.extensions
    : [];
  const ours = listed.find((one) => one?.uri === FLEET_EXTENSION);
  const features = ours?.params?.features;
  const carried: ReadonlySet<string> = new Set(CARRIED);
  const names = Array.isArray(features) ? features.filter((one): one is string => carried.has(one)) : [];
  return { fleet: ours !== undefined, features: knownFeatures(names), streaming: capabilities?.streaming === true };
}
