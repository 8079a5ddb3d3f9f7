/**
 * The checks of `handfast doctor`, each of which reports its finding and never throws. Nothing is changed: files that a check
 * writes go into a folder that is removed again.
 */
import { existsSync, mkdtempSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { AgentSession } from '../../agent/agent.ts';
import { seesProcesses } from '../../base/children/process-table.ts';
import { WATCHER_SHELL } from '../../base/children/watcher.ts';
import type { FailingStore } from '../../base/failing-stores.ts';
import { handfastHome } from '../../base/handfast-home.ts';
import { isInside } from '../../base/is-inside.ts';
import { lossError, lossesBelow } from '../../base/sqlite/losses.ts';
import { builtinCapabilities } from '../../capabilities/index.ts';
import { formatProblem, type HostConfig } from '../../config/config.ts';
import { parseListenAddress } from '../../config/listen-address.ts';
import { tokenFromSources } from '../../config/local-token.ts';
import { cannotListen } from '../../server/listeners.ts';
import { dialable, findRunning, type RunningHost } from '../../server/running-hosts.ts';
import { DEFAULT_MAX_MESSAGE_BYTES } from '../../transport/link.ts';
import { CONFIG_FILE, configOf } from '../config-file.ts';
import { reachRunning, routeOf } from '../connect/find-host.ts';
import { failureOf } from '../failure.ts';
import { ENABLE_A_PROVIDER, enabledBy, modelLine } from '../model/model-text.ts';

export interface Check {
  readonly name: string;
  /** `off`: a capability that the configuration does not name. */
  readonly status: 'ok' | 'warn' | 'fail' | 'off';
  readonly message: string;
  /** Advice; of `ok` and `off`: the way to get a missing part. */
  readonly fix?: string;
  /** For `fail`: the name in the error table. */
  readonly code?: string;
}

/** Time for a host of this machine to answer. */
const ANSWER_MS = 3_000;

/** Runs all checks, in an order in which the first failure explains those after it. */
export async function* checks(configFile: string | undefined): AsyncGenerator<Check> {
  const home = handfastHome(process.env);
  yield { name: 'node', status: 'ok', message: `${process.version} at ${process.execPath}` };
  yield homeCheck(home);
  yield await tokenCheck(home);
  const { check, config } = await configCheck(configFile);
  yield check;
  const running = await findRunning(home);
  if (config !== undefined) {
    yield* portChecks(config, running);
    yield* capabilityChecks(config);
    yield await modelCheck(config);
  } else yield NOT_CHECKED;
  yield await sqliteCheck();
  yield* lossChecks(home, config);
  yield childrenCheck();
  yield* runningChecks(running, home);
  yield* storeChecks(running);
}

/** Checks that the stores of running hosts can store. */
async function* storeChecks(running: readonly RunningHost[]): AsyncGenerator<Check> {
  const name = 'stores';
  for (const { host_id, listeners } of running) {
    const address = listeners.find((each) => each.startsWith('http'));
    if (address === undefined) continue;
    let stores: readonly FailingStore[] = [];
    try {
      const response = await fetch(new URL('/readyz', dialable(address)), { signal: AbortSignal.timeout(ANSWER_MS) });
      ({ stores = [] } = (await response.json()) as { readonly stores?: readonly FailingStore[] });
    } catch {
      // The check of the host reports one that does not respond.
      continue;
    }
    if (stores.length === 0) yield { name, status: 'ok', message: `host ${host_id} can store` };
    for (const { code, message } of stores) {
      // The message has the remedy.
      yield { name, status: 'fail', message: `host ${host_id}: ${message}`, code };
    }
  }
}

/**
 * Stands for checks that depend on a configuration that cannot be used. Findings for the defaults would not be true: no host
 * starts with this configuration, and one that is mended may name others.
 */
const NOT_CHECKED: Check = {
  name: 'not checked',
  status: 'warn',
  message: 'addresses, capabilities and model: they depend on the configuration, which cannot be used',
  fix: 'see to "config" above, then run handfast doctor again',
};

/** Makes a check of a function that may throw. */
async function guarded(name: string, fix: string | undefined, look: () => Promise<Check>): Promise<Check> {
  try {
    return await look();
  } catch (thrown) {
    const { code, message } = failureOf(thrown);
    return { name, status: 'fail', message, code, ...(fix !== undefined && { fix }) };
  }
}

function homeCheck(home: string): Check {
  const name = 'home';
  if (!existsSync(home)) return { name, status: 'ok', message: `${home} is made by the first command that needs it` };
  const { mode, uid } = statSync(home);
  const others = mode & 0o077;
  if (process.platform !== 'win32' && uid !== process.geteuid?.() && process.geteuid?.() !== 0) {
    const fix = 'set HANDFAST_HOME to a folder of your own';
    return { name, status: 'fail', message: `${home} belongs to another user`, fix, code: 'config_invalid' };
  }
  if (process.platform !== 'win32' && others !== 0) {
    return { name, status: 'warn', message: `${home} is open to other users`, fix: `chmod 700 ${home}` };
  }
  return { name, status: 'ok', message: home };
}

function tokenCheck(home: string): Promise<Check> {
  return guarded('token', undefined, async () => {
    const found = await tokenFromSources({ env: process.env, home });
    const message =
      found === undefined
        ? 'none yet; the first "handfast up" makes one'
        : found.source === 'environment'
          ? 'from HANDFAST_TOKEN'
          : join(home, 'token');
    return { name: 'token', status: 'ok', message };
  });
}

async function configCheck(file: string | undefined): Promise<{ check: Check; config: HostConfig | undefined }> {
  let config: HostConfig | undefined;
  const check = await guarded('config', 'edit the file; handfast init writes one, --force in its place', async () => {
    config = await configOf(file);
    const [warning] = config.warnings;
    if (warning !== undefined) return { name: 'config', status: 'warn', message: formatProblem(warning) };
    return { name: 'config', status: 'ok', message: config.file ?? `no ${CONFIG_FILE} here: the defaults` };
  });
  // The message names the command that trusts the file; nothing has to be edited.
  const { fix: _edit, ...untrusted } = check;
  return { check: check.code === 'untrusted_folder' ? untrusted : check, config };
}

/** Checks that each address is free, or that a host of this user has it. */
async function* portChecks({ listen }: HostConfig, running: readonly RunningHost[]): AsyncGenerator<Check> {
  for (const address of listen) {
    const name = 'listen';
    const host = running.find(({ listeners }) => listeners.includes(address));
    if (host !== undefined) {
      yield { name, status: 'ok', message: `${address} is served by host ${host.host_id}, process ${host.pid}` };
      continue;
    }
    const parsed = parseListenAddress(address);
    if (parsed === undefined || parsed.kind === 'unix') {
      yield { name, status: 'ok', message: address };
      continue;
    }
    yield await guarded(name, 'choose another: handfast up --port N, or listen in the configuration', async () => {
      const { listenTcp } = await import('../../transport/socket.ts');
      const listener = await listenTcp(parsed, (link) => link.destroy()).catch((error) => {
        throw cannotListen(address, error);
      });
      await listener.close();
      return { name, status: 'ok', message: `${address} is free` };
    });
  }
}

/** Reports the health that each configured capability reports. */
async function* capabilityChecks({ plugins, workspace }: HostConfig): AsyncGenerator<Check> {
  const { capabilityOptions, loadCapabilities, shareOwnPackage } = await import('../../server/plugin-modules.ts');
  const release = shareOwnPackage();
  for (const plugin of plugins) {
    const findings: Check[] = [];
    const loaded = await guarded(plugin.use, 'install the package, or correct its entry in plugins:', async () => {
      const capabilities = await loadCapabilities(plugin);
      for (const capability of capabilities) {
        const found = (await capability.check?.(capabilityOptions(capability, plugin), { workspace })) ?? [];
        findings.push(...found.map((one) => ({ ...one, name: capability.name })));
      }
      const what = capabilities
        .map(({ name, about }) => (name === plugin.use ? about : `${name}: ${about}`))
        .join('; ');
      return { name: plugin.use, status: 'ok', message: what || 'a plugin without a declaration' };
    });
    if (findings.length === 0) yield loaded;
    yield* findings.map((finding) => ({ ...finding, ...(finding.status === 'fail' && { code: 'config_invalid' }) }));
  }
  const named = new Set(plugins.map(({ use }) => use));
  for (const { name, about } of builtinCapabilities) {
    if (named.has(name)) continue;
    yield { name, status: 'off', message: about, fix: `add ${name} to plugins: of ${CONFIG_FILE}` };
  }
  release();
}

/** Reports the model that sessions would use with the environment of this command, and the setting that decides it. */
function modelCheck({ control, providers, home }: HostConfig): Promise<Check> {
  const name = 'model';
  return guarded(name, 'correct the address, or the owner of the file', async () => {
    const { modelOverview } = await import('../../control/providers/overview.ts');
    const problems: string[] = [];
    const warn = (message: string, fields: object = {}): void =>
      void problems.push([message, ...Object.values(fields)].join(': '));
    const log = { debug() {}, info() {}, warn, error: warn };
    const found = await modelOverview({
      home: control.dataDir ?? home,
      env: process.env,
      config: providers,
      model: control.model,
      log,
    });
    const usable = found.providers.filter((provider) => provider.usable);
    const others = usable.map((provider) => `${provider.provider} by ${enabledBy(provider)}`).join(', ');
    const [problem] = problems;
    if (problem !== undefined) return { name, status: 'warn', message: problem };
    if (found.choice === null || !found.choice.usable || usable.length === 0) {
      const line = modelLine({ ...found, backend: 'model' }, {}) ?? '';
      return {
        name,
        status: 'warn',
        message: line.replace(/;.*/s, ''),
        fix: usable.length === 0 ? ENABLE_A_PROVIDER : 'handfast model use ID',
      };
    }
    return { name, status: 'ok', message: `${found.choice.provider}/${found.choice.model}; usable: ${others}` };
  });
}

function sqliteCheck(): Promise<Check> {
  return guarded('sqlite', 'store the journal in memory: journal: { kind: memory }', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'handfast-doctor-'));
    try {
      const { sqliteJournal } = await import('../../journal/sqlite/sqlite.ts');
      const journal = await sqliteJournal({ file: join(folder, 'journal.db') });
      await journal.append('doctor', [{ cursor: 1, ts: Date.now(), kind: 'request', request: '', body: '{}' }]);
      const { entries } = await journal.read('doctor', 0);
      await journal.close();
      if (entries.length !== 1) throw new Error('what was written could not be read back');
      return { name: 'sqlite', status: 'ok', message: 'a journal on disk can be written and read' };
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
}

/** Databases that lost writes, until their loss is acknowledged. */
function* lossChecks(home: string, config: HostConfig | undefined): Generator<Check> {
  const dataDir = config?.control.dataDir;
  const folders = dataDir === undefined || isInside(home, dataDir) ? [home] : [home, dataDir];
  for (const { loss, record } of folders.flatMap((folder) => lossesBelow(folder))) {
    const { file, found_at, moved_to } = loss;
    const where = moved_to === undefined ? file : `the damaged file is ${moved_to}`;
    yield {
      name: 'losses',
      status: 'warn',
      message: `${lossError(loss).message} (${where}, found ${found_at})`,
      fix: `check the disk, restore a copy if you have one, then: rm ${record}`,
    };
  }
}

/** Reports which guarantee holds for the programs that a host or worker starts, when it is killed. */
function childrenCheck(): Check {
  const name = 'children';
  const warn = (message: string, fix?: string): Check => ({ name, status: 'warn', message, ...(fix && { fix }) });
  if (!seesProcesses) {
    const fix = process.platform === 'linux' ? 'mount /proc' : undefined;
    return warn('may survive a killed host: this system does not show which processes run', fix);
  }
  if (!existsSync(WATCHER_SHELL)) {
    return warn(`survive a killed host until the next start: ${WATCHER_SHELL} is missing`, `install ${WATCHER_SHELL}`);
  }
  const escapes =
    process.platform === 'linux'
      ? 'clears its environment, leaves its session and loses its parent'
      : 'leaves its group and loses its parent';
  return { name, status: 'ok', message: `end with a killed host, but for one that ${escapes}` };
}

/** Checks that every registered host responds and accepts the token of this user. */
async function* runningChecks(running: readonly RunningHost[], home: string): AsyncGenerator<Check> {
  if (running.length === 0) {
    yield { name: 'host', status: 'ok', message: 'none is running; start one with: handfast up' };
  }
  for (const host of running) {
    const { pid, host_id, url } = host;
    const name = 'host';
    if (url === null) continue;
    yield await guarded(name, `end process ${pid} and start the host again`, async () => {
      const found = await reachRunning(host, { env: process.env, home });
      const { dial } = routeOf(found, { timeoutMs: ANSWER_MS, maxMessageBytes: DEFAULT_MAX_MESSAGE_BYTES });
      const options = {
        agentId: 'handfast-doctor',
        token: found.token,
        connectTimeoutMs: ANSWER_MS,
        resume: false,
      };
      await using agent = await AgentSession.open(dial, [], options);
      const { roundTripMs } = await agent.ping({ timeoutMs: ANSWER_MS });
      return {
        name,
        status: 'ok',
        message: `${host_id} at ${url}, process ${pid}, answers in ${roundTripMs.toFixed(1)} ms`,
      };
    });
  }
}
