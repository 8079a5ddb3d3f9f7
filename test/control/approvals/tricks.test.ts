/** Every row of the table of tricks ends as the table says, by rules and by remembered answers. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { loadConfig } from '../../../src/config/config.ts';
import { handfast } from '../../../src/config/handfast.generated.ts';
import { ApprovalBroker } from '../../../src/control/approvals/broker.ts';
import { CommandReader } from '../../../src/control/approvals/commands/command-reader.ts';
import { openSecondOpinion } from '../../../src/control/approvals/commands/second-opinion.ts';
import { compilePolicy } from '../../../src/control/approvals/policy-rules.ts';
import type { DirectoryRule } from '../../../src/control/approvals/remembered.ts';
import type { ApprovalRequest } from '../../../src/control/contract/approver.ts';
import { FakeSessionLog } from '../support/fake-session-log.ts';
import { REMEMBERED_TRICKS, TRICK_RULES, TRICKS, type TrickInput } from './tricks.ts';

const RISKS = ['exec', 'reads', 'writes', 'destructive', 'network'];
const inputOf = (call: TrickInput) => (typeof call === 'string' ? { command: call } : call);
const nameOf = (call: TrickInput): string => {
  const text = typeof call === 'string' ? JSON.stringify(call) : JSON.stringify(call);
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
};

const second = await openSecondOpinion();
assert.ok(second, 'the packages of the second parser are installed for development');
const readers = {
  'one parser': new CommandReader(),
  'two parsers': new CommandReader(() => Promise.resolve(second)),
};
await readers['two parsers'].ready();

let count = 0;
for (const [parsers, reader] of Object.entries(readers)) {
  const policy = compilePolicy(TRICK_RULES, { reader, maxSteps: 1_000_000 });
  for (const [group, tricks] of Object.entries(TRICKS)) {
    test(`${parsers}: ${group.toLowerCase()}`, () => {
      for (const { call, outcome, about } of tricks) {
        count++;
        const { decision } = policy.decide({
          tool: { name: 'shell', kind: '', input: inputOf(call) },
          risks: RISKS,
          session: { id: 's', owner: 'local', title: '', cwd: '/project', backend: 'model' },
          turn: { id: 't' },
        });
        assert.equal(decision, outcome, `${nameOf(call)}: ${about}`);
      }
    });
  }
}

test('the example rules of handfast init allow none of the tricks', async () => {
  const { approvals } = handfast.properties?.control?.properties ?? {};
  const example = (approvals?.properties?.rules?.example ?? []) as string[];
  const text = ['control:', '  approvals:', ...example.map((line) => `    ${line}`)];
  const folder = mkdtempSync(join(tmpdir(), 'handfast-init-'));
  const file = join(folder, 'handfast.yaml');
  writeFileSync(file, text.join('\n'));
  const { control } = await loadConfig(file);
  rmSync(folder, { recursive: true });
  const policy = compilePolicy(control.approvals.rules);
  const decide = (call: TrickInput) =>
    policy.decide({
      tool: { name: 'shell', kind: '', input: inputOf(call) },
      risks: RISKS,
      session: { id: 's', owner: 'local', title: '', cwd: '/project', backend: 'model' },
      turn: { id: 't' },
    }).decision;
  assert.deepEqual(['pwd', 'ls -l', 'pwd; ls -a'].map(decide), ['allow', 'allow', 'allow']);
  const tricks = [...Object.values(TRICKS).flat(), ...REMEMBERED_TRICKS].map(({ call }) => call);
  const more = ['pwd', 'ls', 'ls -l', 'ls -a'].flatMap((fine) => [
    ...[`${fine}; id`, `${fine}\nid`, `${fine} $(id)`, `${fine} \`id\``, `${fine} > x`, `${fine} | sh`, `A=b ${fine}`],
    ...[
      `./${fine}`,
      `${fine} ..`,
      `${fine} --color=x`,
      `${fine} *`,
      `${fine} ~`,
      `${fine} <x`,
      `sudo ${fine}`,
      `cd ..; ${fine}`,
    ],
  ]);
  assert.deepEqual(
    [...tricks, ...more].filter((call) => decide(call) === 'allow'),
    [],
  );
});

test('the table has at least sixty tricks', () => assert.ok(count / 2 >= 60));

const request = (call: TrickInput, id: string): ApprovalRequest => ({
  kind: 'tool',
  title: nameOf(call),
  tool: { name: 'shell', input: inputOf(call), call_id: id },
  risks: RISKS,
});

test('a yes for the folder covers what it says, and nothing that runs code of others', async () => {
  for (const { after, call, outcome, about } of REMEMBERED_TRICKS) {
    const kept: DirectoryRule[] = [];
    const directories = { get: () => kept, add: (_: string, __: string, rule: DirectoryRule) => void kept.push(rule) };
    const broker = new ApprovalBroker({ directories });
    for (const [index, earlier] of after.entries()) {
      const log = new FakeSessionLog({ id: `before-${index}` });
      const asked = broker.ask(log, 'turn-1', request(earlier, 'call'), new AbortController().signal);
      const [pending] = log.record.approvals;
      broker.answer(log, pending?.id ?? '', { decision: 'allow', remember: 'directory' }, 'local');
      assert.equal((await asked).state, 'allowed');
    }
    const turn = new AbortController();
    const asked = broker.ask(new FakeSessionLog({ id: 'after' }), 'turn-1', request(call, 'call'), turn.signal);
    turn.abort();
    const { state } = await asked;
    assert.equal(state, outcome === 'allow' ? 'allowed' : 'cancelled', `${nameOf(call)}: ${about}`);
  }
});
