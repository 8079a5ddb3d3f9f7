/**
 * An agent of the proof: claims tasks, works on them and ends them until none is open, and logs its claims and updates beside
 * the store. Arguments: socket, plan, log, slot, lease and mean time of work in milliseconds, the task that has the counters.
 *
 * Times are of the monotonic clock of the machine, which all processes share.
 */
import { openSync, writeSync } from 'node:fs';
import { connect } from '../../../../src/connect.ts';
import { HandfastError } from '../../../../src/wire/errors.ts';

const [, , socket = '', planId = '', logFile = '', slot = '', lease = '1000', workMs = '10', counters = ''] =
  process.argv;
const leaseMs = Number(lease);
const log = openSync(logFile, 'a');
const nowMs = (): number => Number(process.hrtime.bigint() / 1_000n) / 1_000;
/** Writes one line in one write: lines of several processes do not mix. */
const note = (kind: string, fields: object): void =>
  void writeSync(log, `${JSON.stringify({ kind, slot, pid: process.pid, at: nowMs(), ...fields })}\n`);
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

let counter = 0;
let claims = 0;

/** Works until the plan has no open task. Throws when the host is lost. */
async function work(): Promise<void> {
  await using agent = await connect(`unix://${socket}`, {
    capabilities: ['planning'],
    agentId: `${slot}-${process.pid}`,
    reconnect: { maxMs: 1 },
    timeoutMs: 20_000,
  });
  const { planning } = agent;
  for (;;) {
    const askedAt = nowMs();
    const key = `${process.pid}-${claims}`;
    const claim = await planning.claim(planId, { leaseMs, renew: false, key, waitMs: 200 });
    if (claim === undefined) {
      const { open } = await planning.ready(planId);
      // The remaining task is that of the counters.
      if (open <= 1) return;
      continue;
    }
    claims += 1;
    // The call may include a wait; the lease starts at the host between request and reply.
    note('claimed', { task: claim.id, fence: claim.fence, askedAt });
    await pause(Math.random() * 2 * Number(workMs));
    counter += 1;
    note('counting', { value: counter });
    await planning.update(planId, counters, { metadata: { [process.pid]: counter } });
    note('counted', { value: counter });
    const text = `${slot} ${process.pid} ${counter}`;
    await planning.comment(planId, claim.id, text);
    note('said', { task: claim.id, text });
    note('ending', { task: claim.id, fence: claim.fence });
    try {
      if (Math.random() < 0.1) {
        await claim.release('another time');
        continue;
      }
      await claim.update({ status: 'done', metadata: { by: text } });
      note('done', { task: claim.id, fence: claim.fence, by: text });
    } catch (error) {
      if (!(error instanceof HandfastError) || error.code !== 'planning.claim_lost') throw error;
      note('lost', { task: claim.id, fence: claim.fence });
    }
  }
}

for (;;) {
  try {
    await work();
    process.exit(0);
  } catch (error) {
    // The host was killed: the next one serves the same plans.
    if (error instanceof HandfastError && /^(planning|schema|usage)/.test(error.code)) {
      note('failed', { code: error.code, message: error.message });
      process.exit(1);
    }
    await pause(20);
  }
}
