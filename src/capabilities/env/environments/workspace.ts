/**
 * A task on files, graded by a command: "make this failing test pass". The agent lists, reads, writes and deletes files;
 * `check` runs the command, and the task is done when it exits with 0.
 *
 * The agent's changes are held in memory over the task's folder, which is never changed. Each check runs in a copy made for it,
 * with the original protected files, so that a test cannot be passed by editing the test. The command runs with the rights of
 * the host: kinds made here run code, and are offered only if they are configured and granted by name.
 */
import { constants, cp, mkdtemp, open, readdir, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join, posix } from 'node:path';
import { leadsOut } from '../../../base/is-inside.ts';
import { runProgram } from '../../../base/program.ts';
import { errnoOf } from '../../../base/workspace/file-error.ts';
import { locate, openFile } from '../../../base/workspace/workspace-path.ts';
import { HandfastError } from '../../../wire/errors.ts';
import type { JsonObject } from '../../../wire/json.ts';
import type {
  Affordance,
  Environment,
  EnvironmentKind,
  RenderMode,
  ResetRequest,
  Start,
  Step,
  StepCall,
} from '../environment.ts';
import { failure } from '../errors.ts';
import { Dict, Sequence } from '../spaces/composite.ts';
import { Discrete } from '../spaces/discrete.ts';
import { Text } from '../spaces/text.ts';
import { unknownAction } from './seeded-environment.ts';

export interface WorkspaceTask {
  /** The id of the environment, e.g. `workspace/fix-the-parser`. */
  readonly id: string;
  /** The task of the agent. */
  readonly task: string;
  /** The folder with the files, absolute. */
  readonly folder: string;
  /** The command that grades, and its arguments. It runs in a copy of the folder. */
  readonly check: readonly [string, ...string[]];
  /** Files and folders that the agent cannot change, relative to the folder: its tests. */
  readonly protected?: readonly string[];
  /** Longest run of the command, in milliseconds. Default 60,000. */
  readonly timeoutMs?: number;
  /** Maximum number of steps of an episode. Default 50. */
  readonly maxSteps?: number;
  /** Environment variables of the host that the command gets, beside PATH and the like. */
  readonly inherits?: readonly string[];
}

const CHECK_MS = 60_000;
const MAX_STEPS = 50;
const MAX_PATH = 512;
/** Longest file that is read or written, and maximum of all written text, in characters. */
const MAX_FILE = 262_144;
const MAX_WRITTEN = 4_194_304;
const MAX_OUTPUT = 65_536;
const MAX_FILES = 1000;
/** Time between SIGTERM and SIGKILL. */
const TERMINATE_MS = 1000;
/** Folders that are copied, but not listed. */
const UNLISTED = new Set(['.git', 'node_modules']);
const WRITE_FLAGS = constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NOFOLLOW;
const ALWAYS = ['PATH', 'LANG', 'LC_ALL', 'TZ'];

const operations = ['list', 'read', 'write', 'delete', 'check'] as const;

const actionSpace = new Dict({
  operation: new Text(16, { charset: null }),
  path: new Text(MAX_PATH, { minLength: 0, charset: null }),
  content: new Text(MAX_FILE, { minLength: 0, charset: null }),
});

const observationSpace = new Dict({
  task: new Text(4096, { minLength: 0, charset: null }),
  output: new Text(MAX_FILE, { minLength: 0, charset: null }),
  files: new Sequence(new Text(MAX_PATH, { charset: null })),
  passed: new Discrete(2),
});

/** Returns the environment kind of a task. */
export function workspaceKind(task: WorkspaceTask): EnvironmentKind {
  return {
    id: task.id,
    about: task.task,
    maxEpisodeSteps: task.maxSteps ?? MAX_STEPS,
    rewardThreshold: 1,
    makeOptions: { type: 'object', properties: {}, additionalProperties: false },
    resetOptions: { type: 'object' },
    runsCode: true,
    // The output of a command contains times.
    nondeterministic: true,
    make: () => new Workspace(task),
  };
}

