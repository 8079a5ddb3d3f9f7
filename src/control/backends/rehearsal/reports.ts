/**
 * The rehearsal backend's report of a finished call: in plain words, with only the facts that the result itself shows. Pure.
 */
import type { HistoryItem } from '../../contract/session-log.ts';
import type { CountedUnit, ToolDirective } from './directives.ts';

type ToolItem = Extract<HistoryItem, { role: 'tool' }>;
type Facts = Readonly<Record<string, unknown>>;

/** Maximum length of a text that is repeated in an answer. */
const SHOWN_LINES = 20;
const SHOWN_CHARACTERS = 1500;
const SHOWN_NAMES = 40;

/** Returns one or more lines about the result of a directive. */
export function reportOf(directive: ToolDirective, { ok, result, error = 'it failed', name }: ToolItem): string {
  const facts: Facts = typeof result === 'object' && result !== null ? (result as Facts) : {};
  // A program that ran and failed has a result like any other.
  if (!ok && !(directive.kind === 'run' && typeof facts.exit_code === 'number')) {
    return `I could not ${intention(directive)}: ${error}`;
  }
  switch (directive.kind) {
    case 'read':
      return directive.count === undefined ? contentReport(directive.path, facts) : countReport(directive, facts);
    case 'list':
      return listReport(directive.path, facts);
    case 'find':
      return findReport(directive.patterns, facts);
    case 'grep':
      return grepReport(directive.text, facts);
    case 'write':
      return `I ${facts.created === true ? 'created' : 'wrote'} ${directive.path} (${amount(facts.bytes, 'byte')}).`;
    case 'edit':
      return `I replaced ${amount(facts.replacements, 'place')} in ${directive.path}.`;
    case 'run':
      return runReport(directive.command, facts);
    case 'fetch':
      return fetchReport(directive.url, facts);
    case 'ask':
      return `You answered: ${String(facts.answer ?? '')}`;
    case 'call':
      return `${name} answered: ${excerpt(JSON.stringify(result) ?? 'null')}`;
  }
}

/** Returns the aim of the call, for failures. */
function intention(directive: ToolDirective): string {
  switch (directive.kind) {
    case 'find':
      return `find ${directive.patterns.join(', ')}`;
    case 'grep':
      return `search for "${directive.text}"`;
    case 'run':
      return `run \`${directive.command}\``;
    case 'fetch':
      return `fetch ${directive.url}`;
    case 'ask':
      return `get an answer to "${directive.question}"`;
    case 'call':
      return `call ${directive.tool}`;
    default:
      return `${directive.kind} ${directive.path}`;
  }
}

function contentReport(path: string, facts: Facts): string {
  const content = textOf(facts.content);
  const size = amount(facts.size, 'byte');
  const lines = typeof facts.total_lines === 'number' ? `${amount(facts.total_lines, 'line')}, ` : '';
  if (facts.encoding === 'base64') return `${path} is not text (${size}).`;
  return content === '' ? `${path} is empty.` : `${path} (${lines}${size}):\n${excerpt(content)}`;
}

/** Counts come out of the result; where it holds only a part of the file, the report states that. */
function countReport({ path, count }: { path: string; count?: CountedUnit }, facts: Facts): string {
  const content = textOf(facts.content);
  if (count === 'lines') {
    if (typeof facts.total_lines === 'number') return `${path} has ${amount(facts.total_lines, 'line')}.`;
    if (facts.total_lines === null) return `${path} is too large for its lines to be counted.`;
  }
  const counted =
    count === 'words'
      ? content.split(/\s+/).filter((word) => word !== '').length
      : count === 'lines'
        ? content.split('\n').length - (content === '' || content.endsWith('\n') ? 1 : 0)
        : [...content].length;
  const unit = (count ?? 'lines').slice(0, -1);
  if (isWhole(content, facts)) return `${path} has ${amount(counted, unit)}.`;
  return `${path} has at least ${amount(counted, unit)}; I was given only a part of it.`;
}

