/**
 * The approval broker: deciders, remembered answers, state after a restart, and that everything settles exactly once.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApprovalBroker } from '../../../src/control/approvals/broker.ts';
import type { PolicySubject } from '../../../src/control/approvals/policy.ts';
import { compilePolicy } from '../../../src/control/approvals/policy-rules.ts';
import type { DirectoryRule } from '../../../src/control/approvals/remembered.ts';
import type { ApprovalRequest } from '../../../src/control/contract/approver.ts';
import type { Approval, ApprovalAnswer } from '../../../src/protocol/session-types.ts';
import fc from '../../support/properties.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';

const shell = (command: string, callId = command): ApprovalRequest => ({
  kind: 'tool',
  title: `run ${command}`,
  tool: { name: 'shell', input: { command }, call_id: callId },
  risks: ['exec'],
});
const question: ApprovalRequest = { kind: 'question', title: 'which one?', risks: [], schema: { type: 'object' } };
const never = new AbortController().signal;
const allow = (remember: ApprovalAnswer['remember'] = 'once'): ApprovalAnswer => ({ decision: 'allow', remember });
const deny = (remember: ApprovalAnswer['remember'] = 'once'): ApprovalAnswer => ({ decision: 'deny', remember });

/** Returns the newest request of a session that waits. */
const waiting = (log: FakeSessionLog): Approval => {
  const found = log.record.approvals.findLast(({ state }) => state === 'pending');
  assert.ok(found, 'something waits');
  return found;
};

const memoryRules = () => {
  const kept = new Map<string, DirectoryRule[]>();
  return {
    kept,
    get: (owner: string, cwd: string) => kept.get(`${owner} ${cwd}`) ?? [],
    add: (owner: string, cwd: string, rule: DirectoryRule) =>
      void kept.set(`${owner} ${cwd}`, [...(kept.get(`${owner} ${cwd}`) ?? []), rule]),
  };
};

test('weakness 25: a call that can do harm waits for the user; one that only reads does not', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker({
    now: () => Date.parse('2026-01-01T00:00:00Z'),
    newId: () => 'a-1',
    timeoutMs: 60_000,
  });
  const read = { ...shell('x'), risks: ['reads'] };
  assert.equal((await broker.ask(log, 'turn-1', read, never)).state, 'allowed');
  assert.deepEqual(log.events, []);

  const asked = broker.ask(log, 'turn-1', shell('npm test', 'call-1'), never);
  assert.deepEqual(log.of('approval.requested'), [
    {
      approval: {
        id: 'a-1',
        session_id: 'session-1',
        turn_id: 'turn-1',
        kind: 'tool',
        title: 'run npm test',
        tool: { name: 'shell', input: { command: 'npm test' }, call_id: 'call-1' },
        covers: 'shell: this call, only now: npm runs code of others',
        risks: ['exec'],
        reason: 'this tool runs programs',
        created_at: '2026-01-01T00:00:00.000Z',
        expires_at: '2026-01-01T00:01:00.000Z',
        state: 'pending',
      },
    },
  ]);
  const { approval, accepted } = broker.answer(log, 'a-1', allow(), 'local (editor)');
  assert.equal(accepted, true);
  assert.equal(approval.state, 'allowed');
  assert.equal(approval.answered_by, 'local (editor)');
  assert.deepEqual(await asked, approval);
  assert.deepEqual(log.of('approval.resolved'), [{ approval }]);
});

test('between two decisions of slow rules the event loop has a turn, however many calls come at once', async () => {
  const log = new FakeSessionLog();
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const decidedIn: number[] = [];
  const when = 'tool.input.command.matches("^(a+)+$")';
  const rules = compilePolicy(JSON.parse(JSON.stringify([{ when }]).replace('}]', ',"then":"deny"}]')));
  const policy = {
    ...rules,
    decide(subject: PolicySubject) {
      decidedIn.push(turns);
      return rules.decide(subject);
    },
  };
  const broker = new ApprovalBroker({ policy });
  const calls = Array.from({ length: 20 }, (_, at) => broker.ask(log, 'turn-1', shell('aaa', `call-${at}`), never));
  const decided = await Promise.all(calls);
  isOver = true;
  assert.deepEqual(new Set(decided.map(({ state }) => state)), new Set(['denied']));
  assert.equal(new Set(decidedIn).size, 20, decidedIn.join());
});

