/** `handfast conformance`: runs the cases of a protocol against a target and reports them. */
import { writeFile } from 'node:fs/promises';
import { fileProblem } from '../../base/workspace/file-error.ts';
import { checkBind } from '../../config/listen-address.ts';
import { tokenFromSources } from '../../config/local-token.ts';
import { bindingOf } from '../../conformance/carriers.ts';
import type { Case, Level, Outcome } from '../../conformance/case.ts';
import { CHILD_START_MS } from '../../conformance/line-peer.ts';
import { junitText, type RunFacts, tapHead, tapLines, tapTail, totalsOf } from '../../conformance/report.ts';
import { type CaseRun, runCases, selected } from '../../conformance/run.ts';
import { splitCommand } from '../../transport/subprocess.ts';
import { fail } from '../../wire/errors.ts';
import { interruptible } from '../interrupt.ts';
import type { Terminal } from '../output/terminal.ts';
import { packageVersion } from '../package-info.ts';
import { readText } from '../read-text.ts';
import { jsonObject } from '../tool-arguments.ts';

/** Exit code of a run in which a case failed. */
const FAILED = 1;

/** Longest wait for one answer, in milliseconds. */
const DEFAULT_PATIENCE_MS = 5_000;
/** A case waits for several answers, one after the other, and starts up to two children. */
const ANSWERS_OF_A_CASE = 12;
const CHILDREN_OF_A_CASE = 2;

/** The flags of every protocol. */
export interface ConformanceFlags {
  readonly target?: string;
  readonly tokenFile?: string;
  readonly filter?: readonly string[];
  readonly level?: Lowercase<Level>;
  /** Milliseconds. */
  readonly timeout?: number;
  readonly list?: boolean;
  readonly junit?: string;
}

export interface A2eFlags extends ConformanceFlags {
  readonly tool?: string;
  readonly args?: string;
  readonly env?: string;
  readonly program?: string;
  readonly writes?: boolean;
}

/** Options that every protocol gets. */
interface Given {
  readonly address: string;
  readonly token: string;
  readonly patienceMs: number;
}

/** A run that may look at its target before the first case, and closes the connections that its cases shared. */
interface Prepared<C> extends CaseRun<C> {
  /** Fails where no case could run: the target is not there, or refuses the token. */
  first(): Promise<unknown>;
  close(): Promise<void>;
}

/** `handfast conformance a2e`. */
export async function conformanceA2e(flags: A2eFlags, terminal: Terminal): Promise<number> {
  const { a2eCases } = await import('../../conformance/a2e/cases.ts');
  return conformance('a2e', a2eCases, flags, terminal, async (given) => {
    const { A2eRun } = await import('../../conformance/a2e/context.ts');
    const { tool, args, env, program, writes = false } = flags;
    if (tool === undefined && args !== undefined) throw fail('usage', '--args belongs to --tool, which is missing');
    const named = tool !== undefined && { tool: { name: tool, arguments: await jsonObject(args ?? '{}', readText) } };
    const started = program !== undefined && { program: splitCommand(program) };
    return new A2eRun({ ...given, ...named, ...(env !== undefined && { env }), ...started, writes });
  });
}

/** `handfast conformance session-rpc`. */
export async function conformanceSessionRpc(flags: ConformanceFlags, terminal: Terminal): Promise<number> {
  const { leftOutOf, rpcCases } = await import('../../conformance/session-rpc/cases.ts');
  return conformance('session-rpc', rpcCases, flags, terminal, async (given) => {
    const { RpcRun } = await import('../../conformance/session-rpc/context.ts');
    if (bindingOf(given.address) === 'http')
      throw fail('usage', 'session RPC has no HTTP binding; use ws://host:port/path');
    return new RpcRun(given, leftOutOf);
  });
}

