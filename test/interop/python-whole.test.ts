/**
 * Every public call of the client of the A2E Python SDK, with every parameter, against a host with all eleven capabilities, over every
 * transport of the SDK. What the calls are is read from the SDK at each run: one that is added there and not made here fails the test.
 */
import assert from 'node:assert/strict';
import { before, describe, test } from 'node:test';
import { skip } from './python-sdk.ts';
import { everyCall, notMade, type Report, TRANSPORTS } from './python-whole.ts';

for (const transport of TRANSPORTS) {
  describe(`every call of the Python SDK’s client over ${transport}`, { skip }, () => {
    let report: Report;
    before(async () => {
      report = await everyCall(transport);
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