test('what the policy denies is not asked, but seen', async () => {
  const log = new FakeSessionLog();
  const rules = JSON.parse('[{"when":"tool.kind == \'db\'","then":"deny","reason":"not here"}]');
  const broker = new ApprovalBroker({ policy: compilePolicy(rules) });
  const denied = await broker.ask(log, 'turn-1', { ...shell('x'), toolKind: 'db' }, never);
  assert.deepEqual([denied.state, denied.reason, denied.answered_by], ['denied', 'not here', 'policy']);
  assert.deepEqual(log.of('approval.resolved'), [{ approval: denied }]);
  assert.deepEqual(log.of('approval.requested'), []);
});

test('the setting of a session answers what would be asked, but never what the policy denies', async () => {
  const broker = new ApprovalBroker({ defaultMode: 'deny' });
  assert.equal((await broker.ask(new FakeSessionLog(), 'turn-1', shell('x'), never)).state, 'denied');
  const free = new FakeSessionLog({ settings: { approvals: 'allow' } });
  assert.equal((await broker.ask(free, 'turn-1', shell('x'), never)).state, 'allowed');
  assert.deepEqual(free.events, []);
  const strict = new ApprovalBroker({ policy: compilePolicy(JSON.parse('[{"when":"true","then":"deny"}]')) });
  assert.equal((await strict.ask(free, 'turn-1', shell('x'), never)).state, 'denied');
});

test('a question is put to the user even where nothing is asked, and denied where everything is', async () => {
  const broker = new ApprovalBroker();
  const free = new FakeSessionLog({ settings: { approvals: 'allow' } });
  const asked = broker.ask(free, 'turn-1', question, never);
  const content = { which: 'this' };
  broker.answer(free, waiting(free).id, { decision: 'allow', remember: 'directory', content }, 'local');
  assert.deepEqual((await asked).answer, { decision: 'allow', remember: 'once', content });
  const closed = new FakeSessionLog({ settings: { approvals: 'deny' } });
  assert.equal((await broker.ask(closed, 'turn-1', question, never)).state, 'denied');
});

test('the first answer wins; a later one receives what it was, an unknown one fails', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const asked = broker.ask(log, 'turn-1', shell('x'), never);
  const { id } = waiting(log);
  broker.answer(log, id, deny(), 'one');
  const late = broker.answer(log, id, allow(), 'two');
  assert.deepEqual([late.accepted, late.approval.state, late.approval.answered_by], [false, 'denied', 'one']);
  assert.equal((await asked).state, 'denied');
  log.record.approvals = [];
  assert.equal(broker.answer(log, id, allow(), 'two').accepted, false, 'also when the record has forgotten it');
  assert.throws(() => broker.answer(log, 'unheard-of', allow(), 'two'), { code: 'not_found' });
  const other = new FakeSessionLog({ id: 'session-2', owner: 'somebody' });
  assert.throws(() => broker.answer(other, id, allow(), 'two'), { code: 'not_found' });
});

test('a session cannot answer what another one asks', () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  void broker.ask(log, 'turn-1', shell('x'), never);
  const other = new FakeSessionLog({ id: 'session-2' });
  assert.throws(() => broker.answer(other, waiting(log).id, allow(), 'two'), { code: 'not_found' });
  assert.equal(waiting(log).state, 'pending');
});

test('asking again for the same call waits for the first request, and is given its answer afterwards', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const first = broker.ask(log, 'turn-1', shell('x', 'call-1'), never);
  const second = broker.ask(log, 'turn-1', shell('x', 'call-1'), never);
  const third = broker.ask(log, 'turn-1', shell('x', 'call-2'), never);
  assert.equal(log.of('approval.requested').length, 2);
  const { id } = log.of('approval.requested')[0]!.approval;
  const { approval } = broker.answer(log, id, allow(), 'local');
  assert.deepEqual(await Promise.all([first, second]), [approval, approval]);
  assert.deepEqual(await broker.ask(log, 'turn-1', shell('x', 'call-1'), never), approval);
  broker.answer(log, waiting(log).id, deny(), 'local');
  assert.equal((await third).state, 'denied');
});

test('a request without an answer in time expires, once, as a denial', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker({ timeoutMs: 20 });
  const expired = await broker.ask(log, 'turn-1', shell('x'), never);
  assert.deepEqual([expired.state, expired.answer], ['expired', undefined]);
  assert.deepEqual(log.of('approval.resolved'), [{ approval: expired }]);
  assert.equal(broker.answer(log, expired.id, allow(), 'local').accepted, false);
});