/** `handfast conformance fleet`. */
export async function conformanceFleet(
  { listen, ...flags }: ConformanceFlags & { readonly brief?: string; readonly listen?: string },
  terminal: Terminal,
): Promise<number> {
  if (listen !== undefined && flags.target !== undefined) throw fail('usage', 'pass either --target or --listen');
  const { fleetCases } = await import('../../conformance/fleet/cases.ts');
  const brief = flags.brief !== undefined && { brief: flags.brief };
  if (listen !== undefined && !flags.list) {
    const at = checkBind(listen, { hasToken: false, insecure: false });
    if (at.kind === 'http') throw fail('usage', 'expected tcp://host:port or unix:///path to listen at');
    const { DiallingTarget } = await import('../../conformance/dialling-target.ts');
    const dialling = await DiallingTarget.listen(at.kind === 'unix' ? at : { ...at, kind: 'tcp' });
    const { address } = dialling;
    terminal.note(`waiting for a worker at ${address}`);
    try {
      return await conformance('fleet', fleetCases, { ...flags, target: address }, terminal, async (given) => {
        const { FleetRun } = await import('../../conformance/fleet/context.ts');
        return new FleetRun({ ...given, dialling, ...brief });
      });
    } finally {
      await dialling.close();
    }
  }
  return conformance('fleet', fleetCases, flags, terminal, async (given) => {
    const { FleetRun } = await import('../../conformance/fleet/context.ts');
    if (bindingOf(given.address) === 'http')
      throw fail(
        'usage',
        'expected the stream link of an orchestrator (tcp://, unix://, ws://) or stdio:COMMAND of a worker',
      );
    return new FleetRun({ ...given, ...brief });
  });
}

/** Lists the cases, or runs them. Resolves with the exit code. */
async function conformance<C>(
  protocol: string,
  cases: readonly Case<C>[],
  flags: ConformanceFlags,
  terminal: Terminal,
  prepare: (given: Given) => Promise<Prepared<C>>,
): Promise<number> {
  const level = flags.level?.toUpperCase() as Level | undefined;
  const chosen = selected(cases, { ...(flags.filter && { filter: flags.filter }), ...(level && { level }) });
  if (chosen.length === 0) throw fail('usage', 'no case fits --filter and --level; --list shows all');
  if (flags.list) return listed(chosen, terminal);
  const { target: address, timeout: patienceMs = DEFAULT_PATIENCE_MS } = flags;
  if (address === undefined) throw fail('usage', 'name what to test with --target ADDRESS, or --list the cases');
  bindingOf(address);
  const found = await tokenFromSources({ flagFile: flags.tokenFile, env: process.env, home: undefined });
  const run = await prepare({ address, token: found?.token ?? '', patienceMs });
  const limitMs = patienceMs * ANSWERS_OF_A_CASE + CHILD_START_MS * CHILDREN_OF_A_CASE;
  const facts: RunFacts = { protocol, target: address, version: packageVersion() };
  return interruptible(async (signal) => {
    try {
      await run.first();
      const outcomes: Outcome[] = [];
      if (!terminal.json) terminal.raw(tapHead(facts, chosen.length));
      for await (const outcome of runCases(chosen, run, limitMs, signal)) {
        outcomes.push(outcome);
        if (!terminal.json) terminal.raw(tapLines(outcome, outcomes.length));
      }
      const totals = totalsOf(outcomes);
      if (terminal.json) terminal.document({ ...facts, ...totals, cases: outcomes });
      else terminal.raw(tapTail(totals));
      if (flags.junit !== undefined) await writeReport(flags.junit, junitText(outcomes, facts));
      signal.throwIfAborted();
      return totals.failed === 0 ? 0 : FAILED;
    } finally {
      await run.close();
    }
  });
}

function listed<C>(cases: readonly Case<C>[], terminal: Terminal): number {
  if (terminal.json) terminal.document(cases.map(({ id, level, section, title }) => ({ id, level, section, title })));
  else {
    terminal.page();
    terminal.table(
      ['ID', 'LEVEL', 'RULE'],
      cases.map(({ id, level, title }) => [id, level, title]),
    );
  }
  return 0;
}

async function writeReport(file: string, text: string): Promise<void> {
  await writeFile(file, text).catch((cause: NodeJS.ErrnoException) => {
    throw fail('usage', `cannot write ${file}: ${fileProblem(cause)}`, {}, cause);
  });
}
