/**
 * The whole proof of the planning capability: 16 agents and a host, one of them killed with SIGKILL in each of 1,000
 * rounds. Prints the claimed and changed tasks; throws at the first broken promise.
 * `node -C handfast-source bench/planning-kill.ts [ROUNDS]`.
 */
import { prove } from '../test/capabilities/planning/kill/proof.ts';

const rounds = Number(process.argv[2] ?? 1_000);
const report = await prove({ rounds, agents: 16, tasks: rounds * 5, leaseMs: 2_000, workMs: 300, everyMs: 50 });
console.log(JSON.stringify(report, null, 2));
