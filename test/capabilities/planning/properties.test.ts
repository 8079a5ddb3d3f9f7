/**
 * Properties of every plan, with random tasks and changes: the graph against a slow and simple model, the rules of columns, and
 * Markdown documents of any text.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TaskGraph } from '../../../src/capabilities/planning/graph.ts';
import { DEFAULT_COLUMNS, mustAllowMove, rulesFor } from '../../../src/capabilities/planning/rules.ts';
import type { StoredTask } from '../../../src/capabilities/planning/stored.ts';
import { asError } from '../../../src/wire/errors.ts';
import fc from '../../support/properties.ts';
import { parseMarkdown, renderMarkdown } from './support.ts';

const RUNS = { numRuns: 200 };
const rules = rulesFor(DEFAULT_COLUMNS);
const IDS = Array.from({ length: 8 }, (_, at) => `t${at}`);

const taskOf = (fields: Partial<StoredTask> & Pick<StoredTask, 'task_id' | 'first'>): StoredTask => ({
  title: 't',
  status: 'backlog',
  description: '',
  assignee: '',
  deps: [],
  metadata: {},
  parent: '',
  priority: 0,
  archived: false,
  revision: 1,
  created_at: 0,
  updated_at: 0,
  done_at: null,
  seq: fields.first,
  fence: 0,
  claim: null,
  ...fields,
});

const claim = { principal: 'p', agent: 'a', fence: 1, lease_ms: 1_000, claimed_at: 0, from: 'backlog' };

/** Changes of a plan, some of which the plan refuses. */
const change = fc.record({
  id: fc.constantFrom(...IDS),
  deps: fc.uniqueArray(fc.constantFrom(...IDS), { maxLength: 3 }),
  parent: fc.constantFrom('', ...IDS),
  status: fc.constantFrom(...DEFAULT_COLUMNS, 'elsewhere'),
  assignee: fc.constantFrom('', 'ana', 'bo'),
  priority: fc.integer({ min: -2, max: 2 }),
  archived: fc.boolean(),
  claimed: fc.boolean(),
  removed: fc.integer({ min: 0, max: 9 }).map((one) => one === 0),
});

/** Returns the tasks that a task waits for, by the definition. */
const waitsFor = (tasks: ReadonlyMap<string, StoredTask>, id: string): string[] => [
  ...(tasks.get(id)?.deps ?? []).filter((dep) => tasks.has(dep)),
  ...[...tasks.values()].filter(({ parent }) => parent === id).map(({ task_id }) => task_id),
];

/** Returns true if a task is reached from itself. */
function isInCycle(tasks: ReadonlyMap<string, StoredTask>, id: string): boolean {
  const seen = new Set<string>();
  const open = waitsFor(tasks, id);
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next === id) return true;
    if (seen.has(next)) continue;
    seen.add(next);
    open.push(...waitsFor(tasks, next));
  }
  return false;
}

