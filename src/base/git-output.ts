/**
 * Parses the output of git: states and worktrees from its `-z` forms, where no name is quoted, and the line of an error
 * that gives the reason. Also the variables by which a caller's environment names another repository.
 *
 * Pure. The fleet and the git tools run git in different ways and read it alike.
 */
import { isUtf8 } from 'node:buffer';

/**
 * Variables that name another repository, or another part of one, as `git rev-parse --local-env-vars` lists them. A process that
 * was started from a hook or a rebase has them. Those of configuration stay: containers set `safe.directory` there.
 */
export const OTHER_REPOSITORY: Readonly<Record<string, undefined>> = {
  GIT_ALTERNATE_OBJECT_DIRECTORIES: undefined,
  GIT_COMMON_DIR: undefined,
  GIT_CONFIG: undefined,
  GIT_DIR: undefined,
  GIT_GRAFT_FILE: undefined,
  GIT_IMPLICIT_WORK_TREE: undefined,
  GIT_INDEX_FILE: undefined,
  GIT_INTERNAL_SUPER_PREFIX: undefined,
  GIT_NAMESPACE: undefined,
  GIT_NO_REPLACE_OBJECTS: undefined,
  GIT_OBJECT_DIRECTORY: undefined,
  GIT_PREFIX: undefined,
  GIT_QUARANTINE_PATH: undefined,
  GIT_REPLACE_REF_BASE: undefined,
  GIT_SHALLOW_FILE: undefined,
  GIT_WORK_TREE: undefined,
};

/**
 * Decodes output of git with names of files, which are bytes: those that are not UTF-8 become the surrogates U+DC80 to
 * U+DCFF, so that each name stays distinct. `fileNamed` gives the file of such a name, `readableName` a text for people
 * and results.
 */
export function decodeNames(output: Buffer): string {
  if (isUtf8(output)) return output.toString('utf8');
  const records: string[] = [];
  for (let from = 0; from <= output.length; ) {
    const end = output.indexOf(0, from);
    const record = output.subarray(from, end === -1 ? output.length : end);
    records.push(isUtf8(record) ? record.toString('utf8') : decodeBytes(record));
    from = end === -1 ? output.length + 1 : end + 1;
  }
  return records.join('\0');
}

function decodeBytes(bytes: Buffer): string {
  const latin1 = bytes.toString('latin1');
  let text = '';
  for (let at = 0; at < bytes.length; ) {
    utf8.lastIndex = at;
    const length = utf8.exec(latin1)?.[0].length;
    text += length === undefined ? String.fromCharCode(RAW + bytes[at]!) : bytes.toString('utf8', at, at + length);
    at += length ?? 1;
  }
  return text;
}

/** Bytes, one a character, that are UTF-8. */
const utf8 =
  /(?:[\0-\x7f]|[\xc2-\xdf][\x80-\xbf]|(?:\xe0[\xa0-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]|\xed[\x80-\x9f])[\x80-\xbf]|(?:\xf0[\x90-\xbf]|[\xf1-\xf3][\x80-\xbf]|\xf4[\x80-\x8f])[\x80-\xbf]{2}){1,4096}/y;

/** With a byte that is no UTF-8 it is the lower half of a pair, which UTF-8 never has. */
const RAW = 0xdc00;
const rawByte = /\p{Surrogate}/gu;

/** Returns a path with a name from `decodeNames` in the form that the file system takes. */
export function fileNamed(path: string): string | Buffer {
  if (path.isWellFormed()) return path;
  const parts = path.split(/(\p{Surrogate})/u);
  return Buffer.concat(
    parts.map((part, at) => (at % 2 === 1 ? Buffer.of(part.charCodeAt(0) - RAW) : Buffer.from(part, 'utf8'))),
  );
}

/** Returns a name from `decodeNames` as text: bytes that are not UTF-8 as `\xe9`. */
export const readableName = (name: string): string =>
  name.replaceAll(rawByte, (byte) => `\\x${(byte.charCodeAt(0) - RAW).toString(16)}`);

/** A path that differs from the commit. */
export interface StatusEntry {
  /** State in the index and in the working tree (`.M`, `A.`, `R.`, …), `??` for one that git does not know, `!!` for an ignored one. */
  readonly state: string;
  /** The record before the path. */
  readonly fields: string;
  /** From the top of the repository; a folder ends with `/`. */
  readonly path: string;
  /** The name before, where git took it for a rename or a copy. */
  readonly from?: string;
}

export interface GitStatus {
  /** null: no branch, a commit is checked out. */
  readonly branch: string | null;
  /** null: the repository has no commit yet. */
  readonly head: string | null;
  /** Lines before the entries, `# branch.head main` and the like. */
  readonly headers: readonly string[];
  readonly entries: readonly StatusEntry[];
}

/**
 * The fields before the path, by the first character of a record: `? path`, `! path`, `1 XY sub mH mI mW hH hI path`,
 * `2 XY sub mH mI mW hH hI Xscore path` and then the name before, `u XY sub m1 m2 m3 mW h1 h2 h3 path`.
 */
const FIELDS: ReadonlyMap<string, number> = new Map([
  ['?', 1],
  ['!', 1],
  ['1', 8],
  ['2', 9],
  ['u', 10],
]);

