/** `handfast plan …`: plans, tasks, claims, boards, Markdown documents and the changes of a plan. */
import { access, constants, readFile, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import type { AgentSession } from '../../agent/agent.ts';
import { counted } from '../../base/counted.ts';
import { folded } from '../../base/fold-text.ts';
import { suggest } from '../../base/suggest.ts';
import type { CapabilityCommand, CommandTerminal } from '../../packages/capability.ts';
import { fileError, oneOf, unexpected, wholeNumber } from '../../packages/command-values.ts';
import { fail } from '../../wire/errors.ts';
import { type Entry, type Plan, PlanningClient, type TaskLine } from './client.ts';
import { DISPATCHER, dispatch, dispatchOptions } from './dispatch-command.ts';
import { failure } from './errors.ts';

type Context = Parameters<CapabilityCommand['run']>[0];

/** The parts of a command on a plan: the client, the plan it names first, and its other arguments. */
interface PlanContext extends Context {
  readonly planning: PlanningClient;
  readonly plan: Plan;
  readonly rest: readonly string[];
}

/** Runs a command on the plan that its first argument names: an id, its beginning, or the name of a plan. */
const onPlan =
  (run: (context: PlanContext) => Promise<number | undefined>) =>
  async (context: Context): Promise<number | undefined> => {
    const [named = '', ...rest] = context.args.flatMap((arg) => arg ?? []);
    const planning = new PlanningClient(context.agent as AgentSession);
    const plans = await planning.plans({ includeArchived: true }, { signal: context.signal });
    const plan = one(
      plans,
      named,
      { what: 'plan', lists: 'ls' },
      ({ plan_id }) => plan_id,
      ({ name }) => name,
    );
    return run({ ...context, planning, plan, rest });
  };

/** Runs a command on a task of a plan: the second argument is its id, the beginning of one, or its title. */
const onTask = (run: (context: PlanContext & { readonly task: TaskLine }) => Promise<number | undefined>) =>
  onPlan(async (context) => {
    const tasks = await context.planning.tasks(context.plan.plan_id, { includeArchived: true });
    const [named = '', ...rest] = context.rest;
    return run({ ...context, rest, task: taskMeant(context.plan, tasks, named) });
  });

const taskMeant = (plan: Plan, tasks: readonly TaskLine[], named: string): TaskLine =>
  one(
    tasks,
    named,
    { what: 'task', lists: `tasks ${plan.name || plan.plan_id}` },
    ({ task_id }) => task_id,
    ({ title }) => title,
  );

function one<T>(
  all: readonly T[],
  named: string,
  { what, lists }: { readonly what: 'plan' | 'task'; readonly lists: string },
  idOf: (one: T) => string,
  nameOf: (one: T) => string,
): T {
  const exact = all.filter((each) => idOf(each) === named || nameOf(each) === named);
  const begins = exact.length > 0 ? exact : all.filter((each) => named !== '' && idOf(each).startsWith(named));
  const typed = folded(named).trim();
  const found =
    begins.length > 0 ? begins : all.filter((each) => typed !== '' && folded(nameOf(each)).trim() === typed);
  if (found.length === 1) return found[0] as T;
  if (found.length === 0) {
    if (named === '') throw fail('usage', `pass a ${what}: its id, the beginning of it, or its name`);
    throw failure(
      what === 'plan' ? 'unknown_plan' : 'unknown_task',
      `there is no ${what} ${JSON.stringify(named.slice(0, 64))}; "handfast plan ${lists}" lists them`,
    );
  }
  const ids = found.slice(0, 5).map(idOf).join(', ');
  const more = found.length > 5 ? ', …' : '';
  throw failure(
    'invalid',
    `${JSON.stringify(named)} names ${found.length} ${what}s; pass the id of one: ${ids}${more}`,
  );
}

/** Prints the result of a command: the document, or a line. */
function print(terminal: CommandTerminal, value: unknown, line: string): undefined {
  if (terminal.json) terminal.document(value);
  else terminal.line(line);
}

const lineOf = ({ task_id, status, title }: Pick<TaskLine, 'task_id' | 'status' | 'title'>): string =>
  `${task_id}  ${status}  ${title}`;

function printTasks(terminal: CommandTerminal, tasks: readonly TaskLine[], none = 'no tasks'): undefined {
  if (terminal.json) terminal.document(tasks);
  else if (tasks.length === 0) terminal.note(none);
  else {
    const who = ({ claim, assignee }: TaskLine) => (claim === null ? assignee : `${claim.agent} (claimed)`);
    const rows = tasks.map((task) => [task.task_id, task.status, task.title, who(task), task.ready ? 'ready' : '']);
    terminal.table(['TASK', 'STATUS', 'TITLE', 'WHO', ''], rows);
  }
}

function printEntry(terminal: CommandTerminal, entry: Entry): void {
  if (terminal.json) return terminal.document(entry);
  const { seq, at, action, task_id, principal, agent, changes, comment } = entry;
  const who = principal === '' ? 'the host' : `${agent} of ${principal}`;
  const what = Object.entries(changes)
    // Empty fields of a new task or plan are not worth a line.
    .filter(([, [from, to]]) => from !== null || !EMPTY.has(JSON.stringify(to)))
    .map(([field, [from, to]]) => `${field} ${JSON.stringify(from)} → ${JSON.stringify(to)}`)
    .join(', ');
  const said = comment === undefined ? '' : `: ${comment}`;
  terminal.line(`${seq}  ${timeOf(at)}  ${task_id || 'plan'}  ${action} by ${who}  ${what}${said}`);
}

const timeOf = (epochSeconds: number): string => new Date(epochSeconds * 1000).toISOString();

const EMPTY: ReadonlySet<string> = new Set(['""', '[]', '{}', 'false', '0', 'null']);

/** Returns the reason why a claim got no task. */
async function whyNone({ planning, plan, signal }: PlanContext): Promise<string> {
  if (plan.archived) return `the plan is archived; restore it with: handfast plan archive ${plan.plan_id} --undo`;
  const { open, claimed } = await planning.ready(plan.plan_id, { limit: 1 }, { signal });
  return `no task is ready: ${open} open, ${claimed} of them claimed`;
}

const FENCE = ['--fence <n>', 'the fence of your claim: handfast plan claim prints it'] as const;

/** Reads the fence of an option. Fails with `usage`. */
function fenceOf({ fence }: Readonly<Record<string, unknown>>): number {
  const value = Number(fence);
  if (fence !== undefined && Number.isInteger(value) && value > 0) return value;
  throw fail('usage', 'pass the fence of your claim: --fence <n>, as handfast plan claim printed it');
}

/** Returns the `ifRevision` of a change, if the option is set. */
function revisionOf(value: unknown): { readonly ifRevision?: number } {
  const ifRevision = wholeNumber(value, '--if-revision', { least: 1 });
  return ifRevision === undefined ? {} : { ifRevision };
}

/** Fails with `usage` for a column that the plan does not have: the board would not show a task in it. */
function mustBeColumn({ name, columns }: Plan, column: string, what: string, advice: string): void {
  if (columns.includes(column)) return;
  const near = suggest(column, columns);
  const meant = near === undefined ? `; it has ${columns.join(', ')}` : `; did you mean "${near}"?`;
  throw fail(
    'usage',
    `${what}: the plan ${JSON.stringify(name)} has no column ${JSON.stringify(column)}${meant} ${advice}`.trim(),
  );
}

function secondsOf(value: unknown): number {
  const seconds = Number(value);
  if (seconds > 0 && Number.isFinite(seconds)) return seconds;
  throw unexpected('--lease', 'seconds', value);
}

/** Fails with `usage` for a file that cannot be written. */
async function mustBeWritable(file: string): Promise<void> {
  if (file === '') throw fail('usage', 'the name of the file is empty');
  await access(file, constants.W_OK).catch(async (thrown: NodeJS.ErrnoException) => {
    if (thrown.code !== 'ENOENT') throw fileError(thrown, file, 'Markdown');
    const folder = dirname(resolve(file));
    await access(folder, constants.W_OK).catch(({ code }: NodeJS.ErrnoException) => {
      throw fail(
        'usage',
        code === 'ENOENT' ? `there is no folder ${folder}` : `this user may not write into ${folder}`,
      );
    });
  });
}

function renaming(pair: string): [string, string] {
  const at = pair.indexOf('=');
  if (at > 0 && at < pair.length - 1) return [pair.slice(0, at), pair.slice(at + 1)];
  throw unexpected('--rename', 'old=new', pair);
}

const list = (value: unknown): string[] | undefined => value as string[] | undefined;

export const commands: readonly CapabilityCommand[] = [
  {
    usage: 'ls',
    about: 'list the plans',
    options: [['--all', 'also archived ones']],
    async run({ agent, options, terminal, signal }) {
      const plans = await new PlanningClient(agent).plans({ includeArchived: options.all === true }, { signal });
      if (terminal.json) terminal.document(plans);
      else if (plans.length === 0) {
        const archived = await new PlanningClient(agent).plans({ includeArchived: true }, { signal });
        const only = `all plans are archived (${archived.length}); list them with: handfast plan ls --all`;
        terminal.note(archived.length > 0 ? only : 'no plans yet: handfast plan create <name>');
      } else {
        const rows = plans.map((plan) => [plan.plan_id, plan.name, plan.owner, plan.archived ? 'archived' : '']);
        terminal.table(['PLAN', 'NAME', 'OWNER', ''], rows);
      }
      return undefined;
    },
  },
  {
    usage: 'create <name>',
    about: 'create a plan',
    options: [
      ['--columns <name...>', 'its columns (default: backlog todo in_progress done)'],
      ['--description <text>', 'what it is for'],
      ['--private', 'for this agent alone'],
    ],
    async run({ agent, args: [name], options, terminal, signal }) {
      const { columns, description, private: own } = options;
      if (name === '')
        throw fail('usage', 'the name of the plan is empty; name it, such as: handfast plan create release');
      const planning = new PlanningClient(agent);
      const before = await planning.plans({ includeArchived: true }, { signal });
      const plan = await planning.createPlan(
        name as string,
        { columns: list(columns) ?? [], description: (description as string) ?? '', private: own === true },
        { signal },
      );
      print(terminal, plan, `${plan.plan_id}  ${plan.name}  ${plan.columns.join(' | ')}`);
      if (!terminal.json && before.some((other) => other.name === plan.name)) {
        terminal.note(`another plan has this name too; name this one by its id: ${plan.plan_id}`);
      }
      return undefined;
    },
  },
  {
    usage: 'board <plan>',
    about: 'show the tasks of a plan by column',
    options: [['--limit <n>', 'tasks of each column at most (default: 20)']],
    run: onPlan(async ({ planning, plan, options, terminal, signal }) => {
      const limit = wholeNumber(options.limit, '--limit') ?? 20;
      const [board] = await planning.boards(plan.plan_id, { limit }, { signal });
      if (terminal.json) terminal.document(board);
      else {
        for (const [column, tasks] of Object.entries(board?.tasks ?? {})) {
          terminal.line(`${column} (${board?.counts[column] ?? tasks.length})`);
          for (const { task_id, title, assignee } of tasks) {
            terminal.line(`  ${task_id}  ${title}${assignee === '' ? '' : `  @${assignee}`}`);
          }
        }
      }
      return undefined;
    }),
  },
  {
    usage: 'tasks <plan>',
    about: 'list the tasks of a plan',
    options: [
      ['--status <column>', 'only of this column'],
      ['--all', 'also archived ones'],
    ],
    run: onPlan(async ({ planning, plan, options, terminal, signal }) => {
      const status = (options.status as string) ?? '';
      const tasks = await planning.tasks(plan.plan_id, { status, includeArchived: options.all === true }, { signal });
      // Tasks stay in a column that was removed.
      if (tasks.length === 0 && status !== '') mustBeColumn(plan, status, '--status', '');
      return printTasks(terminal, tasks);
    }),
  },
  {
    usage: 'add <plan> <title>',
    about: 'add a task',
    options: [
      ['--after <task...>', 'tasks that must be done first, by id or title'],
      ['--parent <task>', 'the task it is a part of, by id or title'],
      ['--status <column>', 'its column'],
      ['--assignee <name>', 'who is to do it'],
      ['--priority <n>', 'higher is handed out first'],
      ['--description <text>', 'more about it'],
    ],
    run: onPlan(async ({ planning, plan, rest: [title = ''], options, terminal, signal }) => {
      const { after, parent, status, assignee, priority, description } = options as Record<string, string | undefined>;
      if (status) mustBeColumn(plan, status, '--status', '("handfast plan configure" adds columns)');
      const named = after !== undefined || parent !== undefined;
      const tasks = named ? await planning.tasks(plan.plan_id, { includeArchived: true }, { signal }) : [];
      const idOf = (task: string): string => taskMeant(plan, tasks, task).task_id;
      const task = await planning.add(
        plan.plan_id,
        title,
        {
          deps: (list(after) ?? []).map(idOf),
          ...(parent !== undefined && { parent: idOf(parent) }),
          ...(status && { status }),
          ...(assignee && { assignee }),
          ...(description && { description }),
          ...(priority !== undefined && {
            priority: wholeNumber(priority, '--priority', { least: Number.MIN_SAFE_INTEGER }) ?? 0,
          }),
        },
        { signal },
      );
      return print(terminal, task, lineOf(task));
    }),
  },
  {
    usage: 'show <plan> [task]',
    about: 'show a plan or a task, whole',
    async run(context) {
      if (context.args[1] === undefined) {
        return onPlan(async ({ planning, plan, terminal, signal }) => {
          const whole = await planning.plan(plan.plan_id, { signal });
          const lines = [`${whole.plan_id}  ${whole.name}`, `columns: ${whole.columns.join(' | ')}`];
          return print(terminal, whole, [...lines, `tasks: ${whole.tasks}, done: ${whole.done}`].join('\n'));
        })(context);
      }
      return onTask(async ({ planning, plan, task, terminal, signal }) => {
        const whole = await planning.task(plan.plan_id, task.task_id, { signal });
        const more = Object.entries(whole).filter(
          ([key, value]) => key !== 'description' && value !== '' && value !== null,
        );
        const lines = more.map(
          ([key, value]) =>
            `${key}: ${typeof value === 'string' ? value : key.endsWith('_at') ? timeOf(value as number) : JSON.stringify(value)}`,
        );
        return print(terminal, whole, [...lines, '', whole.description].join('\n').trimEnd());
      })(context);
    },
  },
  {
    usage: 'move <plan> <task> <column>',
    about: 'move a task to a column',
    options: [
      ['--comment <text>', 'why'],
      ['--fence <n>', 'the fence of your claim'],
      ['--if-revision <n>', 'only if this is its revision'],
      ['--force', 'against the rules, or under the claim of another'],
    ],
    run: onTask(async ({ planning, plan, task, rest: [status = ''], options, terminal, signal }) => {
      const { comment, fence, ifRevision, force } = options;
      if (force !== true) mustBeColumn(plan, status, 'the column', '(--force moves it all the same)');
      const change = {
        status,
        force: force === true,
        ...(comment !== undefined && { comment: comment as string }),
        ...(fence !== undefined && { fence: fenceOf(options) }),
        ...revisionOf(ifRevision),
      };
      const moved = await planning.update(plan.plan_id, task.task_id, change, { signal });
      return print(terminal, moved, lineOf(moved));
    }),
  },
  {
    usage: 'comment <plan> <task> <text>',
    about: 'comment on a task',
    run: onTask(async ({ planning, plan, task, rest: [text = ''], terminal, signal }) => {
      const seq = await planning.comment(plan.plan_id, task.task_id, text, { signal });
      return print(terminal, { seq }, `entry ${seq}`);
    }),
  },
  {
    usage: 'ready <plan>',
    about: 'list the tasks that could be claimed now',
    run: onPlan(async ({ planning, plan, terminal, signal }) => {
      const { tasks, total, open, claimed } = await planning.ready(plan.plan_id, {}, { signal });
      printTasks(terminal, tasks, plan.archived ? 'the plan is archived' : 'no task is ready');
      const shown =
        total > tasks.length ? `${total} ready for all agents, the first ${tasks.length} for you above, ` : '';
      if (!terminal.json) terminal.note(`${shown}${open} open, ${claimed} claimed`);
      return undefined;
    }),
  },
  {
    usage: 'claim <plan> [task]',
    about: 'claim the next ready task, or the one that is named, for the time of a lease',
    options: [['--lease <seconds>', 'duration of the lease (default: of the host, 60)']],
    async run(context) {
      const claim = async (context: PlanContext, taskId?: string) => {
        const { planning, plan, options, terminal, signal } = context;
        const seconds = options.lease === undefined ? undefined : secondsOf(options.lease);
        const claimed = await planning.claim(plan.plan_id, {
          signal,
          renew: false,
          ...(taskId !== undefined && { taskId }),
          ...(seconds !== undefined && { leaseMs: seconds * 1000 }),
        });
        if (claimed === undefined) {
          if (terminal.json) terminal.document(null);
          else terminal.note(await whyNone(context));
          return undefined;
        }
        const { task, fence } = claimed;
        const left = Math.round(claimed.expiresInMs / 1000);
        return print(terminal, { ...task, fence }, `${lineOf(task)}  fence ${fence}, ${left} s`);
      };
      if (context.args[1] === undefined) return onPlan((one) => claim(one))(context);
      return onTask((one) => claim(one, one.task.task_id))(context);
    },
  },
  {
    usage: 'renew <plan> <task>',
    about: 'start the lease of your claim again',
    options: [FENCE, ['--lease <seconds>', 'its new duration (default: as it was)']],
    run: onTask(async ({ planning, plan: { plan_id }, task, options, terminal, signal }) => {
      const ms = options.lease === undefined ? undefined : secondsOf(options.lease) * 1_000;
      const lease_ms = await planning.renew(plan_id, task.task_id, fenceOf(options), ms, { signal });
      return print(terminal, { task_id: task.task_id, lease_ms }, `${lineOf(task)}  ${Math.round(lease_ms / 1_000)} s`);
    }),
  },
  {
    usage: 'release <plan> <task>',
    about: 'give your claim back: the task returns to its column',
    options: [FENCE, ['--comment <text>', 'why']],
    run: onTask(async ({ planning, plan: { plan_id }, task: { task_id }, options, terminal, signal }) => {
      const comment = (options.comment as string | undefined) ?? '';
      const task = await planning.release(plan_id, task_id, fenceOf(options), comment, { signal });
      return print(terminal, task, lineOf(task));
    }),
  },
  {
    usage: 'configure <plan>',
    about: 'change a plan itself: its name, columns and rules',
    options: [
      ['--name <name>', 'its new name'],
      ['--description <text>', 'what it is for'],
      ['--columns <names...>', 'all columns, in order; tasks of a removed one stay in it'],
      ['--rename <old=new...>', 'columns to rename, with their tasks'],
      ['--done <columns...>', 'the columns that end a task'],
      ['--active <column>', 'the column a claim moves its task to; empty: it stays'],
      ['--deps <how>', 'enforced: a task ends after what it waits for; advisory: at any time'],
      ['--if-revision <n>', 'only if this is the revision of the plan'],
    ],
    run: onPlan(async ({ planning, plan, options, terminal, signal }) => {
      const { name, description, columns, rename, done, active, deps, ifRevision } = options;
      const rules = {
        ...(done !== undefined && { done: list(done) as string[] }),
        ...(active !== undefined && { active: active as string }),
        ...(deps !== undefined && { deps: oneOf(deps as string, '--deps', ['enforced', 'advisory']) }),
      };
      const change = {
        ...(name !== undefined && { name: name as string }),
        ...(description !== undefined && { description: description as string }),
        ...(columns !== undefined && { columns: list(columns) as string[] }),
        ...(rename !== undefined && { rename: Object.fromEntries((list(rename) as string[]).map(renaming)) }),
        ...(Object.keys(rules).length > 0 && { rules }),
        ...revisionOf(ifRevision),
      };
      if (Object.keys(change).length === 0) {
        throw fail('usage', 'pass what to change, such as --name or --columns; see: handfast plan configure --help');
      }
      const changed = await planning.configure(plan.plan_id, change, { signal });
      print(terminal, changed, `${changed.plan_id}  ${changed.name}  ${changed.columns.join(' | ')}`);
      const [board] = terminal.json ? [] : await planning.boards(plan.plan_id, { limit: 0 }, { signal });
      for (const [column, tasks] of Object.entries(board?.counts ?? {})) {
        if (changed.columns.includes(column) || tasks === 0) continue;
        terminal.note(`tasks in ${JSON.stringify(column)}, which is no longer a column: ${tasks}`);
      }
      return undefined;
    }),
  },
  {
    usage: 'history <plan> [task]',
    about: 'show what happened, comments included',
    async run(context) {
      const show = async ({ planning, plan, terminal, signal }: PlanContext, taskId: string) => {
        for await (const entry of planning.history(plan.plan_id, taskId, { signal })) printEntry(terminal, entry);
        return undefined;
      };
      if (context.args[1] === undefined) return onPlan((one) => show(one, ''))(context);
      return onTask((one) => show(one, one.task.task_id))(context);
    },
  },
  {
    usage: 'watch <plan>',
    about: 'follow a plan until Ctrl-C',
    options: [['--after <n>', 'start behind this entry of its history (0: from the beginning)']],
    run: onPlan(async ({ planning, plan, options, terminal, signal }) => {
      const after = wholeNumber(options.after, '--after');
      const from = { signal, ...(after !== undefined && { after }) };
      if (!terminal.json) terminal.note(`following ${plan.name}; Ctrl-C ends`);
      for await (const entry of planning.watch(plan.plan_id, from)) printEntry(terminal, entry);
      // A cancelled stream may also end like a complete one.
      signal.throwIfAborted();
      return undefined;
    }),
  },
  {
    usage: 'archive <plan> [task]',
    about: 'archive a plan or a task; --undo restores it',
    options: [['--undo', 'restore it']],
    async run(context) {
      const undo = context.options.undo === true;
      const done = undo ? 'restored' : 'archived';
      if (context.args[1] === undefined) {
        return onPlan(async ({ planning, plan: { plan_id }, terminal, signal }) => {
          const plan = await (undo
            ? planning.restorePlan(plan_id, { signal })
            : planning.archivePlan(plan_id, { signal }));
          return print(terminal, plan, `${plan.name}: ${done}`);
        })(context);
      }
      return onTask(async ({ planning, plan: { plan_id }, task: { task_id }, terminal, signal }) => {
        const change = undo
          ? planning.restore(plan_id, task_id, { signal })
          : planning.archive(plan_id, task_id, { signal });
        const task = await change;
        return print(terminal, task, `${task.title}: ${done}`);
      })(context);
    },
  },
  {
    usage: 'delete <plan> [task]',
    about: 'delete an archived plan, or a task, for good',
    options: [['--force', 'a plan that is not archived; a task that others wait for']],
    async run(context) {
      const force = context.options.force === true;
      if (context.args[1] === undefined) {
        return onPlan(async ({ planning, plan, terminal, signal }) => {
          const deleted = await planning.deletePlan(plan.plan_id, { force }, { signal });
          return print(
            terminal,
            deleted,
            `${plan.name}: deleted, ${counted(deleted.tasks, 'task')}, ${counted(deleted.entries, 'entry', 'entries')}`,
          );
        })(context);
      }
      return onTask(async ({ planning, plan, task, terminal, signal }) => {
        const detached = await planning.delete(plan.plan_id, task.task_id, { force }, { signal });
        return print(terminal, { detached }, `${task.title}: deleted`);
      })(context);
    },
  },
  {
    usage: 'dispatch <plan> [tasks...]',
    about: 'hand the ready tasks of a plan to a fleet, and bring back what becomes of them',
    agentId: DISPATCHER,
    fleet: true,
    options: dispatchOptions,
    help: `A task goes to the fleet when what it waits for is done; title and description are its brief. Ends when no task is ready
and none is in the fleet: exit code 0 when all are done, else 5. After Ctrl-C or a kill the fleet continues, and the same
command takes it up: nothing is dispatched twice.`,
    run: onPlan(async (context) => {
      const { plan, planning, rest } = context;
      const all = rest.length === 0 ? [] : await planning.tasks(plan.plan_id, { includeArchived: true });
      const taskIds = rest.length === 0 ? undefined : rest.map((named) => taskMeant(plan, all, named).task_id);
      return dispatch(context, { planId: plan.plan_id, taskIds });
    }),
  },
  {
    usage: 'share <plan> <principal> <role>',
    about: 'let another principal read or write a plan; role none ends it',
    run: onPlan(async ({ planning, plan, rest: [principal = '', role = ''], terminal, signal }) => {
      const changed = await planning.share(
        plan.plan_id,
        principal,
        oneOf(role, 'the role', ['read', 'write', 'none']),
        { signal },
      );
      return print(
        terminal,
        changed,
        `${plan.name}: ${changed.shares.map((one) => `${one.principal} ${one.role}`).join(', ') || 'shared with none'}`,
      );
    }),
  },
  {
    usage: 'sync <plan> <file>',
    about: 'merge the task lists of a Markdown file with a plan, both ways; a file that is not there is written',
    options: [
      ['--prefer <side>', 'which side wins where both changed: plan or text'],
      ['--dry-run', 'change nothing'],
    ],
    run: onPlan(async ({ planning, plan, rest: [file = ''], options, terminal, signal }) => {
      const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
        if (error.code === 'ENOENT') return '';
        throw fileError(error, file, 'Markdown');
      });
      const dryRun = options.dryRun === true;
      // Changes that the plan accepted and the file did not get would be added again.
      if (!dryRun) await mustBeWritable(file);
      const prefer =
        options.prefer === undefined ? undefined : oneOf(options.prefer as string, '--prefer', ['plan', 'text']);
      const { text: merged, ...outcome } = await planning.markdown(
        plan.plan_id,
        text,
        { dryRun, ...(prefer && { prefer }) },
        { signal },
      );
      if (!dryRun && merged !== text) await writeFile(file, merged);
      const { added, updated, missing, conflicts } = outcome;
      print(
        terminal,
        outcome,
        `${file} (${dryRun ? 'not written' : merged === text ? 'as it was' : 'written'}): ${added.length} added, ${updated.length} updated, ${missing.length} only in the plan, ${conflicts.length} conflicts`,
      );
      for (const { task_id, message, yours, current } of terminal.json ? [] : conflicts) {
        terminal.note(
          `${task_id || 'new'}: ${message}; file ${JSON.stringify(yours)}, plan ${JSON.stringify(current)}`,
        );
      }
      return conflicts.length > 0 ? 5 : undefined;
    }),
  },
];
