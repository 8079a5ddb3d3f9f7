/**
 * The arguments of a tool call and its outcome, on one line for people. Goes by the members results have in common rather than
 * by the names of tools, so that tools of plugins and of agents read well too. Pure.
 */

/** Longest input or result shown, in characters. */
const LONGEST = 160;

/** Members that describe a call, the most informative first. */
const SUBJECTS = ['command', 'argv', 'pattern', 'patterns', 'query', 'path', 'file_path', 'url', 'question'];

type Facts = Readonly<Record<string, unknown>>;

/** Returns a value on one line, cut where it is long. */
export function oneLine(value: unknown, longest = LONGEST): string {
  const text = (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).trim().replaceAll(/\s+/g, ' ');
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}

/** Returns the subject of a call: `README.md`, `npm test`, `TODO in src`. */
export function subjectOf(input: Facts): string {
  const subject = SUBJECTS.find((name) => Object.hasOwn(input, name));
  if (subject === undefined) {
    return oneLine(
      Object.entries(input)
        .map(([name, value]) => `${name}=${oneLine(value)}`)
        .join(' '),
    );
  }
  const value = input[subject];
  const shown = Array.isArray(value) ? value.map((each) => oneLine(each)).join(' ') : value;
  const isIn = subject.startsWith('pattern') && typeof input.path === 'string' && input.path !== '.';
  return oneLine(isIn ? `${oneLine(shown)} in ${input.path}` : shown);
}

/** Returns the outcome of a call: `4 lines, 20 bytes`, `exit code 1: no such file`. `''`: nothing worth showing. */
export function summaryOf(result: unknown): string {
  if (typeof result === 'string') return firstLine(result);
  if (typeof result !== 'object' || result === null)
    return result === undefined || result === null ? '' : oneLine(result);
  const facts = result as Facts;
  if (typeof facts.summary === 'string') return oneLine(facts.summary);
  const found = kinds.map((kind) => kind(facts)).find((text) => text !== undefined);
  if (found === undefined) return oneLine(result);
  return facts.truncated === true ? `${found}, cut` : found;
}

/** Returns the reason why a call failed: the first sentence, which is for people; the rest is for the model. */
export function failureOf(error: string | undefined, result: unknown): string {
  const ran = exitOf((result ?? {}) as Facts);
  if (ran !== undefined) return ran;
  const text = oneLine(error ?? summaryOf(result));
  const end = text.indexOf('. ');
  return end > 0 ? text.slice(0, end) : text;
}

/** `1 line`, `3 entries`. */
export function amount(count: number, unit: string): string {
  if (count === 1) return `1 ${unit}`;
  return `${count} ${/[^aeiou]y$/.test(unit) ? `${unit.slice(0, -1)}ies` : `${unit}s`}`;
}

/** The summary of each kind of result; the first that recognises it. */
const kinds: readonly ((facts: Facts) => string | undefined)[] = [
  exitOf,
  // Files that were read, written, changed.
  ({ total_lines: lines, size }) =>
    typeof size === 'number'
      ? `${typeof lines === 'number' ? `${amount(lines, 'line')}, ` : ''}${amount(size, 'byte')}`
      : undefined,
  ({ replacements }) => (typeof replacements === 'number' ? amount(replacements, 'replacement') : undefined),
  ({ created, bytes }) =>
    typeof created === 'boolean' && typeof bytes === 'number'
      ? `${created ? 'created' : 'written'}, ${amount(bytes, 'byte')}`
      : undefined,
  // Lists.
  ({ entries }) => (Array.isArray(entries) ? amount(entries.length, 'entry') : undefined),
  ({ paths }) => (Array.isArray(paths) ? amount(paths.length, 'file') : undefined),
  ({ files }) => {
    if (!Array.isArray(files)) return undefined;
    const lines = files.reduce(
      (sum: number, { matches }: Facts) => sum + (Array.isArray(matches) ? matches.length : 0),
      0,
    );
    return lines === 0 ? 'no match' : `${amount(lines, 'line')} in ${amount(files.length, 'file')}`;
  },
  // The web.
  ({ status, content_type: type, bytes }) =>
    typeof status === 'number' && typeof bytes === 'number'
      ? [`status ${status}`, typeof type === 'string' ? type.split(';', 1)[0] : '', amount(bytes, 'byte')]
          .filter((part) => part !== '')
          .join(', ')
      : undefined,
  // Results that are only text.
  ({ answer, text, output, content }) => {
    const body = answer ?? text ?? output ?? content;
    if (typeof body === 'string') return firstLine(body);
    if (!Array.isArray(body)) return undefined;
    return firstLine(body.map((part: Facts) => (typeof part?.text === 'string' ? part.text : '')).join('\n'));
  },
];

/** Describes the end of a program that ran. */
function exitOf({ exit_code: code, signal, timed_out: late, stdout, stderr }: Facts): string | undefined {
  if (typeof code !== 'number' && typeof signal !== 'string') return undefined;
  const ended = late === true ? 'out of time' : typeof code === 'number' ? `exit code ${code}` : `ended by ${signal}`;
  const streams = [stdout, stderr].filter((text): text is string => typeof text === 'string' && text.trim() !== '');
  if (streams.length === 0) return ended;
  // A failure shows its last line, which has the reason; a success shows its text or the number of lines.
  const lines = streams.join('\n').trim().split('\n');
  if (code !== 0) return `${ended}: ${oneLine(lines.at(-1))}`;
  return lines.length === 1 ? `${ended}: ${oneLine(lines[0])}` : `${ended}, ${amount(lines.length, 'line')}`;
}

function firstLine(text: string): string {
  const lines = text.trim().split('\n');
  return lines.length === 1 ? oneLine(text) : `${oneLine(lines[0])} (${amount(lines.length, 'line')})`;
}
