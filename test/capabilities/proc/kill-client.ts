/**
 * An agent in a separate process that a test kills: `kill-client.ts ADDRESS AGENT STEP RUN...` brings one process of each kind
 * to a step, prints its progress as one line of JSON, and waits.
 */
import { connect } from '../../../src/connect.ts';
import { KINDS, reach, STEPS } from './kill-steps.ts';

const [address = '', agentId = '', name = '', ...runs] = process.argv.slice(2);
const step = STEPS.find((each) => each.name === name);
if (step === undefined) throw new Error(`there is no step ${name}`);
const open = () => connect(address, { capabilities: ['proc'], agentId });
const [agent, other] = [await open(), await open()];
const reached = await Promise.all(KINDS.map((kind, at) => reach(step, kind, runs[at] ?? '', agent.proc, other.proc)));
for (const { waiting } of reached) for (const each of Object.values(waiting)) each.catch(() => {});
const told = reached.map(({ child, text, next }) => ({ id: child?.id ?? '', text, next }));
process.stdout.write(`${JSON.stringify({ sessions: [agent.sessionId, other.sessionId], told })}\n`);
setInterval(() => {}, 60_000);
