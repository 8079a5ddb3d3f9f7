/**
 * The proc capability of a host: programs that agents start, write to, read, signal and find again.
 *
 * Host builders call `procPlugin()`. It runs code with the rights of the host's user, so only programs that the options or a
 * grant name.
 * @see docs/proc.md
 */
import type { CallContext } from '../../host/context.ts';
import { definePlugin, handle, type Plugin } from '../../host/plugin.ts';
import { waiting } from '../../host/waiting.ts';
import { HandfastError } from '../../wire/errors.ts';
import { failure } from './errors.ts';
import * as messages from './messages.ts';
import { procOffer } from './offer.ts';
import { Processes, type ProcPluginOptions } from './processes.ts';
import { Readers } from './readers.ts';

export type { ProcPluginOptions };

export function procPlugin(options: ProcPluginOptions = {}): Plugin {
  const processes = new Processes(options);
  const readers = new Readers();
  return definePlugin({
    name: 'proc',
    type: 'proc',
    ...procOffer(),
    stop: () => processes.stop(),
    methods: [
      handle(messages.procSpawn, (request, context) =>
        refusable(context, { proc_id: '', pid: 0 }, async () => {
          const proc = await processes.spawn(request, context);
          if (context.signal.aborted) {
            void proc.terminate('killed');
            throw context.signal.reason;
          }
          if (request.stream !== false) {
            context.keepStream();
            readers.read(context, '', proc, { from: 0, follow: true, window: 0, plain: true });
          }
          return { proc_id: proc.id, pid: proc.pid };
        }),
      ),
      handle(messages.procWrite, ({ proc_id = '', data = '', eof = false }, context) =>
        refusable(context, { proc_id, pid: 0 }, async () => {
          const proc = processes.find(proc_id, context.session);
          await waiting(context, proc.write(data, eof));
          return { proc_id, pid: proc.pid };
        }),
      ),
      handle(messages.procKill, ({ proc_id = '', signal = 'SIGTERM' }, context) =>
        refusable(context, { state: '' }, async () => {
          const proc = processes.find(proc_id, context.session);
          await proc.kill(signal);
          return { state: proc.state };
        }),
      ),
      handle(messages.procStatus, ({ proc_id = '', all = false }, context) => {
        const { session } = context;
        if (proc_id === '') {
          const procs = processes.list(session, all);
          const status = procs.some(({ running }) => running) ? 'running' : 'completed';
          const programs = [...processes.programs(context)];
          return { proc_id, status, error: '', procs: procs.map((proc) => proc.describe()), programs };
        }
        try {
          const proc = processes.find(proc_id, session);
          return { proc_id, ...proc.status, procs: [proc.describe()] };
        } catch (error) {
          return { proc_id, status: 'not_found', error: refusalOf(error).error };
        }
      }),
      handle(messages.procRead, ({ proc_id = '', from = 0, follow = true, window = 0, reader = '' }, context) => {
        const proc = processes.find(proc_id, context.session);
        if (window > 0 && !readers.isFree(reader, context)) {
          throw failure('invalid', 'a window needs a reader with a name of its own', { field: 'reader' });
        }
        context.keepStream();
        readers.read(context, reader, proc, { from, follow, window, plain: false });
        return { proc: proc.describe() };
      }),
      handle(messages.procAck, ({ reader, seq }, context) => ({ ok: readers.acknowledge(reader, seq, context) })),
      handle(messages.procResize, ({ proc_id = '', cols, rows }, { session }) => {
        const proc = processes.find(proc_id, session);
        proc.resize({ cols, rows });
        return { proc: proc.describe() };
      }),
    ],
  });
}

/** Runs a request of A2E 1.0, whose refusals are replies: `ok` false, with the error beside it. */
async function refusable<Empty extends object, Reply extends object>(
  context: CallContext,
  empty: Empty,
  run: () => Promise<Reply>,
): Promise<(Empty | Reply) & { ok: boolean; error: string }> {
  try {
    return { ok: true, error: '', ...(await run()) };
  } catch (error) {
    const refusal = refusalOf(error);
    context.refusal = error as HandfastError;
    return { ok: false, ...empty, ...refusal };
  }
}

/** Returns the text of a refusal. The codes of A2E 1.0 come first in it. Throws errors that are no refusal. */
function refusalOf(thrown: unknown) {
  if (!(thrown instanceof HandfastError) || thrown.capability !== 'proc') throw thrown;
  const { code, message, detail } = thrown;
  return { error: code.startsWith('proc.') ? message : `${code}: ${message}`, refusal: { code, message, detail } };
}
