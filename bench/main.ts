/**
 * `npm run bench`: Handfast beside a bare JSON loop and beside its peers, on every transport.
 *
 *   npm run bench -- [--quick] [--json FILE] [--rounds N] [--workload NAME]… [--transport NAME]… [--contender NAME]…
 *                    [--before CHECKOUT]
 *
 * `--before` measures a second build in the same rounds: the Handfast of another checkout, with its packages installed.
 *
 * Builds first: Handfast is measured as compiled JavaScript, as every other package is.
 *
 * Compare the ratios, not the absolute figures: they depend on the machine and on its other work.
 */
import { writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { build } from './build.ts';
import { checkFilters, type Filters, plan } from './plan.ts';
import { buildsText, rowsOf, rowsText, targetsText, thisMachine } from './report.ts';
import { type RoundSettings, runHeats } from './rounds.ts';
import { judgeTargets } from './targets.ts';

const root = dirname(import.meta.dirname);

const MAX_ROUNDS = 99;

interface Options {
  readonly filters: Filters;
  readonly settings: RoundSettings;
  readonly jsonFile: string | undefined;
  /** Root of the checkout to compare with. */
  readonly before: string | undefined;
}

/** Returns the settings: three sittings of three rounds; `--quick` is one sitting of three short ones. */
function settingsOf(quick: boolean, rounds: string | undefined): RoundSettings {
  const wanted = rounds === undefined ? (quick ? 3 : 9) : Number(rounds);
  if (!Number.isInteger(wanted) || wanted < 1 || wanted > MAX_ROUNDS) {
    throw new Error(`--rounds must be 1 to ${MAX_ROUNDS}`);
  }
  const sittings = quick ? 1 : Math.min(3, wanted);
  return {
    // Every sitting holds the same number of rounds.
    rounds: Math.ceil(wanted / sittings) * sittings,
    sittings,
    freshRounds: quick ? 1 : 3,
    durationMs: quick ? 120 : 600,
    idleSessions: quick ? 2000 : 10_000,
  };
}

function options(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'string' },
      before: { type: 'string' },
      rounds: { type: 'string' },
      workload: { type: 'string', multiple: true, default: [] },
      transport: { type: 'string', multiple: true, default: [] },
      contender: { type: 'string', multiple: true, default: [] },
    },
  });
  const filters = { workloads: values.workload, transports: values.transport, contenders: values.contender };
  checkFilters(filters);
  const before = values.before === undefined ? undefined : resolve(values.before);
  for (const checkout of before === undefined ? [root] : [root, before]) build(checkout);
  return { filters, settings: settingsOf(values.quick, values.rounds), jsonFile: values.json, before };
}

async function bench({ filters, settings, jsonFile, before }: Options): Promise<void> {
  const machine = thisMachine();
  const started = performance.now();
  console.log(
    `${machine.cpu}, ${machine.cores} cores, ${machine.memory_gib} GiB, ${machine.system}, Node ${machine.node}; ` +
      `${settings.rounds} rounds of ${settings.durationMs} ms in ${settings.sittings} sitting(s)\n`,
  );
  const results = await runHeats(plan(filters, before), settings, (line) => process.stderr.write(`${line}\n`));
  const targets = judgeTargets(results);
  console.log(`${rowsText(results)}\n\n${targetsText(targets)}`);
  if (before !== undefined) console.log(`${buildsText(results)}\n`);
  console.log(`took ${Math.round((performance.now() - started) / 1000)} s`);
  if (jsonFile === undefined) return;
  const document = { machine, settings, rows: rowsOf(results), targets };
  await writeFile(jsonFile, `${JSON.stringify(document, null, 2)}\n`);
}

let asked: Options | undefined;
try {
  asked = options();
} catch (thrown) {
  console.error(thrown instanceof Error ? thrown.message : thrown);
  process.exitCode = 2;
}
if (asked !== undefined) await bench(asked);
