/**
 * Loads `fleet.yaml`, or the file of a single worker: one file in, absolute paths and checked values out, or every
 * problem at once with file, line and column.
 *
 * Secrets are not read here: each is read at its use.
 */
import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { handfastHome } from '../base/handfast-home.ts';
import { fail } from '../wire/errors.ts';
import type { ConfigTrust } from './config.ts';
import { checkEnvironment, checkExecutor, checkOverhead } from './executor-settings.ts';
import { fleet } from './fleet.generated.ts';
import type { FleetSettings } from './fleet.schema.ts';
import { parseListenAddress } from './listen-address.ts';
import { checkAccounts, checkNats, hasSecret, NO_SECRETS } from './nats-settings.ts';
import { type ConfigProblem, type OpenedConfig, openConfig, whatIs } from './open-config.ts';
import { nodeOf, type Reading, readSetting } from './reader.ts';
import { camel, type SettingSchema } from './setting.ts';
import type { NatsConnectionSettings, WorkerFileSettings, WorkerSettings } from './worker.schema.ts';

/** The name a worker gives to the holder of its receiver's one token. */
export const SENDER = 'sender';

export interface WorkerConfig extends Omit<WorkerSettings, 'repo' | 'dataDir'> {
  /** Real path. */
  readonly repo: string;
  readonly dataDir: string;
}

export interface FleetConfig extends Omit<FleetSettings, 'workers' | 'dataDir' | 'bus'> {
  readonly file: string | undefined;
  readonly home: string;
  readonly dataDir: string;
  /** Addresses of NATS servers; empty: in-process. */
  readonly natsServers: readonly string[];
  readonly workers: readonly WorkerConfig[];
  readonly warnings: readonly ConfigProblem[];
  /** As in `HostConfig`. */
  readonly trust?: ConfigTrust;
}

