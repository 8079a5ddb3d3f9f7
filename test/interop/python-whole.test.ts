/**
 * Every public call of the client of the A2E Python SDK, with every parameter, against a host with all eleven
 * capabilities, over every transport of the SDK; and every call of this project's client against a host of the SDK. The
 * list of calls is read from the SDK and from the classes at each run: an added one that is not called here fails the
 * test. `docs/interop.md` must have their outcomes.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { before, describe, test } from 'node:test';
import { interopPage, PAGE } from './interop-page.ts';
import { checkout, skip } from './python-sdk.ts';
import { everyCall, notMade, type Report, TRANSPORTS, type Transport } from './python-whole.ts';
import { everyCallOfOurs } from './sdk-host.ts';
import { ADDITION, CALLS, DIFFERENCES, listCalls, type Outcome } from './sdk-host-calls.ts';

const reports: Partial<Record<Transport, Report>> = {};
const outcomes: Partial<Record<'stdio' | 'http', readonly Outcome[]>> = {};

for (const transport of TRANSPORTS) {
  describe(`every call of the Python SDK’s client over ${transport}`, { skip }, () => {
    let report: Report;
    before(async () => {
      report = await everyCall(transport);
      reports[transport] = report;
    });

    test('is made, with every parameter', () => {
      assert.ok(Object.keys(report.calls).length >= 100, 'the list has the calls of the SDK');
      assert.deepEqual(notMade(report, transport), []);
    });

    test('does what it should; one that cannot as it is does it once its fault in the SDK is mended', (t) => {
      const failed = report.checks.filter(({ outcome }) => outcome !== 'ok');
      assert.deepEqual(failed, []);
      t.diagnostic(
        `${report.checks.length} checks, ${report.checks.filter(({ fault }) => fault !== '').length} of them mended`,
      );
    });

    test('and with them every request is sent that the SDK has a model for', () => {
      const unsent = Object.keys(report.requests).filter((kind) => report.sent[kind] === undefined);
      assert.deepEqual(unsent, []);
    });

    test('by the call of the SDK that sends it, and by message only where there is none', () => {
      const byMessage = Object.entries(report.requests)
        .filter(([kind]) => report.sent[kind]?.every((call) => call === 'A2EClient.rpc' || /Transport/.test(call)))
        .map(([kind]) => kind);
      assert.ok(byMessage.length > 0 && byMessage.length < 20, byMessage.join(', '));
      assert.deepEqual(
        byMessage.filter((kind) => report.requests[kind]),
        [],
      );
    });
  });
}

for (const binding of ['stdio', 'http'] as const) {
  describe(`every call of this client against a host of the Python SDK over ${binding}`, { skip }, () => {
    let made: readonly Outcome[] = [];
    before(async () => {
      made = await everyCallOfOurs(binding);
      outcomes[binding] = made;
    });

    test('is made', async () => {
      assert.deepEqual(Object.keys(CALLS).sort(), (await listCalls()).sort());
      assert.equal(made.length, Object.keys(CALLS).length);
    });

    test('works, is an addition that its host refuses at once, or has a difference with its reason', () => {
      const expected = made.map(({ call, outcome }) => {
        const known = DIFFERENCES[call]?.outcome;
        return [call, known ?? (outcome === ADDITION ? ADDITION : 'ok')];
      });
      assert.deepEqual(
        made.map(({ call, outcome }) => [call, outcome]),
        expected,
        JSON.stringify(made.filter(({ outcome }) => outcome !== 'ok' && outcome !== ADDITION)),
      );
    });

    test('an addition is a message that the SDK has no model for', () => {
      const known = reports.stdio?.requests ?? {};
      const additions = made.filter(({ call, outcome }) => outcome === ADDITION && DIFFERENCES[call] === undefined);
      assert.ok(additions.length > 20);
      for (const { call, message } of additions) {
        const [, type] = /^Unknown type (\S+)$/.exec(message) ?? [];
        assert.ok(type !== undefined && !(type in known), `${call}: ${message}`);
      }
    });
  });
}

describe('the page on interoperability', { skip }, () => {
  test('says what these runs say; `npm run interop` writes it', (t) => {
    const page = readFileSync(PAGE, 'utf8');
    const [, commit = ''] = /at commit `([0-9a-f]{7,40})`/.exec(page) ?? [];
    const found = execFileSync('git', ['-C', checkout, 'rev-parse', 'HEAD'], {
      encoding: 'utf8',
    });
    if (!found.startsWith(commit)) return t.skip(`the page is about the SDK at commit ${commit}, and this is ${found}`);
    const [stdio, http, direct] = TRANSPORTS.map((transport) => reports[transport]);
    assert.ok(stdio && http && direct && outcomes.stdio && outcomes.http, 'all runs came to their end');
    const written = interopPage({ stdio, http, direct }, { stdio: outcomes.stdio, http: outcomes.http });
    const lines = written.split('\n');
    assert.deepEqual(
      page.split('\n').filter((line) => !lines.includes(line)),
      [],
      'these lines are no longer true; run npm run interop',
    );
    assert.ok(page === written, 'run npm run interop');
  });
});