test('ready, blocked, counts and cycles are those of the definition, after any changes', () => {
  fc.assert(
    fc.property(fc.array(change, { maxLength: 60 }), (changes) => {
      const graph = new TaskGraph(rules);
      const tasks = new Map<string, StoredTask>();
      for (const [at, { id, removed, claimed, ...fields }] of changes.entries()) {
        if (removed) {
          // The plan removes a deleted task from those that name it.
          for (const one of [...tasks.values()]) {
            const deps = one.deps.filter((dep) => dep !== id);
            const parent = one.parent === id ? '' : one.parent;
            if (deps.length === one.deps.length && parent === one.parent) continue;
            const detached = { ...one, deps, parent };
            tasks.set(one.task_id, detached);
            graph.put(detached);
          }
          tasks.delete(id);
          graph.remove(id);
          continue;
        }
        const deps = fields.deps.filter((dep) => tasks.has(dep) || dep === id);
        const parent = tasks.has(fields.parent) || fields.parent === id ? fields.parent : '';
        const first = tasks.get(id)?.first ?? at + 1;
        const next = taskOf({ ...fields, task_id: id, first, deps, parent, claim: claimed ? claim : null });
        const cycle = graph.cycleWith(id, deps, parent);
        const changed = new Map(tasks).set(id, next);
        assert.equal(cycle !== undefined, isInCycle(changed, id), 'a cycle is found when there would be one');
        if (cycle !== undefined) {
          assert.deepEqual([cycle[0], cycle.at(-1)], [id, id]);
          for (const [step, from] of cycle.slice(0, -1).entries()) {
            assert.ok(waitsFor(changed, from).includes(cycle[step + 1] as string), `${cycle.join(' ')} is a cycle`);
          }
          continue;
        }
        tasks.set(id, next);
        graph.put(next);
      }
      const isDone = (id: string): boolean => tasks.get(id)?.status === 'done';
      const ready: StoredTask[] = [];
      for (const task of tasks.values()) {
        const blockers = [...new Set(waitsFor(tasks, task.task_id))].filter((id) => !isDone(id));
        assert.deepEqual([...new Set(graph.blockers(task.task_id))].sort(), blockers.sort());
        const { status, archived } = task;
        const isReady =
          blockers.length === 0 && !archived && task.claim === null && status !== 'done' && status !== 'in_progress';
        assert.equal(graph.isReady(task.task_id), isReady);
        if (isReady) ready.push(task);
      }
      ready.sort((left, right) => right.priority - left.priority || left.first - right.first);
      for (const name of ['', 'ana', 'bo']) {
        const fitting = ready.filter(({ assignee }) => assignee === '' || assignee === name);
        assert.deepEqual(graph.ready(name), fitting);
        for (const [at, task] of fitting.entries()) assert.deepEqual(graph.ready(name, task), fitting.slice(at + 1));
        assert.equal(graph.next(name), fitting[0]);
        assert.equal(graph.readyFor(name), ready.filter(({ assignee }) => assignee === name).length);
      }
      const shown = [...tasks.values()].filter(({ archived }) => !archived);
      assert.deepEqual(graph.counts, {
        tasks: shown.length,
        done: shown.filter(({ status }) => status === 'done').length,
        claimed: [...tasks.values()].filter((task) => task.claim !== null).length,
        ready: ready.length,
      });
    }),
    RUNS,
  );
});

