/**
 * The question whether the files of a folder may be used: shows all of them, then waits for the user's answer.
 *
 * It is asked at a terminal, on stderr, before the configuration of the folder is read; elsewhere nothing is asked, and a file
 * that is not trusted is refused where it is needed.
 */
import { createInterface } from 'node:readline/promises';
import { escapeControls } from '../../base/escape-controls.ts';
import { handfastHome } from '../../base/handfast-home.ts';
import { type TrustEntry, TrustStore, type TrustSubject } from '../../trust/store.ts';
import type { Terminal } from '../output/terminal.ts';
import type { Finding } from './survey.ts';

/** Said below every list, because no hash can cover it. */
const BEYOND = [
  'It is asked again when one of these files changes. That does not cover what programs and modules fetch, read or',
  'start by themselves (npm and the like), packages, and programs outside of the repository.',
];

/** True where a user is at the terminal and stdout is not for a program. */
export const canAsk = (terminal: Terminal): boolean =>
  !terminal.json && process.stdin.isTTY === true && terminal.watched;

/** Asks about the files of these subjects in a folder that are not trusted. Without a terminal nothing happens. */
export async function offerTrust(subjects: readonly TrustSubject[], terminal: Terminal, folder = '.'): Promise<void> {
  if (!canAsk(terminal)) return;
  const { survey } = await import('./survey.ts');
  const store = new TrustStore({ home: handfastHome(process.env) });
  const findings = (await survey(folder, store, subjects)).filter(({ trusted }) => !trusted);
  if (findings.length === 0) return;
  terminal.note('This folder brings what was never trusted on this machine, or has changed since.');
  for (const line of shown(findings)) terminal.note(line);
  if (await confirmed('Trust it?', terminal)) await trust(findings, store);
}

/** Stores findings as trusted. Fails as the store does. */
export async function trust(
  findings: readonly Finding[],
  store: TrustStore,
  now: () => number = Date.now,
): Promise<readonly TrustEntry[]> {
  const entries = findings.map(({ entry }) => ({ ...entry, added_at: new Date(now()).toISOString() }));
  await store.add(entries);
  return entries;
}

/** Returns the lines that a user decides about: whole command lines, with nothing in them that a terminal would obey. */
export function shown(findings: readonly Finding[]): readonly string[] {
  const lines: string[] = [];
  for (const { subject, entry, about } of findings) {
    lines.push('', `${subject} in ${entry.path}`);
    for (const [heading, items] of Object.entries(about)) {
      if (items.length === 0) continue;
      lines.push(`  ${heading}:`, ...items.map((item) => `    ${item}`));
    }
    const files = Object.entries(entry.files).filter(([, digest]) => digest.startsWith('sha256:'));
    if (files.length > 0)
      lines.push('  files:', ...files.map(([name, digest]) => `    ${digest.slice(0, 23)}  ${name}`));
  }
  lines.push('', `In all: ${inAll(findings)}`, '', ...BEYOND);
  return lines.map((line) => escapeControls(line).replaceAll('\n', '\\n'));
}

/**
 * Counts the lines of each kind, printed last: a file may have so many lines that the programs it starts are off the screen.
 */
function inAll(findings: readonly Finding[]): string {
  const amounts = new Map<string, number>();
  for (const [heading, { length }] of findings.flatMap(({ about }) => Object.entries(about))) {
    if (length > 0) amounts.set(heading, (amounts.get(heading) ?? 0) + length);
  }
  return [...amounts].map(([heading, amount]) => `${heading}: ${amount}`).join('; ');
}

/** Waits for an answer at the terminal; anything but a clear yes is a no. */
export async function confirmed(question: string, terminal: Terminal): Promise<boolean> {
  terminal.settle();
  const reader = createInterface({ input: process.stdin, output: process.stderr });
  const ended = new AbortController();
  reader.once('close', () => ended.abort());
  try {
    const answer = await reader.question(`${question} [y/N] `, { signal: ended.signal });
    return /^\s*(?:y|yes)\s*$/i.test(answer);
  } catch {
    // Ctrl-C or the end of the input.
    return false;
  } finally {
    reader.close();
  }
}
