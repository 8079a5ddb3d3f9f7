/**
 * The parts of A2A messages and artifacts, and the place of fleet messages in them: data parts, beside the text for clients
 * that read nothing else.
 *
 * @see docs/a2a.md#messages
 */
import { FLEET_EXTENSION, type FleetMessage } from '../../../protocol/fleet.ts';
import { isObject } from '../../../wire/json.ts';
import { isFleetMessage } from '../plain/incoming.ts';
import type { Artifact, Message, Part, TaskState } from './sdk.ts';

/** States of an A2A task, by the numbers the SDK gives them. */
export const STATE = {
  unspecified: 0,
  submitted: 1,
  working: 2,
  completed: 3,
  failed: 4,
  canceled: 5,
  inputRequired: 6,
  rejected: 7,
  authRequired: 8,
} as const satisfies Record<string, TaskState>;

export const ROLE = { user: 1, agent: 2 } as const;

const ENDED: ReadonlySet<TaskState> = new Set([STATE.completed, STATE.failed, STATE.canceled, STATE.rejected]);
const PAUSED: ReadonlySet<TaskState> = new Set([STATE.inputRequired, STATE.authRequired]);

/** True for the final states of a task. */
export const isEnded = (state: TaskState | undefined): boolean => state !== undefined && ENDED.has(state);
/** True for the final states, and for those that wait for the client or an operator. */
export const isSettled = (state: TaskState | undefined): boolean =>
  state !== undefined && (ENDED.has(state) || PAUSED.has(state));

/** Name of the artifact that holds a result. */
export const RESULT_ARTIFACT = 'task-result';
const JSON_TYPE = 'application/json';

/** Settings of a send: this client follows the task by itself. */
export const RETURN_AT_ONCE = {
  acceptedOutputModes: [],
  taskPushNotificationConfig: undefined,
  returnImmediately: true,
};

/** Schema of the answer to an agent that asks in words. */
export const TEXT_ANSWER = {
  type: 'object',
  properties: { answer: { type: 'string', minLength: 1, description: 'Answer sent to the agent.' } },
  required: ['answer'],
};

/** Returns the answer a user gave by that schema; undefined: none. */
export function textAnswer(
  allowed: boolean,
  content: Readonly<Record<string, unknown>> | undefined,
): string | undefined {
  const answer = content?.answer;
  return allowed && typeof answer === 'string' && answer.trim() !== '' ? answer : undefined;
}

export const textPart = (text: string): Part => ({
  content: { $case: 'text', value: text },
  metadata: undefined,
  filename: '',
  mediaType: 'text/plain',
});

export const dataPart = (value: object): Part => ({
  content: { $case: 'data', value },
  metadata: undefined,
  filename: '',
  mediaType: JSON_TYPE,
});

/** Returns the text of some parts, a blank line between them. */
export function textOf(parts: readonly Part[] | undefined): string {
  return (parts ?? [])
    .flatMap(({ content }) => (content?.$case === 'text' ? [content.value] : []))
    .join('\n\n')
    .trim();
}

/** Returns the objects in data parts. */
export function dataOf(parts: readonly Part[] | undefined): object[] {
  return (parts ?? []).flatMap(({ content }) => {
    const value: unknown = content?.$case === 'data' ? content.value : undefined;
    return isObject(value) ? [value] : [];
  });
}

/** Returns the messages of the fleet protocol among them, valid or not. */
export function fleetDataOf(parts: readonly Part[] | undefined): object[] {
  return dataOf(parts).filter(isFleetMessage);
}

/** The content of a message. */
export interface MessageContent {
  readonly messageId: string;
  readonly text?: string;
  readonly data?: readonly FleetMessage[];
  /** Data for clients without the fleet protocol. */
  readonly plainData?: object;
  /** Under the address of the fleet extension. */
  readonly fleet?: object;
  readonly contextId?: string;
  readonly taskId?: string;
  readonly referenceTaskIds?: readonly string[];
}

export function messageOf(role: (typeof ROLE)[keyof typeof ROLE], content: MessageContent): Message {
  const { messageId, text = '', data = [], plainData, fleet } = content;
  const { contextId = '', taskId = '', referenceTaskIds = [] } = content;
  const speaksFleet = fleet !== undefined || data.length > 0;
  return {
    messageId,
    contextId,
    taskId,
    role,
    // The text first: some clients read the first part only.
    parts: [
      ...(text === '' ? [] : [textPart(text)]),
      ...[...data, ...(plainData === undefined ? [] : [plainData])].map(dataPart),
    ],
    metadata: fleet === undefined ? undefined : { [FLEET_EXTENSION]: fleet },
    extensions: speaksFleet ? [FLEET_EXTENSION] : [],
    referenceTaskIds: [...referenceTaskIds],
  };
}

/** Returns the metadata of a message, task or update under the address of the fleet extension. */
export function fleetMetadata(
  metadata: Readonly<Record<string, unknown>> | undefined,
): Readonly<Record<string, unknown>> {
  const found = metadata?.[FLEET_EXTENSION];
  return typeof found === 'object' && found !== null ? (found as Record<string, unknown>) : {};
}

/** Returns the text of a task's artifacts. */
export function artifactsText(artifacts: readonly Artifact[] | undefined): string {
  return (artifacts ?? [])
    .map(({ parts }) => textOf(parts))
    .filter(Boolean)
    .join('\n\n');
}
