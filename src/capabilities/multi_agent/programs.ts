/**
 * Subagents that are programs of the configuration: each is a child of the host that speaks A2E as an agent over its pipes,
 * fetches its tasks and reports their end. It ends with its subagent, and with the host.
 */
import { isAbsolute, resolve } from 'node:path';
import { childEnvironment } from '../../base/child-environment.ts';
import type { CloseInfo, Link, LinkReceiver } from '../../transport/link.ts';
import type { RunningSubagent, SubagentBackend } from './backend.ts';
import { TaskQueue } from './fetched.ts';

export interface SubagentProgram {
  /** The program and its arguments; no shell is involved. */
  readonly command: readonly string[];
  /** The working directory; relative ones are below the workspace. Default: the workspace. */
  readonly cwd?: string | undefined;
  /** Environment variables beside PATH, HOME, LANG and the like. */
  readonly env?: Readonly<Record<string, string>> | ReadonlyMap<string, string> | undefined;
  /** Environment variables of the host that it also gets. */
  readonly passEnv?: readonly string[] | undefined;
}

/** Time for a program to end before it gets a signal, milliseconds. */
const GRACE_MS = 1_000;

/** Returns a backend of a program. */
export function programBackend(program: SubagentProgram): SubagentBackend {
  const [command = '', ...args] = program.command;
  const { cwd = '', passEnv = [] } = program;
  const env = program.env instanceof Map ? Object.fromEntries(program.env) : program.env;
  const passed = passEnv.flatMap((name): [string, string][] => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  return {
    name: 'command',
    async open(subagent, host): Promise<RunningSubagent> {
      const { spawnLink } = await import('../../transport/subprocess.ts');
      const release = await host.acquireProcess();
      let link: Link;
      try {
        link = await spawnLink({
          command,
          args,
          cwd: isAbsolute(cwd) ? cwd : resolve(host.workspace, cwd),
          env: {
            ...childEnvironment({}, process.env),
            ...Object.fromEntries(passed),
            ...env,
            HANDFAST_SUBAGENT: subagent.id,
          },
          inherits: false,
          onStderr: (line) => host.log.info('a subagent wrote to its stderr', { subagent: subagent.id, line }),
        });
        if (host.signal.aborted) {
          // A link that is not opened does not report its end.
          link.destroy('the subagent has ended');
          throw host.signal.reason;
        }
      } catch (error) {
        release();
        throw error;
      }
      const tasks = new TaskQueue();
      const gone = Promise.withResolvers<void>();
      host.accept(
        watched(link, ({ reason }) => {
          release();
          gone.resolve();
          host.lost(reason);
        }),
      );
      return {
        run: (work, context) => tasks.run(work, context),
        fetched: tasks,
        async close() {
          void link.close('the subagent has ended', GRACE_MS);
          await gone.promise;
        },
      };
    },
  };
}

/** Returns the link with a second listener for its end. */
function watched(link: Link, ended: (cause: CloseInfo) => void): Link {
  const open = link.open.bind(link);
  let over = false;
  link.open = (receiver: LinkReceiver) =>
    open({
      message: (message) => receiver.message(message),
      malformed: (problem) => receiver.malformed(problem),
      ended: () => receiver.ended(),
      closed(cause) {
        if (!over) ended(cause);
        over = true;
        receiver.closed(cause);
      },
    });
  return link;
}