test('each request has its own time, with one timer for all', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker({ timeoutMs: 60_000 });
  const order: string[] = [];
  const ask = async (command: string, timeoutMs?: number) => {
    const { state } = await broker.ask(log, 'turn-1', { ...shell(command), timeoutMs }, never);
    order.push(`${command} ${state}`);
  };
  const long = ask('long');
  await Promise.all([ask('b', 40), ask('a', 10)]);
  assert.deepEqual(order, ['a expired', 'b expired']);
  broker.answer(log, waiting(log).id, allow(), 'local');
  await long;
});

test('a turn that ends takes its question back', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const turn = new AbortController();
  const asked = broker.ask(log, 'turn-1', shell('x'), turn.signal);
  turn.abort();
  assert.equal((await asked).state, 'cancelled');
  assert.equal(log.of('approval.resolved')[0]?.approval.state, 'cancelled');
  assert.equal((await broker.ask(log, 'turn-1', shell('y'), turn.signal)).state, 'cancelled', 'too late to ask');
  assert.equal(log.of('approval.requested').length, 1);
});

test('who gives up waiting does not take the question from others who wait for it', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const impatient = new AbortController();
  const one = broker.ask(log, 'turn-1', shell('x'), impatient.signal);
  const other = broker.ask(log, 'turn-1', shell('x'), never);
  impatient.abort();
  assert.equal((await one).state, 'cancelled');
  broker.answer(log, waiting(log).id, allow(), 'local');
  assert.equal((await other).state, 'allowed');
});

test('an answer for the session holds for what it covers, for nothing else, and not in other sessions', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const asked = broker.ask(log, 'turn-1', shell('git status'), never);
  broker.answer(log, waiting(log).id, allow('session'), 'local');
  await asked;
  const covered = await broker.ask(log, 'turn-2', shell('git status src'), never);
  assert.deepEqual([covered.state, covered.answered_by], ['allowed', 'remembered']);
  assert.equal(log.of('approval.requested').length, 1);
  void broker.ask(log, 'turn-2', shell('git status; rm x'), never);
  assert.equal(log.of('approval.requested').length, 2);
  const other = new FakeSessionLog({ id: 'session-2' });
  void broker.ask(other, 'turn-1', shell('git status'), never);
  assert.equal(other.of('approval.requested').length, 1);
});

test('a yes that does not last is answered for once, and the answer says so; a no lasts', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  void broker.ask(log, 'turn-1', shell('npm test'), never);
  const { approval } = broker.answer(log, waiting(log).id, allow('directory'), 'local');
  assert.deepEqual([approval.state, approval.answer], ['allowed', allow('once')]);
  void broker.ask(log, 'turn-2', shell('npm test'), never);
  assert.deepEqual(broker.answer(log, waiting(log).id, deny('session'), 'local').approval.answer, deny('session'));
  assert.equal((await broker.ask(log, 'turn-3', shell('npm test'), never)).answered_by, 'remembered');
});

test('the setting of a session beats a remembered yes, and a remembered no beats it', async () => {
  const directories = memoryRules();
  const broker = new ApprovalBroker({ directories });
  const first = new FakeSessionLog();
  void broker.ask(first, 'turn-1', shell('git status'), never);
  broker.answer(first, waiting(first).id, allow('directory'), 'local');
  void broker.ask(first, 'turn-1', shell('git log'), never);
  broker.answer(first, waiting(first).id, deny('directory'), 'local');
  const closed = new FakeSessionLog({ id: 'session-2', settings: { approvals: 'deny' } });
  const denied = await broker.ask(closed, 'turn-1', shell('git status'), never);
  assert.deepEqual([denied.state, denied.answered_by], ['denied', 'settings']);
  const open = new FakeSessionLog({ id: 'session-3', settings: { approvals: 'allow' } });
  assert.equal((await broker.ask(open, 'turn-1', shell('git log'), never)).answered_by, 'remembered');
});

