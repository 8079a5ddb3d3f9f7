/** Subagents that are a function of this process. They reach the host as every agent does, with the rights of the subagent. */
import type { Link } from '../../transport/link.ts';
import type { SubagentBackend, SubagentFacts, SubagentTaskContext, SubagentWork } from './backend.ts';
import type { SubagentMessage } from './multi_agent.schema.ts';

/** The function's second argument, beside the task. */
export interface SubagentContext extends SubagentTaskContext {
  readonly subagent: SubagentFacts;
  /**
   * This host, for `connect(context.host, { capabilities: ['tools'] })`: the agent then has the rights of the subagent. It ends
   * with the subagent.
   */
  readonly host: { readonly started: true; accept(link: Link): void };
  /** Sets the rating of the result, for merging. */
  score(value: number): void;
  /** Calls `listener` for each message that other agents send to this subagent during the task. */
  onMessage(listener: (from: string, message: SubagentMessage) => void): void;
}

/**
 * Does a task. Its return value is the result: an object unchanged, any other value as the member `value`. An exception is the
 * failure of the task. It should end when `context.signal` aborts.
 */
export type SubagentFunction = (task: SubagentWork, context: SubagentContext) => unknown;

/** Messages that wait for a listener. */
const MAX_UNREAD = 100;

/** Returns a backend of a function. */
export function functionBackend(run: SubagentFunction): SubagentBackend {
  return {
    name: 'function',
    open(subagent, { accept: serve }) {
      let listeners: ((from: string, message: SubagentMessage) => void)[] = [];
      const unread: (readonly [from: string, message: SubagentMessage])[] = [];
      const host = { started: true, accept: (link: Link) => serve(link) } as const;
      return {
        async run(task, { signal, progress, spent, waiting }) {
          let given: number | undefined;
          listeners = [];
          const result = await run(task, {
            signal,
            progress,
            spent,
            waiting,
            subagent,
            host,
            score: (value) => {
              given = value;
            },
            onMessage(listener) {
              listeners.push(listener);
              for (const [from, message] of unread.splice(0)) listener(from, message);
            },
          });
          return { result, score: given };
        },
        deliver(from, message) {
          for (const listener of listeners) listener(from, message);
          if (listeners.length > 0) return true;
          if (unread.length >= MAX_UNREAD) return false;
          unread.push([from, message]);
          return true;
        },
        close: async () => {},
      };
    },
  };
}
