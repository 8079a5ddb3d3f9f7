/**
 * A host with chains on disk that a test kills: `durable-host.ts SOCKET STATE EFFECTS`. Its tools append their effects to the
 * file EFFECTS, which is beside the store. The variable CRASH is a number n: the host kills itself at the n-th of its points,
 * which are each write of the store and each effect, before and after.
 */
import { appendFileSync } from 'node:fs';
import { DatabaseSync, StatementSync } from 'node:sqlite';
import { chainsPlugin } from '../../../src/capabilities/chains/plugin.ts';
import { toolsPlugin } from '../../../src/capabilities/tools/plugin.ts';
import { tool } from '../../../src/capabilities/tools/tool.ts';
import { createHost } from '../../../src/host/host.ts';
import { listenUnix } from '../../../src/transport/socket.ts';

const [, , path = '', stateFile = '', effects = ''] = process.argv;
const crashAt = Number(process.env.CRASH ?? 0);
let points = 0;

/** Passes a point at which the process may end. */
function point(): void {
  points += 1;
  if (points === crashAt) process.kill(process.pid, 'SIGKILL');
}

// Every commit is a point, before and after.
const run = StatementSync.prototype.run;
const commits = new WeakSet<StatementSync>();
const prepare = DatabaseSync.prototype.prepare;
DatabaseSync.prototype.prepare = function prepareNoted(this: DatabaseSync, sql: string, ...more) {
  const statement = prepare.call(this, sql, ...more);
  if (sql === 'COMMIT') commits.add(statement);
  return statement;
};
StatementSync.prototype.run = function runNoted(this: StatementSync, ...values: Parameters<typeof run>) {
  if (!commits.has(this)) return run.apply(this, values);
  point();
  const done = run.apply(this, values);
  point();
  return done;
} as typeof run;

const effect = (idempotent: boolean) =>
  tool({
    name: idempotent ? 'put' : 'effect',
    description: 'Appends a line to the effects',
    input: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
    idempotent,
    run: async ({ name }: { name: string }) => {
      point();
      // Some end later than others that started after them.
      if (name.endsWith('2')) await new Promise((resolve) => setTimeout(resolve, 2));
      appendFileSync(effects, `${name}\n`);
      point();
      return { name };
    },
  });

const host = createHost({
  plugins: [toolsPlugin({ tools: [effect(false), effect(true)] }), chainsPlugin()],
  stateFile,
});
await host.start();
await listenUnix({ path }, (link) => host.accept(link));
process.send?.('ready');