test('where nothing is asked, what a rule may forbid is denied', async () => {
  const policy = compilePolicy(JSON.parse('[{"command":["rm"],"then":"deny"}]'));
  const broker = new ApprovalBroker({ policy });
  const open = new FakeSessionLog({ settings: { approvals: 'allow' } });
  const hidden = await broker.ask(open, 'turn-1', shell('$(echo rm) x'), never);
  assert.deepEqual([hidden.state, hidden.answered_by], ['denied', 'policy']);
  assert.equal((await broker.ask(open, 'turn-1', shell('npm test'), never)).state, 'allowed');
});

test('a denial is remembered too', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  void broker.ask(log, 'turn-1', shell('git push'), never);
  broker.answer(log, waiting(log).id, deny('session'), 'local');
  assert.equal((await broker.ask(log, 'turn-2', shell('git push'), never)).state, 'denied');
});

test('an answer for the directory holds for every session of its owner there, and is kept', async () => {
  const directories = memoryRules();
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker({ directories });
  void broker.ask(log, 'turn-1', shell('git status'), never);
  broker.answer(log, waiting(log).id, allow('directory'), 'local (editor)');
  const [kept] = directories.get('local', '/project');
  assert.deepEqual([kept?.words, kept?.decision, kept?.by], ['shell: git status …', 'allow', 'local (editor)']);

  const later = new ApprovalBroker({ directories });
  const state = async (given: ConstructorParameters<typeof FakeSessionLog>[0]) => {
    const session = new FakeSessionLog(given);
    const turn = new AbortController();
    const asked = later.ask(session, 'turn-1', shell('git status'), turn.signal);
    turn.abort();
    return (await asked).state;
  };
  assert.equal(await state({ id: 'session-2' }), 'allowed');
  assert.equal(await state({ id: 'session-3', cwd: '/elsewhere' }), 'cancelled');
  assert.equal(await state({ id: 'session-4', owner: 'somebody' }), 'cancelled');
});

test('an answer that is remembered settles the other requests it covers', async () => {
  const broker = new ApprovalBroker();
  const log = new FakeSessionLog();
  const near = new FakeSessionLog({ id: 'session-2' });
  const foreign = new FakeSessionLog({ id: 'session-3', owner: 'somebody' });
  const first = broker.ask(log, 'turn-1', shell('git status'), never);
  const covered = broker.ask(log, 'turn-1', shell('git status b'), never);
  const neighbour = broker.ask(near, 'turn-1', shell('git status'), never);
  void broker.ask(log, 'turn-1', shell('npm publish'), never);
  void broker.ask(foreign, 'turn-1', shell('git status'), never);
  broker.answer(log, log.of('approval.requested')[0]!.approval.id, allow('session'), 'local');
  assert.deepEqual([(await first).state, (await covered).state], ['allowed', 'allowed']);
  assert.equal(waiting(near).state, 'pending', 'an answer for the session is none for its neighbour');
  assert.equal(waiting(log).tool?.input.command, 'npm publish');
  void broker.ask(log, 'turn-1', { ...shell('git log') }, never);
  void broker.ask(near, 'turn-1', { ...shell('git log') }, never);
  broker.answer(log, waiting(log).id, allow('directory'), 'local');
  assert.equal(near.of('approval.resolved').length, 1);
  broker.answer(near, waiting(near).id, deny(), 'local');
  assert.equal((await neighbour).state, 'denied');
  assert.equal(waiting(foreign).state, 'pending');
});

test('after a restart a request waits on with the time it has left, and the turn that asks again gets its answer', async () => {
  const log = new FakeSessionLog();
  const startedAt = Date.now();
  void new ApprovalBroker({ timeoutMs: 60_000, now: () => startedAt }).ask(log, 'turn-1', shell('x', 'call-1'), never);
  const again = log.reopened();
  const broker = new ApprovalBroker();
  broker.restore(again);
  assert.deepEqual(again.events, []);
  assert.equal([...broker.waiting()].length, 1);
  const asked = broker.ask(again, 'turn-1', shell('x', 'call-1'), never);
  assert.deepEqual(again.events, [], 'not asked a second time');
  assert.equal(broker.answer(again, waiting(again).id, allow(), 'local').accepted, true);
  assert.equal((await asked).state, 'allowed');
});

test('after a restart an answer that came before the turn continued is not lost', async () => {
  const log = new FakeSessionLog();
  void new ApprovalBroker().ask(log, 'turn-1', shell('x', 'call-1'), never);
  const again = log.reopened();
  const broker = new ApprovalBroker();
  broker.restore(again);
  broker.answer(again, waiting(again).id, allow(), 'local');
  assert.equal((await broker.ask(again, 'turn-1', shell('x', 'call-1'), never)).state, 'allowed');
  assert.equal(again.of('approval.requested').length, 0);
});

