/**
 * The proof that no task is claimed twice within its lease and no acknowledged update is lost: agents in processes of their
 * own work through a plan while they and their host are killed with SIGKILL at random, and a log that they write beside the
 * store is compared with what the last host has on disk.
 *
 * Run by `kill.slow.test.ts` for some rounds and by `bench/planning-kill.ts` for a thousand.
 */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '../../../../src/connect.ts';

export interface ProofOptions {
  /** Number of kills, one after the other. */
  readonly rounds: number;
  readonly agents: number;
  readonly tasks: number;
  readonly leaseMs: number;
  /** Mean time that an agent works on a task, milliseconds. */
  readonly workMs: number;
  /** Mean pause between two kills, milliseconds. */
  readonly everyMs: number;
  readonly random?: () => number;
}

export interface ProofReport {
  readonly rounds: number;
  readonly hostKills: number;
  readonly agentKills: number;
  readonly claims: number;
  readonly done: number;
  /** Tasks of these that were done before the last kill. */
  readonly doneUnderFire: number;
  readonly updates: number;
  readonly comments: number;
  /** Claims that ended because their holder was killed or too late. */
  readonly lost: number;
  readonly seconds: number;
}

interface Line {
  readonly kind: 'claimed' | 'counting' | 'counted' | 'said' | 'ending' | 'done' | 'lost' | 'failed';
  readonly slot: string;
  readonly pid: number;
  readonly at: number;
  readonly task: string;
  readonly fence: number;
  readonly askedAt: number;
  readonly value: number;
  readonly text: string;
  readonly by: string;
}

const script = (name: string): string => join(import.meta.dirname, name);

function start(file: string, args: readonly string[], ipc: boolean): ChildProcess {
  const flags = ['-C', 'handfast-source', '--import', join(import.meta.dirname, '../../../preload.ts')];
  const stdio = ['ignore', 'ignore', 'inherit', ...(ipc ? ['ipc' as const] : [])] as const;
  return spawn(process.execPath, [...flags, script(file), ...args], { stdio: [...stdio] });
}

async function killed(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = once(child, 'exit');
  child.kill('SIGKILL');
  await exited;
}

