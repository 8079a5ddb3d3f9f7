/**
 * Tools with effects that tests need to see.
 */
import { tool } from '../../src/capabilities/tools/tool.ts';

const object = (properties: Record<string, unknown>, required: string[] = []) => ({
  type: 'object',
  properties,
  required,
});

/** Returns its input. */
export const echo = tool({
  name: 'echo',
  description: 'Gives back its arguments',
  input: object({ text: { type: 'string' }, n: { type: 'integer' } }),
  idempotent: true,
  run: (args) => args,
});

/** Sends `count` events, then answers. */
export const flood = tool({
  name: 'flood',
  description: 'Sends events',
  input: object({ count: { type: 'integer' }, kind: { type: 'string' } }),
  async run({ count, kind = 'log' }: { count: number; kind?: 'log' | 'progress' }, context) {
    for (let at = 0; at < count; at++) await context.emit(kind, { at });
    return { count };
  },
});

/** Runs until it is aborted, and notes that it was. */
export function patient() {
  const stopped: string[] = [];
  const started: string[] = [];
  return {
    started,
    stopped,
    tool: tool({
      name: 'patient',
      description: 'Waits until it is stopped',
      input: object({ name: { type: 'string' } }),
      run: ({ name = '' }: { name?: string }, { signal }) =>
        new Promise((_resolve, reject) => {
          started.push(name);
          signal.addEventListener('abort', () => {
            stopped.push(`${name}:${(signal.reason as { code: string }).code}`);
            reject(signal.reason);
          });
        }),
    }),
  };
}

/** Returns a tool that finishes when the test releases it. */
export function gated() {
  const started: string[] = [];
  const starts = new Map<string, PromiseWithResolvers<void>>();
  const start = (name: string) => {
    const known = starts.get(name) ?? Promise.withResolvers<void>();
    starts.set(name, known);
    return known;
  };
  const gates = new Map<string, PromiseWithResolvers<unknown>>();
  const gate = (name: string) => {
    const held = gates.get(name) ?? Promise.withResolvers<unknown>();
    gates.set(name, held);
    return held;
  };
  return {
    started,
    /** Resolves when the call of this name runs. */
    began: (name: string): Promise<void> => start(name).promise,
    open: (name: string, value: unknown = { name }) => gate(name).resolve(value),
    tool: tool({
      name: 'gated',
      description: 'Finishes when it may',
      input: object({ name: { type: 'string' } }),
      run: ({ name = '' }: { name?: string }) => {
        started.push(name);
        start(name).resolve();
        return gate(name).promise;
      },
    }),
  };
}