test('after a restart what expired meanwhile expires, and what belongs to a turn that is over is cancelled', async () => {
  const log = new FakeSessionLog();
  const before = new ApprovalBroker({ timeoutMs: 1000, now: () => Date.now() - 5000 });
  void before.ask(log, 'turn-1', shell('x'), never);
  void before.ask(log, 'turn-0', shell('y'), never);
  const again = log.reopened();
  const settled = Promise.withResolvers<void>();
  again.onEvent = () => again.of('approval.resolved').length === 2 && settled.resolve();
  new ApprovalBroker().restore(again);
  await settled.promise;
  assert.deepEqual(
    again.of('approval.resolved').map(({ approval }) => `${approval.turn_id} ${approval.state}`),
    ['turn-0 cancelled', 'turn-1 expired'],
  );
});

test('after a restart a session still remembers its answers', async () => {
  const log = new FakeSessionLog();
  const before = new ApprovalBroker();
  void before.ask(log, 'turn-1', shell('git status'), never);
  before.answer(log, waiting(log).id, allow('session'), 'local');
  const again = log.reopened();
  const broker = new ApprovalBroker();
  broker.restore(again);
  assert.equal((await broker.ask(again, 'turn-2', shell('git status'), never)).state, 'allowed');
});

test('a request waits on when its session is opened again in the same process', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const asked = broker.ask(log, 'turn-1', shell('x'), never);
  const again = log.reopened();
  broker.restore(again);
  assert.equal(broker.answer(again, waiting(again).id, allow(), 'local').accepted, true);
  assert.equal((await asked).state, 'allowed');
  assert.equal(again.of('approval.resolved').length, 1);
  assert.equal(log.of('approval.resolved').length, 0);
});

test('a question that a restart left waiting is found again by the turn that asks it again', async () => {
  const log = new FakeSessionLog();
  void new ApprovalBroker().ask(log, 'turn-1', question, never);
  const again = log.reopened();
  const broker = new ApprovalBroker();
  broker.restore(again);
  const first = broker.ask(again, 'turn-1', question, never);
  void broker.ask(again, 'turn-1', question, never);
  assert.equal(again.of('approval.requested').length, 1, 'the same question asked twice at once is two questions');
  const restored = again.record.approvals[0]!;
  broker.answer(again, restored.id, allow(), 'local');
  assert.equal((await first).id, restored.id);
});

test('closing the broker ends every wait and leaves the requests in their sessions', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker({ timeoutMs: 5 });
  const asked = broker.ask(log, 'turn-1', shell('x'), never);
  broker.close();
  assert.equal((await asked).state, 'cancelled');
  assert.deepEqual(log.of('approval.resolved'), []);
  assert.equal(waiting(log).state, 'pending');
});

test('a removed session can neither ask nor hold up others that ask', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  const asked = broker.ask(log, 'turn-1', shell('x'), never);
  log.deleted = true;
  broker.answer(log, waiting(log).id, allow(), 'local');
  assert.equal((await asked).state, 'allowed');
  assert.equal((await broker.ask(log, 'turn-1', shell('y'), never)).state, 'cancelled');
  assert.deepEqual([...broker.waiting()], []);
});

test('a session that asks without end is denied past its limit', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker({ maxPending: 2 });
  void broker.ask(log, 'turn-1', shell('a'), never);
  void broker.ask(log, 'turn-1', question, never);
  const denied = await broker.ask(log, 'turn-1', shell('c'), never);
  assert.deepEqual([denied.state, denied.answered_by], ['denied', 'limit']);
  assert.equal((await broker.ask(log, 'turn-1', { ...question, title: 'and?' }, never)).state, 'denied');
  const other = new FakeSessionLog({ id: 'session-2' });
  void broker.ask(other, 'turn-1', shell('a'), never);
  assert.equal(other.of('approval.requested').length, 1);
});

test('a listener that is notified of a request may answer it at once', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  log.onEvent = ({ type }) => {
    if (type === 'approval.requested') broker.answer(log, waiting(log).id, allow('session'), 'quick');
  };
  assert.equal((await broker.ask(log, 'turn-1', shell('x'), never)).answered_by, 'quick');
});

