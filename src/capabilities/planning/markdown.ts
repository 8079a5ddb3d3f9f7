/**
 * Task lists in Markdown documents, as GitHub has them: finds the lines that are tasks, and rewrites the tasks of a document.
 * All other content retains every byte: prose, other lists, code blocks, line endings, spaces.
 *
 * A task that a plan knows carries its id and the revision it was written at: `- [ ] Title <!-- task:0f1e2d3c4b5a@3 -->`. A
 * line `<!-- plan:a1b2c3d4e5f6@17 -->` names the last entry of the plan's history that the document has.
 *
 * Pure.
 */

/** One task of a document. */
export interface MarkdownTask {
  /** Its line, from 0. */
  readonly line: number;
  readonly title: string;
  readonly done: boolean;
  /** Undefined: the task has no id of a plan yet. */
  readonly taskId: string | undefined;
  /** The revision it was written at; 0 without an id. */
  readonly revision: number;
  /** The task it is nested in, by its place in the list of tasks. */
  readonly parent: number | undefined;
}

export interface MarkdownDocument {
  /** The lines with their endings: joined they are the text. */
  readonly lines: readonly string[];
  readonly tasks: readonly MarkdownTask[];
  /** The marker of the requested plan. */
  readonly marker: { readonly line: number; readonly seq: number } | undefined;
  /** True when the document ends within a code block or a comment: nothing can be added at its end. */
  readonly unfinished: boolean;
}

/** The content of a rewritten task line. */
export interface TaskText {
  readonly taskId: string;
  readonly revision: number;
  readonly title: string;
  readonly done: boolean;
}

/**
 * Indent, bullet with opening bracket, state, closing bracket with space, title, id with revision, trailing space and line end.
 * Each run of spaces is read from its start alone: otherwise a line of many spaces takes quadratic time.
 */
const TASK =
  /^([ \t]*)((?:[-*+]|\d{1,9}[.)])[ \t]+\[)([ xX])(\][ \t]+)(?=[^ \t])(.*?)((?<![ \t])[ \t]*<!-- task:([0-9a-f]{12})@(\d{1,15}) -->)?((?<![ \t])[ \t]*\r?\n?)$/;
const MARKER = /^<!-- plan:([0-9a-f]{12})@(\d{1,15}) -->[ \t]*\r?\n?$/;
const FENCE = /^[ \t]*(`{3,}|~{3,})/;
/** Columns of a tab, and the indent from which a line outside of a list is code. */
const TAB = 4;

/** Finds the tasks of a document, line by line. Every text is a document; without tasks the list is empty. */
export function* parsingMarkdown(text: string, planId: string): Generator<void, MarkdownDocument> {
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const tasks: MarkdownTask[] = [];
  /** The items in which a line may be nested, with their indents. */
  let open: { indent: number; task: number | undefined }[] = [];
  let marker: MarkdownDocument['marker'];
  let fence: string | undefined;
  let inComment = false;
  for (const [line, content] of lines.entries()) {
    yield;
    const found = FENCE.exec(content)?.[1];
    if (fence !== undefined) {
      if (found?.startsWith(fence)) fence = undefined;
      continue;
    }
    if (inComment) {
      inComment = !content.includes('-->');
      continue;
    }
    if (found !== undefined) {
      if (!/^[ \t]/.test(content)) open = [];
      fence = found;
      continue;
    }
    const marked = MARKER.exec(content);
    if (marked !== null) {
      if (marked[1] === planId) marker ??= { line, seq: Number(marked[2]) };
      continue;
    }
    const item = /^([ \t]*)(?:[-*+]|\d{1,9}[.)])(?:[ \t]|\r?\n?$)/.exec(content);
    const indent = columnsOf(/^[ \t]*/.exec(content)?.[0] ?? '');
    if (item === null) {
      // A blank or indented line continues a list; any other ends it.
      if (content.trim() !== '' && indent === 0) open = [];
    } else {
      open = open.filter((outer) => outer.indent < indent);
      const isCode = indent >= TAB && open.length === 0;
      const task = isCode ? null : TASK.exec(content);
      const raw = task?.[5]?.trim() ?? '';
      // A comment that opens in a title would swallow the id behind it.
      const isTask = task !== null && raw !== '' && !raw.includes('<!--');
      const title = unescaped(raw);
      if (isTask) {
        tasks.push({
          line,
          title,
          done: task[3] !== ' ',
          taskId: task[7],
          revision: Number(task[8] ?? 0),
          parent: open.findLast((outer) => outer.task !== undefined)?.task,
        });
      }
      if (!isCode) open.push({ indent, task: isTask ? tasks.length - 1 : undefined });
    }
    const opened = content.lastIndexOf('<!--');
    if (opened >= 0 && !content.includes('-->', opened)) inComment = true;
  }
  return { lines, tasks, marker, unfinished: fence !== undefined || inComment };
}

const columnsOf = (space: string): number =>
  [...space].reduce((at, char) => at + (char === '\t' ? TAB - (at % TAB) : 1), 0);

/** A new task below those of the document; `depth` nests it. */
export interface AppendedTask extends TaskText {
  readonly depth: number;
}

/**
 * Renders the document with rewritten tasks, by their position in it, with appended tasks, and with its marker. If a rewritten
 * task has the title and state it had, only its id and revision change. Yields before each rewritten task.
 */
export function* renderingMarkdown(
  { lines, tasks, marker, unfinished }: MarkdownDocument,
  rewritten: ReadonlyMap<number, TaskText>,
  appended: readonly AppendedTask[],
  mark: { readonly planId: string; readonly seq: number },
): Generator<void, string> {
  const written = [...lines];
  for (const [at, text] of rewritten) {
    yield;
    const task = tasks[at] as MarkdownTask;
    written[task.line] = rewrite(lines[task.line] as string, task, text);
  }
  const end = lines.some((line) => line.endsWith('\r\n')) ? '\r\n' : '\n';
  const more = appended.map(
    (task) => `${'  '.repeat(task.depth)}- [${task.done ? 'x' : ' '}] ${escaped(task.title)} ${idOf(task)}${end}`,
  );
  const line = `<!-- plan:${mark.planId}@${mark.seq} -->`;
  if (marker !== undefined) {
    written[marker.line] = (lines[marker.line] as string).replace(/<!-- plan:.* -->/, line);
    if (more.length > 0) written.splice(marker.line, 0, ...more);
    return written.join('');
  }
  if (unfinished) return written.join('');
  const last = written.at(-1);
  if (last !== undefined && !last.endsWith('\n')) written.push(end);
  return [...written, ...more, `${line}${end}`].join('');
}

/** Escapes a comment in the title of a plan's task with a backslash, and one that has backslashes with one more. */
const escaped = (title: string): string => title.replaceAll(/<!(\\*)--/g, '<!\\$1--');
const unescaped = (title: string): string => title.replaceAll(/<!\\(\\*)--/g, '<!$1--');

const idOf = ({ taskId, revision }: TaskText): string => `<!-- task:${taskId}@${revision} -->`;

function rewrite(line: string, before: MarkdownTask, text: TaskText): string {
  const [, indent = '', bullet = '', state = ' ', box = '', shown = '', id, , , rest = ''] = TASK.exec(line) ?? [];
  const title = text.title === before.title ? shown : escaped(text.title);
  const done = text.done === before.done ? state : text.done ? 'x' : ' ';
  const space = id === undefined ? ' ' : (/^[ \t]*/.exec(id)?.[0] ?? ' ');
  return `${indent}${bullet}${done}${box}${title}${space}${idOf(text)}${rest}`;
}
