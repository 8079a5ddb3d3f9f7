/**
 * The effects of a configuration that came with a folder, for the person that decides whether to trust it: whole
 * command lines, modules, addresses and every other setting; and the files that are hashed.
 *
 * It runs only when a user asks for it: the file is parsed here, and no setting in it takes effect.
 */
import { basename, isAbsolute, relative, resolve } from 'node:path';
import { counted } from '../base/counted.ts';
import { moduleOfPackage } from '../base/package-module.ts';
import { handfast } from '../config/handfast.generated.ts';
import type { ConfigNode } from '../config/reader.ts';
import { fail } from '../wire/errors.ts';
import { isObject, type JsonObject } from '../wire/json.ts';
import { CoveredFiles } from './covered-files.ts';
import type { FoundFile } from './found-file.ts';
import { coverModule } from './module-imports.ts';
import { quoted } from './quoted.ts';
import { nameIn } from './repository.ts';

/** Facts for a user's decision. Words are quoted as in a shell or as JSON; not yet escaped for terminals. */
export interface Manifest {
  /** Command lines. */
  readonly starts: readonly string[];
  /** Modules loaded into the process of Handfast. */
  readonly loads: readonly string[];
  /** Addresses. */
  readonly connects: readonly string[];
  /** All other settings: `path: value`. */
  readonly settings: readonly string[];
  /** Code that runs and is not covered by the hashes. */
  readonly uncovered: readonly string[];
  /** Name → digest, as entries hold them. */
  readonly files: Readonly<Record<string, string>>;
}

/** Characters a person can be asked to read. */
const MAX_SHOWN = 128 * 1024;
/** Executors that start a program with the name of the executor. */
const PROGRAM_KINDS = ['claude', 'codex', 'opencode', 'agy'];
/** Programs that run code which neither the command line shows nor its files cover. */
const RUNNERS =
  /^(?:npm|npx|pnpm|pnpx|yarn|bun|bunx|deno|uv|uvx|pip|pipx|poetry|cargo|go|make|just|mise|docker|podman|nix|sh|bash|zsh|env|sudo)$/;
/** An argument, or the value of an option, that may be the path of a file. */
const PATH_LIKE = /^(?:-[\w-]+=)?([^\s=-][^\s=]{0,1023})$/;
/** Settings whose values are secrets: shown text may be on a shared screen, or in a log. */
const SECRET = /(?:^|\.)(?:token|password|secret|api_key|authorization)(?:\[\d+\])*$/i;
/** Variables and headers: most are secrets, so only their names are shown. */
const GIVEN = /(?:^|\.)(?:env|headers)\.(.+)$/;
/** Variables that decide which code a program loads or starts, and so matter for trust. */
const STEERING =
  /^(?:LD|DYLD|GIT(?!.*(?:TOKEN|PASSWORD|SECRET)))_|(?:PATH|OPTIONS|OPTS?|FLAGS|PRELOAD|ENV|SHELL|EDITOR|PAGER|BROWSER|STARTUP|HOME|LIB|COMMAND|WRAPPER|OPEN)$/i;
const NOT_SHOWN = 'a secret, not shown';
const ADDRESS = /^[a-z][a-z+.-]*:\/\//i;

/** Reads the content of a found file. Fails with `config_invalid` if it is not YAML, or too long to show. */
export async function manifestOf(found: FoundFile): Promise<Manifest> {
  const reader = new ManifestReader(found);
  const root = await valuesOf(found);
  reader.covered.set(found.file, found.bytes);
  if (isObject(root)) reader.readRoot(root);
  const { starts, loads, connects, settings, uncovered, covered } = reader;
  const shown = [starts, loads, connects, settings].flat().reduce((sum, line) => sum + line.length, 0);
  if (shown > MAX_SHOWN) {
    throw fail('config_invalid', `${found.file} says more than can be shown; name it with --config to use it`);
  }
  return { starts, loads, connects, settings, uncovered, files: covered.digests };
}

/** Reads a JSON file of another program in the same way; text that is not JSON is shown by its length. */
export function manifestOfJson(found: FoundFile): Pick<Manifest, 'starts' | 'connects' | 'settings' | 'uncovered'> {
  const reader = new ManifestReader(found);
  try {
    reader.readRoot({ [basename(found.file)]: JSON.parse(found.bytes.toString('utf8')) });
  } catch {
    reader.settings.push(
      `${quoted(basename(found.file))}: ${counted(found.bytes.length, 'byte that is', 'bytes that are')} not JSON`,
    );
  }
  return reader;
}

/** Returns the values of the file, valid or not. */
async function valuesOf({ file, bytes, place }: FoundFile): Promise<unknown> {
  const { parseTree } = await import('../config/yaml-tree.ts');
  const problems: string[] = [];
  const at = relative(place.folder, file);
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw fail('config_invalid', `${at}: expected UTF-8, got something else`, {}, cause);
  }
  const tree = await parseTree(text, {
    problem: ({ line, column }, _path, message) => problems.push(`${at}:${line}:${column}: ${message}`),
  });
  if (problems.length > 0) throw fail('config_invalid', problems.join('\n'));
  return tree === undefined ? undefined : plain(tree);
}

function plain(node: ConfigNode): unknown {
  if (node.kind === 'scalar') return node.value;
  if (node.kind === 'list') return node.items.map(plain);
  const values: JsonObject = Object.create(null);
  for (const { key, value } of node.entries) values[key] = plain(value);
  return values;
}

class ManifestReader {
  readonly starts: string[] = [];
  readonly loads: string[] = [];
  readonly connects: string[] = [];
  readonly settings: string[] = [];
  readonly uncovered: string[] = [];
  readonly covered: CoveredFiles;
  readonly #found: FoundFile;