/** Runs the proof. Throws an assertion for every broken promise. */
export async function prove(options: ProofOptions): Promise<ProofReport> {
  const { rounds, agents, tasks, leaseMs, workMs, everyMs, random = Math.random } = options;
  const startedAt = performance.now();
  const folder = mkdtempSync(join(tmpdir(), 'handfast-planning-'));
  const socket = join(folder, 'socket');
  const logFile = join(folder, 'effects.ndjson');
  writeFileSync(logFile, '');
  const lines = (): Line[] =>
    readFileSync(logFile, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Line);

  const startHost = async (): Promise<ChildProcess> => {
    const child = start('host.ts', [socket, join(folder, 'state.db')], true);
    await once(child, 'message');
    return child;
  };
  let host = await startHost();
  const open = () =>
    connect(`unix://${socket}`, { capabilities: ['planning'], agentId: 'proof', reconnect: { maxMs: 1 } });
  const running = new Map<string, ChildProcess>();
  try {
    const first = await open();
    const { plan_id } = await first.planning.createPlan('proof');
    const { task_id: board } = await first.planning.add(plan_id, 'counters', { assignee: 'no agent of this proof' });
    let before = '';
    for (let at = 0; at < tasks; at += 1) {
      // Some tasks wait for the one before.
      const deps = at % 5 === 4 ? [before] : [];
      before = (await first.planning.add(plan_id, `task ${at}`, { deps })).task_id;
    }
    await first.close();

    const startAgent = (slot: string): void => {
      running.set(
        slot,
        start('agent.ts', [socket, plan_id, logFile, slot, String(leaseMs), String(workMs), board], false),
      );
    };
    for (let at = 0; at < agents; at += 1) startAgent(`slot${at}`);
    /** Waits until each kill meets work: since the kill before, something was claimed, unless all is done. */
    let seen = 0;
    const progress = async (): Promise<void> => {
      for (let tries = 0; tries < 400 && statSync(logFile).size === seen; tries += 1) {
        await new Promise((resolve) => setTimeout(resolve, 25));
      }
      seen = statSync(logFile).size;
    };
    const report = { hostKills: 0, agentKills: 0 };
    for (let round = 0; round < rounds; round += 1) {
      await new Promise((resolve) => setTimeout(resolve, random() * 2 * everyMs));
      await progress();
      if (random() < 0.1) {
        await killed(host);
        report.hostKills += 1;
        host = await startHost();
      } else {
        const slot = `slot${Math.floor(random() * agents)}`;
        await killed(running.get(slot) as ChildProcess);
        report.agentKills += 1;
        startAgent(slot);
      }
    }
    const doneUnderFire = lines().filter(({ kind }) => kind === 'done').length;
    // The surviving agents end the rest, and the last host shows the state on disk.
    for (const [slot, child] of running) {
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
      assert.equal(
        child.exitCode,
        0,
        `${slot} failed: ${JSON.stringify(lines().filter(({ kind }) => kind === 'failed'))}`,
      );
    }
    await killed(host);
    host = await startHost();
    const last = await open();
    const all = await last.planning.tasks(plan_id);
    const details = await Promise.all(all.map(({ task_id }) => last.planning.task(plan_id, task_id)));
    const comments = new Set<string>();
    for await (const { comment } of last.planning.history(plan_id)) if (comment !== undefined) comments.add(comment);
    await last.close();

    const effects = lines();
    const of = (kind: Line['kind']): Line[] => effects.filter((line) => line.kind === kind);
    // No update is lost: every acknowledged comment, end and count is stored.
    for (const { text } of of('said')) assert.ok(comments.has(text), `the comment ${text} was lost`);
    for (const { task, by } of of('done')) {
      const found = details.find(({ task_id }) => task_id === task);
      assert.deepEqual([found?.status, found?.metadata.by], ['done', by], `the end of ${task} was lost`);
    }
    const counters = details.find(({ title }) => title === 'counters')?.metadata ?? {};
    for (const [pid, mine] of Map.groupBy(effects, (line) => line.pid)) {
      const acknowledged = Math.max(0, ...mine.filter(({ kind }) => kind === 'counted').map(({ value }) => value));
      const asked = Math.max(0, ...mine.filter(({ kind }) => kind === 'counting').map(({ value }) => value));
      const stored = Number(counters[pid] ?? 0);
      assert.ok(stored >= acknowledged && stored <= asked, `${pid}: ${acknowledged} ≤ ${stored} ≤ ${asked}`);
    }
    // No task is claimed twice: a later claim follows the end of the one before, or of its lease.
    const claims = of('claimed');
    const byTask = Map.groupBy(claims, ({ task }) => task);
    for (const [task, held] of byTask) {
      held.sort((left, right) => left.fence - right.fence);
      for (const [at, claim] of held.entries()) {
        const next = held[at + 1];
        if (next === undefined) continue;
        assert.notEqual(next.fence, claim.fence, `two agents have ${task} with fence ${claim.fence}`);
        const ended = effects.find(
          (line) =>
            line.kind === 'ending' && line.task === task && line.fence === claim.fence && line.pid === claim.pid,
        );
        // The lease began after the request; the next claim was acknowledged after it was granted.
        const over = Math.min(claim.askedAt + leaseMs, ended?.at ?? Number.POSITIVE_INFINITY);
        assert.ok(next.at >= over, `${task} was claimed again ${over - next.at} ms before its lease ended`);
      }
    }
    assert.equal(details.filter(({ status }) => status === 'done').length, tasks, 'every task was done');
    return {
      rounds,
      ...report,
      claims: claims.length,
      done: of('done').length,
      doneUnderFire,
      updates: of('counted').length,
      comments: of('said').length,
      lost: of('lost').length,
      seconds: (performance.now() - startedAt) / 1000,
    };
  } finally {
    await Promise.all([...running.values(), host].map(killed));
    rmSync(folder, { recursive: true, force: true });
  }
}
