/**
 * `handfast rpc` over the fake control server, in a separate process. Words on its command line: `noisy` prints where a
 * careless tool would; `stuck` leaves a timer behind that would keep the process for an hour; `hasty` gives requests that are
 * aborted little time; `long` reads long requests of every method; `complete` answers every method of the protocol; `broken`
 * cannot be put together.
 */
import { rpc } from '../../../src/cli/commands/rpc.ts';
import { defaultRpcLimits } from '../../../src/control/rpc/rpc-limits.ts';
import { createRpcServer } from '../../../src/control/rpc/rpc-server.ts';
import { fail } from '../../../src/wire/errors.ts';
import { fakeControl, stubsFor } from './fake-control.ts';

const words = process.argv.slice(2);

const print = (what: string): void => {
  if (!words.includes('noisy')) return;
  console.log(`stray log ${what}`);
  process.stdout.write(`stray write ${what}\n`);
};

await rpc({ serverName: 'fake' }, async ({ serverName }) => {
  print('before');
  if (words.includes('broken')) throw fail('config_invalid', 'nothing fits together');
  if (words.includes('stuck')) setTimeout(() => {}, 3_600_000);
  const control = fakeControl({
    onShutdown({ events }) {
      print('at the end');
      // The last event of a turn that was ended.
      events.publish('s', 'session.interrupted', { stop_reason: 'shutdown' });
    },
  });
  control.events.open('s');
  const served = createRpcServer(control).methods;
  const more = words.includes('complete') ? stubsFor(control.handlers, served) : [];
  const limits = {
    ...(words.includes('hasty') && { settleMs: 100 }),
    ...(words.includes('long') && { maxPlainMessageBytes: defaultRpcLimits.maxMessageBytes }),
  };
  return createRpcServer({ ...control, handlers: [...control.handlers, ...more] }, { limits, serverName });
}).catch((error) => {
  console.log(`cannot serve: ${error.code}`);
  process.exitCode = 2;
});
print('after');