const columnsOf = fc.uniqueArray(fc.string({ minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 6 });

test('rules that are made of columns, and of columns that changed, name only columns that there are', () => {
  fc.assert(
    fc.property(columnsOf, columnsOf, (columns, later) => {
      const made = rulesFor(columns);
      for (const [now, names] of [
        [made, columns],
        [rulesFor(later, {}, made), later],
      ] as const) {
        assert.ok(now.done.length > 0);
        for (const name of [...now.done, ...(now.active === '' ? [] : [now.active])]) assert.ok(names.includes(name));
        assert.ok(!now.done.includes(now.active));
      }
    }),
    {
      ...RUNS,
      examples: [
        [
          ['todo', 'doing', 'done'],
          ['todo', 'doing'],
        ],
      ],
    },
  );
});

test('a move is allowed exactly when the rules have it, is forced, or changes nothing', () => {
  const column = fc.constantFrom(...DEFAULT_COLUMNS);
  // A status may be any text if the rules had no moves before.
  const any = fc.constantFrom(...DEFAULT_COLUMNS, 'x', 'constructor', 'toString', '__proto__');
  const moves = fc.dictionary(fc.constantFrom(...DEFAULT_COLUMNS, '__proto__'), fc.array(column), {
    noNullPrototype: true,
  });
  fc.assert(
    fc.property(fc.option(moves), any, any, fc.boolean(), (given, from, to, force) => {
      const allowed =
        given === null ||
        from === to ||
        (force ? DEFAULT_COLUMNS.includes(to) : Object.hasOwn(given, from) && (given[from] as string[]).includes(to));
      let code = 'allowed';
      try {
        mustAllowMove({ ...rules, moves: given }, DEFAULT_COLUMNS, from, to, force);
      } catch (thrown) {
        ({ code } = asError(thrown));
      }
      assert.equal(code, allowed ? 'allowed' : 'planning.not_allowed');
    }),
    RUNS,
  );
});

/** Lines of documents, with broken ones. */
const line = fc.oneof(
  fc.constantFrom(
    '# Title',
    '- [ ] open',
    '  - [x] nested',
    '\t* [X] tab',
    '1. [ ] numbered',
    '- plain',
    '```',
    '~~~~',
    '<!-- a comment',
    '-->',
    '    - [ ] code',
    '- [ ] <!-- inside -->',
    '- [ ] known <!-- task:0f1e2d3c4b5a@3 -->',
    '- [ ] known <!-- task:0f1e2d3c4b5a@3 --> and more',
    '<!-- plan:a1b2c3d4e5f6@17 -->',
    '- []',
    '- [ ]',
    '- [ ] see <!\\-- this -->',
    '',
  ),
  fc.string({ maxLength: 20 }),
  fc.string({ unit: 'grapheme', maxLength: 10 }).map((text) => `- [ ] ${text}`),
);
const text = fc
  .tuple(fc.array(fc.tuple(line, fc.constantFrom('\n', '\r\n')), { maxLength: 20 }), fc.boolean())
  .map(([lines, ends]) => {
    const whole = lines.map(([one, end]) => one + end).join('');
    return ends ? whole : whole.trimEnd();
  });
const PLAN = 'a1b2c3d4e5f6';
/** Titles of a plan: any line, even one that looks like a comment. */
const titles = fc
  .oneof(
    fc.constantFrom(
      'a <!-- b',
      'x -->',
      '<!-- task:0f1e2d3c4b5a@3 -->',
      'a <!\\-- b',
      '<!\\\\-- -->',
      '[x] done',
      '# not',
    ),
    fc.string({ minLength: 1, maxLength: 20 }).map((title) => title.replaceAll(/[\r\n]/g, '')),
  )
  .map((title) => title.trim())
  .filter((title) => title !== '');

test('a document that nothing changed in keeps every byte but its marker', () => {
  fc.assert(
    fc.property(text, (given) => {
      const document = parseMarkdown(given, PLAN);
      assert.equal(document.lines.join(''), given);
      const written = renderMarkdown(document, new Map(), [], { planId: PLAN, seq: 17 });
      const { marker, lines, unfinished } = document;
      if (marker !== undefined) {
        const others = lines.filter((_, at) => at !== marker.line).join('');
        const after = parseMarkdown(written, PLAN);
        assert.equal(after.lines.filter((_, at) => at !== after.marker?.line).join(''), others);
      } else if (unfinished) assert.equal(written, given);
      else assert.ok(written.startsWith(given));
    }),
    { numRuns: 1_000 },
  );
});

test('tasks that were written into a document are read from it again: id, revision, title and state', () => {
  fc.assert(
    fc.property(
      text,
      fc.infiniteStream(fc.tuple(fc.boolean(), fc.integer({ min: 1, max: 9_999 }), fc.option(titles))),
      (given, more) => {
        const document = parseMarkdown(given, PLAN);
        const rewritten = new Map(
          document.tasks.map((task, at) => {
            const [done, revision, title] = more.next().value as [boolean, number, string | null];
            return [
              at,
              { taskId: at.toString(16).padStart(12, '0'), revision, title: title ?? task.title, done },
            ] as const;
          }),
        );
        const written = renderMarkdown(document, rewritten, [], { planId: PLAN, seq: 1 });
        const again = parseMarkdown(written, PLAN).tasks;
        assert.deepEqual(
          again.map(({ taskId, revision, title, done }) => ({ taskId, revision, title, done })),
          [...rewritten.values()].map(({ taskId, revision, title, done }) => ({ taskId, revision, title, done })),
        );
        // Lines that are no task are unchanged.
        const at = new Set(document.tasks.map((task) => task.line));
        const isOther = (_: string, place: number) => !at.has(place) && place !== document.marker?.line;
        assert.deepEqual(
          written
            .match(/[^\n]*\n|[^\n]+$/g)
            ?.slice(0, document.lines.length)
            .filter(isOther) ?? [],
          document.lines
            .map((one, place) =>
              place === document.lines.length - 1 &&
              !one.endsWith('\n') &&
              !document.unfinished &&
              document.marker === undefined
                ? endOf(one, written)
                : one,
            )
            .filter(isOther),
        );
      },
    ),
    { numRuns: 1_000 },
  );
});

/** Returns the last line, with a line end if the marker follows it. */
const endOf = (one: string, written: string): string => (written.includes(`${one}\r\n`) ? `${one}\r\n` : `${one}\n`);
