/**
 * Reads golden transcripts and plays the agent's part of one against a host. The format is described in `README.md` beside
 * this file; `test/contract/transcripts.test.ts` replays all of them over every transport.
 */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { HostKind } from '../support/contract-host.ts';
import type { Peer } from '../support/peer.ts';
import type { Message } from '../support/raw-agent.ts';

type Step =
  | { readonly kind: 'send'; readonly text: string }
  | { readonly kind: 'expect'; readonly message: unknown }
  | { readonly kind: 'closed' };

export interface Transcript {
  /** The requirement: the file's name. */
  readonly name: string;
  /** Its subject: its first comment. */
  readonly title: string;
  readonly host: HostKind;
  readonly steps: readonly { readonly line: number; readonly step: Step }[];
}

/** Values that a placeholder matches. */
const placeholders: Record<string, (value: unknown) => boolean> = {
  '<id>': (value) => typeof value === 'string' && value !== '',
  '<text>': (value) => typeof value === 'string' && value !== '' && value.length < 300,
  '<session>': (value) => typeof value === 'string' && /^[0-9a-f]{32}$/.test(value),
  '<ts>': (value) => typeof value === 'number' && value > 1e9,
  '<seconds>': (value) => typeof value === 'number' && value >= 0,
  '<ms>': (value) => Number.isInteger(value) && (value as number) >= 0,
  '<cursor>': (value) => Number.isInteger(value) && (value as number) > 0,
};

/** Returns all transcripts of a dialect. */
export function transcripts(dialect: 'a2e'): Transcript[] {
  const folder = fileURLToPath(new URL(`./${dialect}/`, import.meta.url));
  return readdirSync(folder)
    .filter((file) => file.endsWith('.ndjson'))
    .sort()
    .map((file) => parse(file.slice(0, -'.ndjson'.length), readFileSync(`${folder}${file}`, 'utf8')));
}

function parse(name: string, text: string): Transcript {
  let title = '';
  let host: HostKind = 'open';
  const steps: { line: number; step: Step }[] = [];
  for (const [index, line] of text.split('\n').entries()) {
    const mark = line.slice(0, 2);
    const rest = line.slice(2);
    const at = { line: index + 1 };
    if (mark === '> ') steps.push({ ...at, step: { kind: 'send', text: rest } });
    else if (mark === '< ') steps.push({ ...at, step: { kind: 'expect', message: JSON.parse(rest) } });
    else if (line === '= closed') steps.push({ ...at, step: { kind: 'closed' } });
    else if (line.startsWith('= host ')) host = line.slice('= host '.length) as HostKind;
    else if (mark === '# ') title ||= rest;
    else assert.equal(line, '', `${name}:${index + 1} is none of the lines a transcript may have`);
  }
  assert.ok(title !== '' && steps.length > 0, `${name} has no title or no steps`);
  return { name, title, host, steps };
}

/** Plays a transcript; fails at the first reply that differs. Returns the messages that the host really sent. */
export async function replay({ name, steps }: Transcript, peer: Peer): Promise<Message[]> {
  const known = new Map<string, unknown>();
  for (const { line, step } of steps) {
    const where = `${name}:${line}`;
    if (step.kind === 'send') {
      peer.write(`${step.text.replaceAll(/"?<(session|cursor)>"?/g, (mark) => told(mark, known))}\n`);
    } else if (step.kind === 'expect') {
      const message = await peer.next().catch((error: Error) => assert.fail(`${where}: ${error.message}`));
      match(step.message, message, where, known);
    } else {
      await peer.closed();
    }
  }
  if (!peer.over) {
    // No further message may come: one that was still on its way would arrive before this.
    await peer.ping('after the transcript');
  }
  assert.deepEqual(peer.rest, [], `${name}: the host said more than is written`);
  return peer.messages;
}

/** Returns the value of a placeholder in a message of the agent: the host's last value for it. */
function told(mark: string, known: ReadonlyMap<string, unknown>): string {
  const value = known.get(mark.replaceAll('"', ''));
  assert.ok(value !== undefined, `${mark} is sent before the host has said it`);
  return JSON.stringify(value);
}

function match(expected: unknown, actual: unknown, where: string, known: Map<string, unknown>): void {
  if (typeof expected === 'string' && Object.hasOwn(placeholders, expected)) {
    assert.ok(placeholders[expected]?.(actual), `${where}: ${JSON.stringify(actual)} is no ${expected}`);
    if (expected === '<cursor>') {
      assert.ok((actual as number) > ((known.get(expected) as number) ?? 0), `${where}: the cursor does not grow`);
    }
    known.set(expected, actual);
  } else if (typeof expected === 'object' && expected !== null && typeof actual === 'object' && actual !== null) {
    assert.deepEqual(Object.keys(actual).sort(), Object.keys(expected).sort(), `${where}: other members`);
    for (const [key, value] of Object.entries(expected)) {
      match(value, (actual as Message)[key], `${where} ${key}`, known);
    }
  } else assert.deepEqual(actual, expected, where);
}