  constructor(found: FoundFile) {
    this.#found = found;
    this.covered = new CoveredFiles(found.place);
  }

  readRoot(root: JsonObject): void {
    const { plugins, ...others } = root;
    for (const [index, plugin] of [plugins ?? []].flat().entries()) this.#plugin(plugin, `plugins[${index}]`);
    for (const [key, value] of Object.entries(others)) this.#value(value, key, this.#found.place.folder);
  }

  #plugin(plugin: unknown, path: string): void {
    const use = isObject(plugin) ? plugin.use : plugin;
    const builtin = Object.keys(handfast.properties?.plugins?.items?.variants?.of ?? {});
    if (typeof use !== 'string' || builtin.includes(use)) return this.#value(plugin, path, '');
    const module =
      /^\.{0,2}\//.test(use) || isAbsolute(use)
        ? resolve(this.#found.place.folder, use)
        : moduleOfPackage(this.#found.place.folder, use);
    if (module === undefined)
      this.uncovered.push(`${quoted(use)}: the package is not installed here, or cannot be read`);
    else this.#module(module, use);
    if (isObject(plugin)) for (const [key, value] of Object.entries(plugin)) this.#value(value, `${path}.${key}`, '');
  }

  #module(module: string, shown = module): void {
    this.loads.push(`${quoted(shown)}  (${quoted(module)})`);
    const beyond = coverModule(module, this.covered);
    if (beyond.length > 0)
      this.uncovered.push(`${quoted(shown)}: ${beyond.length} of the files it imports are too many or too large`);
  }

  /** @param folder start of relative paths in command lines */
  #value(value: unknown, path: string, folder: string): void {
    if (Array.isArray(value)) {
      for (const [index, item] of value.entries()) this.#value(item, `${path}[${index}]`, folder);
    } else if (isObject(value)) this.#map(value, path, folder);
    else if (isSecret(path)) this.settings.push(`${path}: ${NOT_SHOWN}`);
    else if (typeof value === 'string' && ADDRESS.test(value)) this.connects.push(`${addressOf(value)}  (${path})`);
    else if (path.endsWith('.executor')) this.#executor(value, path);
    else if (/(?:^|\.)data_dir$/.test(path) && typeof value === 'string') this.#dataFolder(value, path);
    else this.settings.push(`${path}: ${JSON.stringify(value)}`);
  }

  #map(value: JsonObject, path: string, outer: string): void {
    const { folder: own } = this.#found.place;
    const folder = typeof value.repo === 'string' ? resolve(own, value.repo) : outer;
    const { command, args, env, module, ...rest } = value;
    if (typeof command === 'string') this.#command([command, ...[args ?? []].flat().map(String)], env, folder);
    else Object.assign(rest, { ...(args !== undefined && { args }), ...(env !== undefined && { env }) });
    if (typeof module === 'string') this.#module(resolve(own, module));
    if (path.endsWith('.executor') && typeof command !== 'string') this.#executor(value.kind, `${path}.kind`);
    for (const [key, each] of Object.entries(rest)) this.#value(each, `${path}.${key}`, folder);
  }

  /** Handles a data folder inside the repository: every author of the repository writes there. */
  #dataFolder(value: string, path: string): void {
    const { place } = this.#found;
    this.settings.push(`${path}: ${JSON.stringify(value)}`);
    if (isAbsolute(nameIn(place, resolve(place.folder, value)))) return;
    this.uncovered.push(`${quoted(value)} (${path}): sessions, settings and skills in it are used as they are`);
  }

  #executor(kind: unknown, path: string): void {
    if (PROGRAM_KINDS.includes(String(kind)))
      this.starts.push(`${kind}  (with the arguments of its executor, ${path})`);
    else this.settings.push(`${path}: ${JSON.stringify(kind)}`);
  }

  #command(words: readonly string[], env: unknown, folder: string): void {
    const set = isObject(env) ? Object.entries(env).map(variableOf) : [];
    this.starts.push([...set, ...words.map(quoted)].join(' '));
    const [program = ''] = words;
    if (RUNNERS.test(basename(program))) {
      this.uncovered.push(`${quoted(program)} runs code that this command line does not show, and may fetch it`);
    }
    for (const [index, word] of words.entries()) {
      const path = PATH_LIKE.exec(word)?.[1];
      // The program itself is looked up in PATH unless it has a slash.
      if (path === undefined || ADDRESS.test(path) || (index === 0 ? !path.includes('/') : !/[./]/.test(path)))
        continue;
      if (index > 0 && !isAbsolute(path)) this.#relative(path);
      for (const base of new Set([this.#found.place.folder, folder])) this.#argument(resolve(base, path));
    }
  }

  /** Reports a relative program: it may be searched in a folder that is not known yet. */
  #relative(path: string): void {
    this.uncovered.push(`${quoted(path)} is looked for where the program starts: in the folder of a session or a task`);
  }

  /** Covers a file of the repository that a command line names. */
  #argument(path: string): void {
    const { place } = this.#found;
    if (isAbsolute(nameIn(place, path))) return;
    if (!this.covered.add(path)) this.uncovered.push(`${quoted(path)} is too large to be checked for changes`);
  }
}

/** Returns a variable before a command line. */
const variableOf = ([name, value]: [string, unknown]): string =>
  `${quoted(name)}=${STEERING.test(name) ? quoted(String(value)) : `(${NOT_SHOWN})`}`;

function isSecret(path: string): boolean {
  const given = GIVEN.exec(path)?.[1];
  return given === undefined ? SECRET.test(path) : !STEERING.test(given);
}

/** Returns an address without the password that it may have. */
const addressOf = (address: string): string => quoted(address.replace(/(\/\/[^/@:]*):[^/@]*@/, '$1:…@'));