/** One step of a run: an action of a client or session on the broker. */
const step = fc.oneof(
  fc.record({
    do: fc.constant('ask' as const),
    command: fc.constantFrom('git status', 'git status b', 'rm a', 'npm test'),
    session: fc.nat(1),
  }),
  fc.record({ do: fc.constant('again' as const), which: fc.nat(20) }),
  fc.record({
    do: fc.constant('answer' as const),
    which: fc.nat(20),
    decision: fc.constantFrom('allow' as const, 'deny' as const),
    remember: fc.constantFrom('once' as const, 'session' as const, 'directory' as const),
    by: fc.constantFrom('one', 'two'),
  }),
  fc.record({ do: fc.constant('abort' as const), which: fc.nat(20) }),
  fc.record({ do: fc.constant('restore' as const), session: fc.nat(1) }),
);

test('under any interleaving every request resolves exactly once, every wait ends, and the first answer wins', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const logs = [new FakeSessionLog({ id: 's0' }), new FakeSessionLog({ id: 's1' })] as const;
      const broker = new ApprovalBroker({ directories: memoryRules() });
      const asks: { log: FakeSessionLog; turn: AbortController; call: ApprovalRequest; end: Promise<Approval> }[] = [];
      /** By approval: the outcome of the one answer that was accepted. */
      const accepted = new Map<string, string>();
      const requested = () =>
        logs.flatMap((log) => log.of('approval.requested').map(({ approval }) => ({ log, id: approval.id })));
      const ask = (log: FakeSessionLog, call: ApprovalRequest) => {
        const turn = new AbortController();
        asks.push({ log, turn, call, end: broker.ask(log, 'turn-1', call, turn.signal) });
      };
      for (const one of steps) {
        if (one.do === 'ask') ask(logs[one.session]!, shell(one.command, `call-${asks.length}`));
        else if (one.do === 'restore') broker.restore(logs[one.session]!);
        else if (one.do === 'answer') {
          const target = requested().at(one.which);
          if (target === undefined) continue;
          const { decision, remember, by } = one;
          const before = target.log.record.approvals.find(({ id }) => id === target.id)!;
          const { approval, accepted: taken } = broker.answer(target.log, target.id, { decision, remember }, by);
          assert.equal(taken, before.state === 'pending');
          if (taken) accepted.set(target.id, `${decision} ${by}`);
          else assert.deepEqual(approval, before);
        } else {
          const earlier = asks.at(one.which);
          if (earlier === undefined) continue;
          if (one.do === 'abort') earlier.turn.abort();
          else ask(earlier.log, earlier.call);
        }
      }
      for (const { turn } of asks) turn.abort();
      const ends = await Promise.all(asks.map(({ end }) => end));
      assert.ok(ends.every(({ state }) => state !== 'pending'));
      assert.deepEqual([...broker.waiting()], []);
      for (const log of logs) {
        const resolved = log.of('approval.resolved').map(({ approval }) => approval);
        for (const { approval } of log.of('approval.requested')) {
          const mine = resolved.filter(({ id }) => id === approval.id);
          assert.equal(mine.length, 1);
          const won = accepted.get(approval.id);
          if (won !== undefined) assert.equal(`${mine[0]?.answer?.decision} ${mine[0]?.answered_by}`, won);
        }
      }
    }),
    { numRuns: 300 },
  );
});

test('the caller says whether a call is possible before a person is asked; calls that the policy decides need no answer', async () => {
  const log = new FakeSessionLog();
  const broker = new ApprovalBroker();
  let looked = 0;
  const request = (possible: boolean, more: Partial<ApprovalRequest> = {}): ApprovalRequest => ({
    ...shell('make', `call-${looked}`),
    possible: async () => {
      looked += 1;
      return possible;
    },
    ...more,
  });
  assert.equal((await broker.ask(log, 'turn-1', request(false, { risks: ['reads'] }), never)).state, 'allowed');
  assert.equal(looked, 0);
  assert.equal((await broker.ask(log, 'turn-1', request(false), never)).state, 'cancelled');
  assert.equal(looked, 1);
  assert.deepEqual(log.events, []);
  const asked = broker.ask(log, 'turn-1', request(true), never);
  await new Promise((resolve) => setImmediate(resolve));
  broker.answer(log, waiting(log).id, allow('session'), 'local');
  assert.equal((await asked).state, 'allowed');
});
