/**
 * SIGKILL to the host, to the process and to its agent, at every step of the story of a process, on pipes and at a terminal: no
 * process is left behind, every promise settles with the right code, and no output that was read is lost.
 */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { after, before, describe, type TestContext, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import type { ProcClient, ProcessExit, RemoteProcess } from '../../../src/capabilities/proc/client.ts';
import { type Agent, connect } from '../../../src/connect.ts';
import { memoryJournal } from '../../../src/journal/memory.ts';
import type { Session } from '../../../src/session/session.ts';
import { listenTcp } from '../../../src/transport/socket.ts';
import type { HandfastError } from '../../../src/wire/errors.ts';
import { type Command, User } from '../../cli/command.ts';
import { within } from '../../contract/recorder.ts';
import { start } from '../../interop/python-sdk.ts';
import { ownPort } from '../../support/own-port.ts';
import { allPids, carriers, statOf } from '../../support/system-processes.ts';
import { CODE, KINDS, LINES, type Reached, Reading, reach, STEPS, type Step } from './kill-steps.ts';
import { isAlive, procHost, until } from './support.ts';

const skip = !existsSync('/proc/self/stat') && 'needs /proc to see what is left';
const CLIENT = fileURLToPath(new URL('./kill-client.ts', import.meta.url));
/** Far above the duration of any step. */
const PATIENCE_MS = 60_000;

/** The outcome of a settled promise: a value, or a code. */
type Outcome = { readonly value: unknown } | { readonly code: string };

const outcomeOf = (promise: Promise<unknown>): Promise<Outcome> =>
  promise.then(
    (value) => ({ value }),
    ({ code }: HandfastError) => ({ code }),
  );

/** Returns the outcomes of all pending promises, once they have settled. */
async function settled({ waiting }: Reached): Promise<Record<string, Outcome>> {
  const all = Object.entries(waiting).map(async ([name, promise]) => [name, await outcomeOf(promise)]);
  return Object.fromEntries(await within(Promise.all(all), 'what waits settles', PATIENCE_MS));
}

const newRuns = (): string[] => KINDS.map(() => randomBytes(16).toString('hex'));

const noneLeft = (runs: readonly string[]): Promise<void> =>
  until(() => runs.every((run) => carriers(run).length === 0), 'the end of all processes');

/** Brings processes to a step. No pending promise may be reported as unhandled before the test awaits it. */
async function reachAll(step: Step, runs: readonly string[], proc: ProcClient, other: ProcClient): Promise<Reached[]> {
  const reached = await Promise.all(KINDS.map((kind, at) => reach(step, kind, runs[at] as string, proc, other)));
  for (const { waiting } of reached) for (const each of Object.values(waiting)) each.catch(() => {});
  return reached;
}

/** Checks the text of the whole story, or of its beginning: every line once and in order. */
function mustBeInOrder(text: string): void {
  const numbers = [...text.matchAll(/line (\d+)\r?\n/g)].map(([, number]) => Number(number));
  assert.deepEqual(
    numbers,
    numbers.map((_, at) => at),
  );
}

/** A host as its users start it, whose state outlives it; its user is its administrator. */
class Site {
  readonly user = new User();
  url = '';
  #token = '';
  #command: Command | undefined;

  async up(): Promise<void> {
    if (this.url === '') {
      this.url = `tcp://127.0.0.1:${await ownPort()}`;
      this.user.write(
        'proc.yaml',
        `listen: ${this.url}\nplugins: [{ use: proc, options: { programs: [sh] } }]\njournal: { kind: sqlite }\n`,
      );
    }
    const command = this.user.start(['up', '--json', '--config', 'proc.yaml']);
    await command.says('\n');
    this.#command = command;
    this.#token = readFileSync(JSON.parse(command.stdout).token_file, 'utf8').trim();
  }

  async end(signal: NodeJS.Signals): Promise<void> {
    this.#command?.child.kill(signal);
    await this.#command?.ended();
  }

  open(t: TestContext, resumes: boolean): Promise<Agent<'proc'>> {
    const options = { capabilities: ['proc'], agentId: 'ana', token: this.#token } as const;
    return connect(this.url, { ...options, ...(!resumes && { resume: false as const }) }).then((agent) => {
      t.after(() => agent.close());
      return agent;
    });
  }
}

describe('the host is killed, and started again', { skip, timeout: 600_000 }, () => {
  const site = new Site();
  before(() => site.up());
  after(() => site.user.leave());

  /** A session that is resumed, or one that was not stored yet. */
  const AGAIN = ['interrupted', 'reply_lost', 'session_expired'];

  for (const step of STEPS) {
    test(`when ${step.name}`, async (t) => {
      const agent = await site.open(t, true);
      const other = await site.open(t, false);
      const runs = newRuns();
      const reached = await reachAll(step, runs, agent.proc, other.proc);
      await site.end('SIGKILL');
      await noneLeft(runs);
      await site.up();
      for (const one of reached) {
        for (const [name, outcome] of Object.entries(await settled(one))) {
          const isOther = step.name === 'another link reads from a cursor';
          const codes = isOther ? ['connection_lost'] : AGAIN;
          // Replies that arrived before.
          const early = name === 'spawn' || (name === 'kill' && 'value' in outcome && outcome.value === 'running');
          assert.ok('code' in outcome ? codes.includes(outcome.code) : early, `${name}: ${JSON.stringify(outcome)}`);
        }
        mustBeInOrder(one.text);
        if (one.child === undefined) continue;
        const { id } = one.child;
        await assert.rejects(agent.proc.find(id), {
          code: 'unknown_proc',
          message: `there is no process "${id}": processes end with their session and with their host`,
        });
        await assert.rejects(one.child.write('late\n'), { code: 'unknown_proc' });
      }
      assert.deepEqual(await agent.proc.list(), []);
      const fresh = await agent.proc.spawn(['sh', '-c', 'echo again']);
      assert.equal((await fresh.wait()).code, 0);
      assert.ok(runs.every((run) => carriers(run).length === 0));
    });
  }
});

describe('the process is killed', { skip, timeout: 600_000 }, () => {
  const site = new Site();
  before(() => site.up());
  after(() => site.user.leave());

  const inGroup = (pid: number): number[] =>
    allPids().filter((each) => statOf(each)?.group === pid && !'ZX'.includes(statOf(each)?.state ?? 'X'));

  for (const step of STEPS) {
    test(`when ${step.name}`, async (t) => {
      const agent = await site.open(t, true);
      const other = await site.open(t, true);
      const runs = newRuns();
      const reached = await reachAll(step, runs, agent.proc, other.proc);
      for (const [at, one] of reached.entries()) {
        if (one.child === undefined) await until(() => carriers(runs[at] as string).length > 0, 'the process');
        const pid = one.child?.pid ?? Math.min(...carriers(runs[at] as string));
        if (step.ends) assert.ok(!isAlive(pid));
        else process.kill(pid, 'SIGKILL');
        const outcomes = await settled(one);
        const child = one.child ?? (outcomes.spawn as { value: RemoteProcess }).value;
        const end = await child.wait();
        const killed = { code: -9, signal: 'SIGKILL', reason: 'signal' };
        if (step.ends) assert.deepEqual(end, { code: CODE, signal: '', reason: 'exited' });
        // The request for a signal may have arrived before the kill or after it.
        else if (outcomes.kill === undefined) assert.deepEqual(end, killed);
        else assert.deepEqual({ ...end, reason: 'signal' }, killed);
        for (const [name, outcome] of Object.entries(outcomes)) {
          assert.ok('value' in outcome, `${name}: ${JSON.stringify(outcome)}`);
          if (name === 'kill') assert.match(String(outcome.value), /^(?:stopped|crashed|running)$/);
          else if (name !== 'spawn') assert.deepEqual(outcome.value, end, name);
        }
        await until(() => inGroup(child.pid).length === 0, 'the end of its group');
        // Its output is complete, and each session can read it from any position.
        const found = await other.proc.find(child.id);
        const [whole, rest] = [new Reading(found), new Reading(found, one.next)];
        const exits: (ProcessExit | undefined)[] = [await whole.until(), await rest.until()];
        assert.deepEqual(exits, [end, end]);
        assert.equal(one.text + rest.text, whole.text);
        mustBeInOrder(whole.text);
        if (step.ends) assert.match(whole.text, new RegExp(`line ${LINES - 1}\r?\n$`));
        await assert.rejects(found.write('late'), { code: 'proc_dead' });
      }
      // A process that left its group ends with the session.
      await agent.close();
      await noneLeft(runs);
    });
  }
});

describe('the agent is killed', { skip, timeout: 600_000 }, () => {
  for (const [number, step] of STEPS.entries()) {
    test(`when ${step.name}`, async (t) => {
      const at = await procHost(t, { journal: memoryJournal() });
      const listener = await listenTcp({ port: 0 }, (link) => at.host.accept(link));
      t.after(() => listener.close());
      const runs = newRuns();
      const agentId = `agent-${number}`;
      const line = [process.execPath, '-C', 'handfast-source', CLIENT, listener.address, agentId, step.name, ...runs];
      const client = start(line as [string, ...string[]]);
      t.after(() => client.stop());
      const { sessions, told } = JSON.parse(await within(client.line(), 'the step', PATIENCE_MS)) as {
        sessions: string[];
        told: { id: string; text: string; next: number }[];
      };
      await client.stop();

      const agent = await connect(at.host, { capabilities: ['proc'], agentId });
      t.after(() => agent.close());
      const ids = (await agent.proc.list()).map(({ proc_id }) => proc_id);
      for (const { id, text, next } of told) {
        mustBeInOrder(text);
        if (id === '') continue;
        assert.ok(ids.includes(id));
        const child = await agent.proc.find(id);
        // It is unchanged: its input is open until it was ended.
        await child.write('two\n', { eof: true }).catch(({ code }: HandfastError) => assert.equal(code, 'proc_dead'));
        const [whole, rest] = [new Reading(child), new Reading(child, next, text)];
        const stays = step.ends ? undefined : 'stays';
        const exits = [await whole.until(stays), await rest.until(stays)];
        assert.deepEqual(exits[0], step.ends && { code: CODE, signal: '', reason: 'exited' });
        assert.equal(rest.text, whole.text);
        mustBeInOrder(whole.text);
        assert.match(whole.text, new RegExp(`line ${LINES - 1}\r?\n`));
      }
      // No link returned in time: the session ends, and its processes with it. The host does so when the window for a new link
      // is over; here the test decides when.
      const { find } = at.host as unknown as { find: (id: string) => Session | undefined };
      for (const id of sessions) find.call(at.host, id)?.close('session_expired', 'no link came back in time');
      await noneLeft(runs);
      await until(async () => (await agent.proc.list()).length === 0, 'the end of all that is known of them');
    });
  }
});
