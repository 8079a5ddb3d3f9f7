/**
 * Clients that only know status labels: the labels of a turn that waits for the user.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ApprovalBroker } from '../../../src/control/approvals/broker.ts';
import type { ApprovalRequest } from '../../../src/control/contract/approver.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';

const shell = (command: string): ApprovalRequest => ({
  kind: 'tool',
  title: `shell: ${command}`,
  tool: { name: 'shell', input: { command }, call_id: command },
  risks: ['exec'],
});
const never = new AbortController().signal;
const ids = (...given: string[]) => ({ newId: () => given.shift() as string });
const labels = (log: FakeSessionLog) => log.of('session.status').map(({ status_label }) => status_label);

test('the label says what is waited for and what answers it; after the decision the earlier one returns', async () => {
  const log = new FakeSessionLog({ statusLabel: 'drafting response...' });
  const broker = new ApprovalBroker(ids('11111111-aaaa'));
  const asked = broker.ask(log, 'turn-1', shell('npm test'), never);
  await new Promise(setImmediate);
  assert.deepEqual(log.events.at(-1), {
    type: 'session.status',
    turnId: 'turn-1',
    payload: {
      pending: true,
      status_label: 'waiting for approval: shell: npm test (handfast approve yes|no 11111111)',
      detail: { waiting_for: 'approval', approval_id: '11111111-aaaa' },
    },
  });
  broker.answer(log, '11111111-aaaa', { decision: 'allow', remember: 'once' }, 'local');
  await asked;
  assert.deepEqual(log.events.at(-1)?.payload, { pending: true, status_label: 'drafting response...' });
});

test('of several requests one is shown at a time, and each until it is settled', async () => {
  const log = new FakeSessionLog({ statusLabel: 'thinking...' });
  const broker = new ApprovalBroker(ids('aaaaaaaa', 'bbbbbbbb', 'cccccccc'));
  const asked = ['one', 'two'].map((command) => broker.ask(log, 'turn-1', shell(command), never));
  asked.push(broker.ask(log, 'turn-1', { kind: 'question', title: 'which\none?', risks: [] }, never));
  await new Promise(setImmediate);
  for (const id of ['aaaaaaaa', 'cccccccc', 'bbbbbbbb']) {
    broker.answer(log, id, { decision: 'deny', remember: 'once' }, 'local');
  }
  await Promise.all(asked);
  const two = 'waiting for approval: shell: two (handfast approve yes|no bbbbbbbb)';
  assert.deepEqual(labels(log), [
    'waiting for approval: shell: one (handfast approve yes|no aaaaaaaa)',
    two,
    'waiting for an answer: which one? (handfast approve yes|no cccccccc)',
    two,
    'thinking...',
  ]);
});

test('a label that has followed stays: an interrupted turn is not shown as running again', async () => {
  const log = new FakeSessionLog({ statusLabel: 'thinking...' });
  const broker = new ApprovalBroker(ids('aaaaaaaa'));
  const leaving = new AbortController();
  const asked = broker.ask(log, 'turn-1', shell('sleep'), leaving.signal);
  await new Promise(setImmediate);
  log.emit('session.status', { pending: true, status_label: 'interrupting...' });
  leaving.abort();
  await asked;
  assert.equal(labels(log).at(-1), 'interrupting...');
});

test('after a restart the answer is followed by a label that does not wait', async () => {
  const before = new FakeSessionLog({ statusLabel: 'drafting response...' });
  void new ApprovalBroker(ids('aaaaaaaa')).ask(before, 'turn-1', shell('x'), never);
  await new Promise(setImmediate);
  const log = before.reopened();
  const broker = new ApprovalBroker();
  broker.restore(log);
  const asked = broker.ask(log, 'turn-1', shell('x'), never);
  broker.answer(log, 'aaaaaaaa', { decision: 'allow', remember: 'once' }, 'local');
  assert.equal((await asked).state, 'allowed');
  assert.deepEqual(labels(log), ['thinking...']);
});

test('a long title is cut and has no line breaks: clients have one line for a label', async () => {
  const log = new FakeSessionLog();
  void new ApprovalBroker(ids('aaaaaaaa')).ask(log, 'turn-1', shell(`${'x'.repeat(200)}\n\u001b[2J`), never);
  await new Promise(setImmediate);
  const [label = ''] = labels(log);
  assert.match(label, /^waiting for approval: shell: x{64}… \(handfast approve yes\|no aaaaaaaa\)$/);
});