interface ProcessContext {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/** As in `ConfigDeps`. */
interface FoundInFolder {
  readonly source?: Uint8Array;
  readonly trust?: ConfigTrust;
}

/** The members of a file being read that the checks need. */
type Opened = Pick<OpenedConfig<unknown>, 'folder' | 'item' | 'problem'>;

/**
 * Loads the configuration of a fleet; without a file: an orchestrator without workers, which join over its addresses.
 *
 * Fails with `config_invalid` as `loadConfig` does.
 */
export async function loadFleetConfig(
  file: string | undefined,
  { env = process.env, cwd = process.cwd(), source, trust }: ProcessContext & FoundInFolder = {},
): Promise<FleetConfig> {
  const opened = await openConfig<FleetSettings>(file, fleet, cwd, source);
  const { settings, folder, item, problem, warn, warnings } = opened;
  const home = handfastHome(env);
  const own = join(home, 'fleet', settings.name ?? '');
  const bus = settings.bus ?? [];
  if (bus.includes('in-process') && bus.length > 1) problem('bus', 'expected in-process or addresses, got both');
  for (const [index, address] of bus.entries()) {
    if (address !== undefined && hasSecret(address)) problem(item('bus', index), NO_SECRETS);
  }
  const natsServers = bus.filter((address) => address !== 'in-process');
  const listen = (settings.listen ?? []).map((address) => {
    const parsed = address === undefined ? undefined : parseListenAddress(address);
    return parsed?.kind === 'unix' ? `unix://${resolve(folder, parsed.path)}` : address;
  });
  const names = new Set<string>();
  const nameOnce = (id: string | undefined, path: string): void => {
    if (id === undefined) return;
    if (names.has(id)) problem(`${path}.id`, `expected a name of its own, got ${JSON.stringify(id)} again`);
    names.add(id);
  };
  const workers = (settings.workers ?? []).map((worker, index) => {
    const path = item('workers', index);
    nameOnce(worker?.id, path);
    return workerOf(worker ?? {}, path, join(own, 'workers'), opened);
  });
  const peers = (settings.peers ?? []).map((peer, index) => {
    const path = item('peers', index);
    nameOnce(peer?.id, path);
    return peer?.repo === undefined ? peer : { ...peer, repo: realFolder(peer.repo, `${path}.repo`, opened) };
  });
  const nats = settings.nats ?? {};
  checkNats(nats, 'nats', problem);
  checkAccounts(nats.accounts ?? [], workers, opened);
  if (natsServers.length === 0) {
    if (nats.storeTasks) problem('nats.store_tasks', 'expected nats:// addresses in bus, got none');
    else if (Object.keys(nats).some((key) => key !== 'storeTasks')) {
      warn('nats', 'the bus is in-process, so these settings do nothing');
    }
  }
  opened.finish();
  return Object.freeze({
    ...settings,
    file: opened.file,
    home,
    dataDir: settings.dataDir ?? own,
    natsServers,
    nats,
    listen,
    workers,
    peers,
    warnings,
    ...(trust && { trust }),
  });
}

/** Settings from the command line, in the keys of the file. */
export type WorkerWords = Readonly<Record<string, string | number | readonly string[]>>;

/**
 * Loads the file of one worker; `instead` replaces the file's settings under the same keys. Paths in `instead` start at
 * the current folder. Fails with `config_invalid`.
 */
export async function loadWorkerConfig(
  file: string,
  { env = process.env, cwd = process.cwd(), instead = {} }: ProcessContext & { readonly instead?: WorkerWords } = {},
): Promise<{
  readonly config: WorkerConfig;
  /** NATS settings with which it joins. */
  readonly nats: NatsConnectionSettings;
}> {
  const { workerFile } = await import('./worker-file.generated.ts');
  const opened = await openConfig<WorkerFileSettings>(file, workerFile, cwd);
  const { nats = {}, ...settings } = { ...opened.settings, ...readWords(instead, workerFile, cwd) };
  const config = workerOf(settings, '', join(handfastHome(env), 'fleet', 'workers'), opened);
  checkNats(nats, 'nats', opened.problem);
  opened.finish();
  return { config, nats };
}

/** Returns the configuration of a worker without a file. Fails with `config_invalid`. */
export async function workerConfig(
  words: WorkerWords,
  { env = process.env, cwd = process.cwd() }: ProcessContext = {},
): Promise<WorkerConfig> {
  const { workerFile } = await import('./worker-file.generated.ts');
  const opened = await openConfig(undefined, { type: 'object', properties: {} }, cwd);
  const settings = readSetting(workerFile, nodeOf(words), '', optionReading(cwd)) as WorkerFileSettings;
  const { nats: _unused, ...worker } = settings;
  const config = workerOf(worker, '', join(handfastHome(env), 'fleet', 'workers'), opened);
  opened.finish();
  return config;
}

/** Reads the settings that the command line gives, checked as in a file. */
function readWords(words: WorkerWords, schema: SettingSchema, cwd: string): Partial<WorkerSettings> {
  const read = Object.entries(words).map(([key, value]) => [
    camel(key),
    readSetting(schema.properties?.[key] ?? {}, nodeOf(value), key, optionReading(cwd)),
  ]);
  return Object.fromEntries(read);
}

/** Reads options of the command line: the first problem fails, named by its option. */
function optionReading(folder: string): Reading {
  return {
    problem(_at, path, message) {
      throw fail('usage', `--${path.replaceAll('_', '-')}: ${message}`);
    },
    nodes: new Map(),
    folder,
    secret: false,
  };
}

/** Builds the configuration of a worker. A setting with a problem is absent in `worker`: its problem is reported already. */
function workerOf(worker: Partial<WorkerSettings>, path: string, dataFolder: string, opened: Opened): WorkerConfig {
  const at = (key: string): string => (path === '' ? key : `${path}.${key}`);
  const { executor, receiver, repo = opened.folder, dataDir = join(dataFolder, safeName(worker.id ?? '')) } = worker;
  if (executor?.kind !== undefined) {
    checkExecutor(executor, at('executor'), opened.problem);
    if (worker.environment !== undefined) checkEnvironment(executor.kind, at('environment'), opened.problem);
    checkOverhead(executor.kind, worker.overhead, at('overhead'), opened.problem);
  }
  if (receiver !== undefined) checkReceiver(receiver, at('receiver'), opened);
  return { ...(worker as WorkerSettings), repo: realFolder(repo, at('repo'), opened), dataDir };
}

/** Checks that each sender has a distinct token, which identifies it, and a distinct name. */
function checkReceiver(
  { senders = [], ...receiver }: NonNullable<WorkerSettings['receiver']>,
  at: string,
  { problem, item }: Opened,
): void {
  const isOpen = receiver.tokenEnv === undefined && receiver.tokenFile === undefined;
  if (isOpen && receiver.callback !== undefined && senders.length > 0) {
    problem(`${at}.callback`, 'expected token_env or token_file beside it where senders have tokens, got neither');
  }
  const names = new Set<string>([SENDER]);
  for (const [index, sender] of senders.entries()) {
    if (sender?.name === undefined) continue;
    const path = `${item(`${at}.senders`, index)}.name`;
    if (names.has(sender.name)) {
      problem(path, `expected a name of its own, got ${JSON.stringify(sender.name)} again`);
    }
    names.add(sender.name);
  }
}

function realFolder(absolute: string, path: string, { problem }: Opened): string {
  const found = whatIs(absolute);
  if (found === 'a folder') return realpathSync(absolute);
  problem(path, `expected a folder, got ${found}: ${absolute}`);
  return absolute;
}

/** Returns a name as the name of a folder. */
const safeName = (name: string): string =>
  name.replaceAll(/[^\w.-]/g, (character) => `=${character.charCodeAt(0).toString(16)}`);