/** Reads `git status --porcelain=v2 --branch -z`. Of an output that was cut, the last entry is dropped. */
export function readStatus(output: string): GitStatus {
  const headers: string[] = [];
  const entries: StatusEntry[] = [];
  const records = output.split('\0');
  records.pop();
  for (let at = 0; at < records.length; at += 1) {
    const record = records[at] as string;
    const kind = record[0] as string;
    const count = FIELDS.get(kind);
    if (count === undefined) {
      headers.push(record);
      continue;
    }
    const path = afterFields(record, count);
    const fields = record.slice(0, record.length - path.length);
    const state = kind === '?' || kind === '!' ? kind.repeat(2) : record.slice(2, 4);
    const entry = { state, fields, path };
    entries.push(kind === '2' ? { ...entry, from: records[++at] ?? '' } : entry);
  }
  const header = (name: string): string | undefined => {
    const start = `# branch.${name} `;
    return headers.find((line) => line.startsWith(start))?.slice(start.length);
  };
  const [head = '(initial)', branch = '(detached)'] = [header('oid'), header('head')];
  return {
    branch: branch === '(detached)' ? null : branch,
    head: head === '(initial)' ? null : head,
    headers,
    entries,
  };
}

function afterFields(record: string, count: number): string {
  let at = -1;
  for (let field = 0; field < count; field += 1) at = record.indexOf(' ', at + 1);
  return record.slice(at + 1);
}

/** Returns a name for one line: unchanged, or as a JSON text if it has control characters. */
export const nameInLine = (name: string): string => (/\p{Cc}/u.test(name) ? JSON.stringify(name) : name);

/** Returns a state as git prints it without `-z`, with unquoted names; a rename has the previous name after a tab. */
export function statusLines({ headers, entries }: GitStatus): string {
  const lines = entries.map(({ fields, path, from }) => {
    const before = from === undefined ? '' : `\t${nameInLine(from)}`;
    return `${fields}${nameInLine(path)}${before}`;
  });
  return [...headers, ...lines].map((line) => `${line}\n`).join('');
}

/** Lists files that git ignores, a folder that holds no others as one. Read with {@link readNames}. */
export const LIST_IGNORED = [
  'ls-files',
  '--others',
  '--ignored',
  '--exclude-standard',
  '--directory',
  '--no-empty-directory',
  '-z',
] as const;

/** Reads a list of names in `-z` form. */
export const readNames = (output: string): string[] => output.split('\0').filter((name) => name !== '');

/** A worktree in the list of a repository. */
export interface WorktreeEntry {
  /** Its real path, as git stored it. */
  readonly path: string;
  readonly head: string | null;
  /** null: a commit is checked out, or it is a bare repository. */
  readonly branch: string | null;
  readonly bare: boolean;
  /**
   * Reason of the lock, perhaps an empty text; undefined: not locked. `initializing`: the worktree was not created
   * completely.
   */
  readonly locked: string | undefined;
}

/** Lists worktrees. A git before 2.36 has no `-z` here; without it a folder with a line break in its name shows the first line. */
export const LIST_WORKTREES = ['worktree', 'list', '--porcelain', '-z'] as const;

/**
 * Reads the output of {@link LIST_WORKTREES}, also without `-z`. The first is the repository's own working tree, or the bare
 * repository.
 */
export function readWorktrees(output: string): readonly WorktreeEntry[] {
  const found: WorktreeEntry[] = [];
  const end = output.includes('\0') ? '\0' : '\n';
  for (const record of output.split(end + end)) {
    const values = new Map<string, string>();
    for (const line of record.split(end)) {
      const [name = '', ...words] = line.split(' ');
      values.set(name, words.join(' '));
    }
    const path = values.get('worktree');
    if (path === undefined) continue;
    found.push({
      path,
      head: values.get('HEAD') ?? null,
      branch: values.get('branch')?.replace(/^refs\/heads\//, '') ?? null,
      bare: values.has('bare'),
      locked: values.get('locked'),
    });
  }
  return found;
}

/** Lines of progress, and hints. */
const NOT_THE_REASON =
  /^(?:hint:|warning:|Preparing worktree|Updating files|Filtering content|HEAD is now|Cloning into|Downloading |\d\d:\d\d:\d\d\.\d+ )/;
const MAX_REASON = 300;

/**
 * Returns git's reason for a failure: the first line that gives one, with the line that names the failure if it is
 * another, and git's command that fixes it, if any. One line; empty when git gave no reason.
 */
export function reasonOf(stderr: string): string {
  const lines = stderr
    .split(/[\r\n]+/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !NOT_THE_REASON.test(line));
  const [first = ''] = lines;
  // In a partial clone, the line after the reason why a file was not fetched states that it had to be.
  const fetched = lines.find((line) => / from promisor remote$/.test(line));
  const fatal = fetched ?? lines.find((line) => /^(?:fatal|error|BUG): /.test(line));
  const said = fatal === undefined || fatal === first ? first : `${first}; ${fatal}`;
  const remedy = lines.find((line) => line.startsWith('git config --global --add safe.directory '));
  return [said.slice(0, MAX_REASON), ...(remedy === undefined ? [] : [`allow it with: ${remedy}`])]
    .join('; ')
    .replaceAll(/\p{Cc}/gu, ' ');
}

/**
 * Returns true for a failure because another git holds a lock file, or is about to make a worktree: a later try does
 * not meet it.
 */
export const isLockHeld = (stderr: string): boolean =>
  /(?:Unable to create|could not lock) .*: File exists|failed to read .*commondir/.test(stderr);
