/**
 * A process that stores entries in the memory of a folder and prints a line for each acknowledged request. The durability tests
 * start several of these, and kill them.
 *
 * Arguments: folder, name of the writer, requests, entries of a request, bytes of an entry.
 */
import { MemoryEngine } from '../../../src/capabilities/memory/engine/engine.ts';
import { MEMORY_DEFAULTS } from '../../../src/capabilities/memory/limits.ts';

const [folder = '', name = '', requests = '1', size = '1', bytes = '40'] = process.argv.slice(2);
const engine = new MemoryEngine({
  folder,
  quotaEntries: MEMORY_DEFAULTS.maxEntries,
  quotaBytes: MEMORY_DEFAULTS.maxBytes,
  maxEntryBytes: MEMORY_DEFAULTS.maxEntryBytes,
  historyVersions: 5,
  workingDays: 7,
});
const asker = { principal: 'ada', agent: 'writers', session: `session-${name}` };
const { memory } = await engine.run('init', asker, { agent: 'writers', namespace: 'shared', scope: {} });

const entry = (request: number, at: number) => ({
  key: { writer: name, request, at },
  content: `${name} ${request} ${at} ${'text '.repeat(Number(bytes) / 5)}`,
  tier: 'episodic' as const,
  tags: [`of-${name}`, `request-${name}-${request}`],
  source: name,
  score: 1,
  ttl: 0,
  createdAt: 0,
  updatedAt: 0,
  validFrom: undefined,
  validUntil: undefined,
  supersedes: [],
  metadata: undefined,
});

process.stdout.write('ready\n');
for (let request = 0; request < Number(requests); request += 1) {
  const entries = Array.from({ length: Number(size) }, (_, at) => entry(request, at));
  try {
    const { errors } = await engine.run('store', asker, { memory, entries, at: entries.map((_, at) => at) });
    if (errors.length > 0) throw new Error(errors[0]);
  } catch (thrown) {
    // A failure is reported on the other stream; stored entries can still be read.
    const { used } = await engine.run('stats', asker, { memory });
    process.stderr.write(`failed ${(thrown as { code?: string }).code ?? thrown}, readable ${used.entries}\n`);
    process.exitCode = 1;
    break;
  }
  process.stdout.write(`${request}\n`);
}
await engine.close();