/** Result of a check. */
interface Grade {
  readonly output: string;
  readonly passed: boolean;
  readonly info: JsonObject;
}

class Workspace implements Environment<JsonObject, JsonObject> {
  readonly actionSpace = actionSpace;
  readonly observationSpace = observationSpace;
  readonly renderModes: readonly RenderMode[] = ['ansi'];
  readonly #task: WorkspaceTask;
  /** Written files by path; null: the file is deleted. */
  #changes = new Map<string, string | null>();
  #started = false;
  #output = '';

  constructor(task: WorkspaceTask) {
    this.#task = task;
  }

  async reset(_request: ResetRequest = {}): Promise<Start<JsonObject>> {
    this.#changes = new Map();
    this.#output = '';
    this.#started = true;
    return { observation: await this.#observe(false), info: { operations: [...operations] } };
  }

  async step(action: JsonObject, call?: StepCall): Promise<Step<JsonObject>> {
    if (!actionSpace.contains(action)) throw unknownAction(actionSpace, action);
    if (!this.#started) throw failure('runtime_error', 'the environment was never reset');
    const { operation, path, content } = action as { operation: string; path: string; content: string };
    const { output, passed, info } = await this.#perform(operation, path, content, call?.signal);
    this.#output = output;
    return {
      observation: await this.#observe(passed),
      reward: passed ? 1 : 0,
      terminated: passed,
      truncated: false,
      info,
    };
  }

  render(): string {
    const changed = [...this.#changes].map(
      ([path, content]) => `${content === null ? 'deleted' : 'written'} ${path}\n`,
    );
    return `${this.#task.task}\n${changed.join('')}${this.#output}\n`;
  }

  affordances(): readonly Affordance<JsonObject>[] {
    return [
      { action: { operation: 'list', path: '', content: '' }, description: 'list the files' },
      { action: { operation: 'check', path: '', content: '' }, description: `run ${this.#task.check.join(' ')}` },
    ];
  }

  snapshot(): JsonObject {
    return { started: this.#started, changes: Object.fromEntries(this.#changes), output: this.#output };
  }

  restore({ started, changes, output }: JsonObject): void {
    this.#started = started === true;
    this.#changes = new Map(Object.entries(changes as Record<string, string | null>));
    this.#output = String(output);
  }

  /** Does the operation that the agent requested. The output reports an impossible one, which costs a step. */
  async #perform(operation: string, path: string, content: string, signal?: AbortSignal): Promise<Grade> {
    const said = (output: string): Grade => ({ output, passed: false, info: {} });
    if (operation === 'list') return said('');
    if (operation === 'check') return this.#check(signal);
    if (!['read', 'write', 'delete'].includes(operation))
      return said(`unknown operation; use one of ${operations.join(', ')}`);
    const normal = posix.normalize(path);
    if (path === '' || leadsOut(normal) || path.includes('\0') || normal === '.')
      return said('path must name a file in the workspace, relative to it');
    if (operation === 'read') return said((await this.#read(normal)) ?? `there is no file ${normal} that can be read`);
    if (this.#isProtected(normal)) return said(`${normal} is part of the task and cannot be changed`);
    if (operation === 'delete') {
      if ((await this.#read(normal)) === undefined) return said(`there is no file ${normal}`);
      this.#changes.set(normal, null);
      return said(`deleted ${normal}`);
    }
    const written = [...this.#changes].reduce((sum, [at, text]) => sum + (at === normal ? 0 : (text?.length ?? 0)), 0);
    if (written + content.length > MAX_WRITTEN || this.#changes.size >= MAX_FILES)
      return said(`no more than ${MAX_WRITTEN} characters in ${MAX_FILES} files can be written`);
    this.#changes.set(normal, content);
    return said(`wrote ${normal}`);
  }

  #isProtected(path: string): boolean {
    return (this.#task.protected ?? []).some((entry) => {
      const own = posix.normalize(entry).replace(/\/$/, '');
      return path === own || path.startsWith(`${own}/`);
    });
  }

  /** Returns a file as the agent sees it; undefined if it does not exist, or is no text of this length. */
  async #read(path: string): Promise<string | undefined> {
    const changed = this.#changes.get(path);
    if (changed !== undefined) return changed ?? undefined;
    try {
      await using place = await locate(this.#task.folder, path);
      const { handle, stats } = await openFile(place);
      await using file = handle;
      return stats.size > MAX_FILE ? undefined : await file.readFile('utf8');
    } catch (error) {
      // A path that leaves the workspace by a link counts as absent.
      if (error instanceof HandfastError) return undefined;
      throw error;
    }
  }

  async #observe(passed: boolean): Promise<JsonObject> {
    return { task: this.#task.task, output: this.#output, files: await this.#files(), passed: Number(passed) };
  }

  async #files(): Promise<string[]> {
    const found = new Set<string>();
    const visit = async (folder: string): Promise<void> => {
      const entries = await readdir(join(this.#task.folder, folder), { withFileTypes: true });
      for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
        const path = posix.join(folder, entry.name);
        if (found.size >= MAX_FILES || path.length > MAX_PATH) return;
        if (entry.isDirectory()) {
          if (!UNLISTED.has(entry.name)) await visit(path);
        } else if (entry.isFile()) found.add(path);
      }
    };
    await visit('.');
    for (const [path, content] of this.#changes) {
      if (content === null) found.delete(path);
      else found.add(path);
    }
    return [...found].sort().slice(0, MAX_FILES);
  }

  async #check(signal?: AbortSignal): Promise<Grade> {
    const { check, folder, timeoutMs = CHECK_MS, inherits = [] } = this.#task;
    const parent = await realpath(await mkdtemp(join(tmpdir(), 'handfast-workspace-')));
    const copy = join(parent, basename(folder));
    try {
      await cp(folder, copy, { recursive: true, verbatimSymlinks: true });
      for (const [path, content] of this.#changes) {
        const refusal = await this.#apply(copy, path, content);
        if (refusal !== undefined) return { output: refusal, passed: false, info: {} };
      }
      const env = Object.fromEntries([...ALWAYS, ...inherits].map((name) => [name, process.env[name]]));
      const end = await runProgram({
        argv: check,
        cwd: copy,
        env: { ...env, HOME: parent, TMPDIR: parent, TERM: 'dumb' },
        timeoutMs,
        terminateMs: TERMINATE_MS,
        maxStdoutBytes: MAX_OUTPUT / 2,
        ...(signal && { signal }),
      });
      signal?.throwIfAborted();
      const passed = end.code === 0 && !end.timedOut;
      const late = end.timedOut ? `\nstopped after ${timeoutMs} ms` : '';
      const output = `${end.stdout}${end.stderr.slice(-MAX_OUTPUT / 4)}${late}`.trimEnd().replace(/^\n/, '');
      return { output, passed, info: { exit_code: end.code, timed_out: end.timedOut, truncated: end.truncated } };
    } finally {
      await rm(parent, { recursive: true, force: true });
    }
  }

  /** Writes or deletes a file of the copy; returns the reason if that is impossible. Follows links within the copy only. */
  async #apply(copy: string, path: string, content: string | null): Promise<string | undefined> {
    try {
      await using place = await locate(copy, path, { createDirectories: content !== null, access: 'change' });
      if (this.#isProtected(place.path)) return `${path} is part of the task and cannot be changed`;
      if (content === null) await rm(place.parent.at(place.name), { force: true });
      else {
        await using file = await open(place.parent.at(place.name), WRITE_FLAGS, 0o666);
        await file.writeFile(content);
      }
      return undefined;
    } catch (error) {
      return `${path} cannot be changed (${error instanceof HandfastError ? error.message : errnoOf(error)})`;
    }
  }
}
