/**
 * `npm run interop`: makes every call in both directions and writes the outcomes into `docs/interop.md`. Needs the A2E
 * Python SDK.
 */
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { interopPage, PAGE } from './interop-page.ts';
import { skip } from './python-sdk.ts';
import { everyCall } from './python-whole.ts';
import { everyCallOfOurs } from './sdk-host.ts';

if (skip !== false) throw new Error(skip);
const reports = { stdio: await everyCall('stdio'), http: await everyCall('http'), direct: await everyCall('direct') };
const outcomes = { stdio: await everyCallOfOurs('stdio'), http: await everyCallOfOurs('http') };
for (const { checks } of Object.values(reports)) {
  const failed = checks.filter(({ outcome }) => outcome !== 'ok');
  if (failed.length > 0) throw new Error(`the page is about calls that work: ${JSON.stringify(failed, null, 2)}`);
}
writeFileSync(fileURLToPath(new URL(`../../${PAGE}`, import.meta.url)), interopPage(reports, outcomes));
console.log(`wrote ${PAGE}`);
