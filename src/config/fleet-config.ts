/**
 * Loads `fleet.yaml`, or the file of a single worker: one file in, absolute paths and checked values out, or every problem
 * at once with file, line and column.
 *
 * Called by the commands of the fleet. Secrets are not read here: they are read when they are used, from one place.
 */
import { realpathSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { fail } from '../wire/errors.ts';
import { type ConfigNode, type Field, group, type Reading } from './config-fields.ts';
import { type ConfigProblem, type OpenedConfig, openConfig, whatIs } from './config-reading.ts';
import { checkExecutor, checkMcpServers } from './fleet-config-executor.ts';
import { oneSecret } from './fleet-config-fields.ts';
import { hasSecret, type NatsConnectionSettings, NO_SECRETS, natsConnectionOf } from './fleet-config-nats.ts';
import { type FleetSettings, fleetRoot, type WorkerSettings, workerFields, workerRoot } from './fleet-config-schema.ts';
import { parseListenAddress } from './listen-address.ts';
import { handfastHome } from './local-token.ts';

export { fleetSchema } from './fleet-config-schema.ts';

/** What a worker calls whoever has the one token of its receiver. */
export const SENDER = 'sender';

/** A worker with its paths absolute. */
export interface WorkerConfig extends Omit<WorkerSettings, 'repo' | 'dataDir'> {
  /** Real path. */
  readonly repo: string;
  readonly dataDir: string;
}

export interface FleetConfig extends Omit<FleetSettings, 'workers' | 'dataDir' | 'bus'> {
  readonly file: string | undefined;
  /** Folder of the file; relative paths and modules start there. */
  readonly folder: string;
  readonly home: string;
  readonly dataDir: string;
  /** Addresses of NATS servers; empty: in-process. */
  readonly natsServers: readonly string[];
  readonly workers: readonly WorkerConfig[];
  readonly warnings: readonly ConfigProblem[];
}

interface ProcessContext {
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
}

/**
 * Loads the configuration of a fleet; without a file: an orchestrator without workers, which join over its addresses.
 *
 * Fails with `config_invalid` as `loadConfig` does.
 */
export async function loadFleetConfig(
  file: string | undefined,
  { env = process.env, cwd = process.cwd() }: ProcessContext = {},
): Promise<FleetConfig> {
  const opened = await openConfig(file, fleetRoot, cwd);
  const { said, folder, item, problem, warn, warnings } = opened;
  const home = handfastHome(env);
  const own = join(home, 'fleet', said.name ?? '');
  const bus = said.bus ?? [];
  if (bus.includes('in-process') && bus.length > 1) problem('bus', 'expected in-process or addresses, got both');
  for (const [index, address] of bus.entries()) {
    if (address !== undefined && hasSecret(address)) problem(item('bus', index), NO_SECRETS);
  }
  const natsServers = bus.filter((address) => address !== 'in-process');
  const listen = (said.listen ?? []).map((address, index) => {
    const parsed = address === undefined ? undefined : parseListenAddress(address);
    if (parsed === undefined)
      problem(item('listen', index), `expected a listen address, got ${JSON.stringify(address)}`);
    return parsed?.kind === 'unix' ? `unix://${resolve(folder, parsed.path)}` : address;
  });
  const names = new Set<string>();
  const nameOnce = (id: string | undefined, path: string): void => {
    if (id === undefined) return;
    if (names.has(id)) problem(`${path}.id`, `expected a name of its own, got ${JSON.stringify(id)} again`);
    names.add(id);
  };
  const workers = (said.workers ?? []).map((worker, index) => {
    const path = item('workers', index);
    nameOnce(worker?.id, path);
    return workerOf(worker, path, join(own, 'workers'), opened);
  });
  const peers = (said.peers ?? []).map((peer, index) => {
    const path = item('peers', index);
    nameOnce(peer?.id, path);
    if (peer !== undefined) oneSecret(peer, path, problem);
    if (peer?.repo === undefined) return peer;
    return { ...peer, repo: folderOf(peer.repo, `${path}.repo`, opened) };
  });
  const nats = natsConnectionOf(said.nats ?? {}, 'nats', folder, problem);
  if (nats.storeTasks && natsServers.length === 0)
    problem('nats.store_tasks', 'expected nats:// addresses in bus, got none');
  else if (natsServers.length === 0 && Object.keys(nats).some((key) => key !== 'storeTasks')) {
    warn('nats', 'the bus is in-process, so these settings do nothing');
  }
  opened.finish();
  return Object.freeze({
    ...said,
    file: opened.file,
    folder,
    home,
    dataDir: said.dataDir === undefined ? own : resolve(folder, said.dataDir),
    natsServers,
    nats,
    listen,
    workers,
    peers,
    warnings,
  });
}

/** Settings given elsewhere than in a file, in the keys of the file. */
export type WorkerWords = Readonly<Record<string, string | number | readonly string[]>>;

/**
 * Loads the file of one worker; `instead` stands for what the file says under the same keys. Paths in `instead` start at
 * the current folder. Fails with `config_invalid`.
 */
export async function loadWorkerConfig(
  file: string,
  { env = process.env, cwd = process.cwd(), instead = {} }: ProcessContext & { readonly instead?: WorkerWords } = {},
): Promise<{
  readonly config: WorkerConfig;
  readonly folder: string;
  /** How it joins over NATS. */
  readonly nats: NatsConnectionSettings;
}> {
  const opened = await openConfig(file, workerRoot, cwd);
  const { nats: joining, ...said } = { ...opened.said, ...readWords(instead, cwd) };
  const config = workerOf(said, '', join(handfastHome(env), 'fleet', 'workers'), opened);
  const nats = natsConnectionOf(joining ?? {}, 'nats', opened.folder, opened.problem);
  opened.finish();
  return { config, folder: opened.folder, nats };
}

/** A worker without a file. Fails with `config_invalid`. */
export async function workerConfig(
  words: WorkerWords,
  { env = process.env, cwd = process.cwd() }: ProcessContext = {},
): Promise<WorkerConfig> {
  const opened = await openConfig(undefined, group('A worker.', {}), cwd);
  const said = workerRoot.read(nodeOf({ repo: cwd, ...words }), '', strictly('--')) as WorkerSettings;
  const config = workerOf(said, '', join(handfastHome(env), 'fleet', 'workers'), opened);
  opened.finish();
  return config;
}

/** Those of a worker's settings that were given, checked as in a file. */
function readWords(words: WorkerWords, cwd: string): Partial<WorkerSettings> {
  const read = Object.entries(words).map(([key, value]) => {
    const field: Field<unknown> = workerFields[key as keyof typeof workerFields];
    const given = key === 'repo' ? resolve(cwd, String(value)) : value;
    const name = key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    return [name, field.read(scalarOf(given), key, strictly('--'))];
  });
  return Object.fromEntries(read);
}

const AT = { line: 1, column: 1 };

function scalarOf(value: string | number | readonly string[]): ConfigNode {
  if (typeof value !== 'object') return { kind: 'scalar', value, ...AT };
  return { kind: 'list', items: value.map((item) => ({ kind: 'scalar', value: item, ...AT })), ...AT };
}

function nodeOf(words: WorkerWords): ConfigNode {
  const entries = Object.entries(words).map(([key, value]) => ({ key, value: scalarOf(value), ...AT }));
  return { kind: 'map', entries, ...AT };
}

/** For what stands in no file: the first problem is the end. */
function strictly(prefix: string): Reading {
  return {
    problem(_at, path, message) {
      throw fail('usage', `${prefix}${path.replaceAll('_', '-')}: ${message}`);
    },
    positions: new Map(),
    secret: false,
  };
}

function workerOf(
  worker: WorkerSettings,
  path: string,
  dataFolder: string,
  opened: Pick<OpenedConfig<unknown>, 'folder' | 'item' | 'problem'>,
): WorkerConfig {
  const at = (key: string): string => (path === '' ? key : `${path}.${key}`);
  const { folder, problem } = opened;
  const { executor, receiver } = worker;
  if (executor === undefined) problem(at('executor'), 'expected an executor, got nothing');
  // Without a kind nothing is known of the rest, and that was told.
  else if (executor.kind !== undefined) checkExecutor(executor, at('executor'), problem);
  checkMcpServers(worker.mcpServers, at('mcp_servers'), problem);
  if (receiver !== undefined) checkReceiver(receiver, at('receiver'), opened);
  if (worker.a2a !== undefined) oneSecret(worker.a2a, at('a2a'), problem);
  return {
    ...worker,
    repo: folderOf(worker.repo ?? '.', at('repo'), opened),
    dataDir:
      worker.dataDir === undefined ? join(dataFolder, safeName(worker.id ?? '')) : resolve(folder, worker.dataDir),
  };
}

/** Each sender is known by a token of its own, and by a name of its own. */
function checkReceiver(
  { senders = [], ...receiver }: NonNullable<WorkerSettings['receiver']>,
  at: string,
  { problem, item }: Pick<OpenedConfig<unknown>, 'problem' | 'item'>,
): void {
  oneSecret(receiver, at, problem);
  if (receiver.callback !== undefined) oneSecret(receiver.callback, `${at}.callback`, problem);
  const open = receiver.tokenEnv === undefined && receiver.tokenFile === undefined;
  if (open && receiver.callback !== undefined && senders.length > 0) {
    problem(`${at}.callback`, 'expected token_env or token_file beside it where senders have tokens, got neither');
  }
  const names = new Set<string>([SENDER]);
  for (const [index, sender] of senders.entries()) {
    const path = item(`${at}.senders`, index);
    if (sender === undefined) continue;
    if (sender.tokenEnv === undefined && sender.tokenFile === undefined) {
      problem(path, 'expected token_env or token_file, got neither');
    }
    oneSecret(sender, path, problem);
    if (sender.callback !== undefined) oneSecret(sender.callback, `${path}.callback`, problem);
    if (sender.name !== undefined && names.has(sender.name)) {
      problem(`${path}.name`, `expected a name of its own, got ${JSON.stringify(sender.name)} again`);
    }
    names.add(sender.name);
  }
}

function folderOf(
  wanted: string,
  path: string,
  { folder, problem }: Pick<OpenedConfig<unknown>, 'folder' | 'problem'>,
): string {
  const absolute = resolve(folder, wanted);
  const found = whatIs(absolute);
  if (found === 'a folder') return realpathSync(absolute);
  problem(path, `expected a folder, got ${found}: ${absolute}`);
  return absolute;
}

/** A name as the name of a folder. */
const safeName = (name: string): string =>
  name.replaceAll(/[^\w.-]/g, (character) => `=${character.charCodeAt(0).toString(16)}`);