/** True when a result holds the whole file: neither the tool nor the bound on results has cut it. */
function isWhole(content: string, { truncated, size, bom, lossy }: Facts): boolean {
  if (truncated === true) return false;
  if (typeof size !== 'number' || lossy === true) return true;
  return Buffer.byteLength(content) + (bom === true ? 3 : 0) === size;
}

function listReport(path: string, facts: Facts): string {
  const entries = itemsOf(facts.entries) as readonly { path?: unknown; type?: unknown }[];
  const names = entries.map((entry) => `${textOf(entry.path)}${entry.type === 'directory' ? '/' : ''}`);
  const more = facts.truncated === true ? 'at least ' : '';
  return `${path} has ${more}${amount(entries.length, 'entry')}${named(names)}`;
}

function findReport(patterns: readonly string[], facts: Facts): string {
  const paths = itemsOf(facts.paths).map(textOf);
  const more = facts.truncated === true ? 'at least ' : '';
  return `${patterns.join(', ')} fits ${more}${amount(paths.length, 'file')}${named(paths)}`;
}

function grepReport(text: string, facts: Facts): string {
  const files = itemsOf(facts.files) as readonly { path?: unknown; matches?: unknown }[];
  const lines = files.flatMap(({ path, matches }) =>
    (itemsOf(matches) as readonly { line?: unknown; text?: unknown }[]).map(
      (match) => `${textOf(path)}:${String(match.line)}: ${textOf(match.text).trim()}`,
    ),
  );
  if (lines.length === 0) return `"${text}" is in no file I searched (${amount(facts.files_searched, 'file')}).`;
  const more = facts.truncated === true ? 'at least ' : '';
  return `"${text}" is in ${more}${amount(lines.length, 'line')} of ${amount(files.length, 'file')}:\n${excerpt(lines.join('\n'))}`;
}

function runReport(command: string, facts: Facts): string {
  const output = [textOf(facts.stdout), textOf(facts.stderr)].filter((text) => text.trim() !== '').join('\n');
  const code = typeof facts.exit_code === 'number' ? ` ended with exit code ${facts.exit_code}` : ' ended';
  const late = facts.timed_out === true ? ', because it ran out of time' : '';
  return `\`${command}\`${code}${late}${output === '' ? '.' : `:\n${excerpt(output)}`}`;
}

function fetchReport(url: string, facts: Facts): string {
  const about = [textOf(facts.content_type), amount(facts.bytes, 'byte')].filter((part) => part !== '').join(', ');
  const head = `${url} answered ${String(facts.status)} (${about})`;
  const text = textOf(facts.text);
  return text === '' ? `${head}.` : `${head}:\n${excerpt(text)}`;
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : '');

const itemsOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** `1 line`, `3 entries`, `some bytes`. */
function amount(count: unknown, unit: string): string {
  const several = unit.endsWith('y') ? `${unit.slice(0, -1)}ies` : `${unit}s`;
  if (typeof count !== 'number') return `some ${several}`;
  return count === 1 ? `1 ${unit}` : `${count} ${several}`;
}

function named(names: readonly string[]): string {
  if (names.length === 0) return '.';
  const more = names.length > SHOWN_NAMES ? `, … (${names.length - SHOWN_NAMES} more)` : '';
  return `: ${names.slice(0, SHOWN_NAMES).join(', ')}${more}`;
}

/** Returns the beginning of a text, and names the size of the rest. */
function excerpt(text: string): string {
  const trimmed = text.trimEnd();
  const lines = trimmed.split('\n');
  const shown = lines.slice(0, SHOWN_LINES).join('\n');
  const whole = [...shown.slice(0, SHOWN_CHARACTERS * 2)].slice(0, SHOWN_CHARACTERS).join('');
  const left = lines.length - SHOWN_LINES;
  if (left > 0 && whole.length === shown.length) return `${whole}\n… (${amount(left, 'more line')})`;
  return whole.length < shown.length ? `${whole} …` : whole;
}
