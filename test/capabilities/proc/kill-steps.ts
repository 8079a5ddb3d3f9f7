/**
 * The story of a process, by its steps: each brings one to a moment at which a test kills something, and returns the state
 * known then and the pending promises.
 */
import type { OutputPiece, ProcClient, ProcessExit, RemoteProcess } from '../../../src/capabilities/proc/client.ts';
import { until } from './support.ts';

/** The channels of its program: pipes, or a terminal. */
export const KINDS = ['pipes', 'terminal'] as const;
export type Kind = (typeof KINDS)[number];

/** The variable by which the processes of a run are found: a value in their environment. */
export const RUN = 'KILLED_RUN';
/** Number of lines that it prints after the end of its input. */
export const LINES = 2_000;
/** Its exit code, if it ends. */
export const CODE = 3;

/**
 * Starts one process in its group, one that left it and one that also forked twice; says `ready`, repeats its input to the end,
 * prints lines, and ends or stays. A staying one ignores SIGTERM.
 */
const SCRIPT = `
sleep 600 >/dev/null 2>&1 </dev/null &
setsid sleep 600 >/dev/null 2>&1 </dev/null &
(setsid sleep 600 >/dev/null 2>&1 </dev/null &)
[ "$1" = ends ] || trap '' TERM
echo ready
while read -r line; do echo "got $line"; done
i=0; while [ $i -lt ${LINES} ]; do echo "line $i"; i=$((i+1)); done
[ "$1" = ends ] && exit ${CODE}
echo stays
while :; do sleep 600; done
`;

/** The progress of a process. */
export interface Reached {
  /** Undefined while its spawn waits. */
  readonly child?: RemoteProcess;
  /** Text that was read, and the number of the piece after it. */
  readonly text: string;
  readonly next: number;
  /** Pending promises, by name. */
  readonly waiting: Readonly<Record<string, Promise<unknown>>>;
}

export interface Step {
  readonly name: string;
  /** True when the process ends by itself. */
  readonly ends?: true;
  /** `other` is a second session of the agent. */
  readonly run: (proc: ProcClient, other: ProcClient, start: Start) => Promise<Reached>;
}

/** Starts the program. */
type Start = () => Promise<RemoteProcess>;

/** Reads until the text has arrived, or to the end. */
export class Reading {
  text: string;
  next: number;
  readonly #output: AsyncGenerator<OutputPiece, ProcessExit | undefined>;

  /** @param text that was read before: one piece may have all lines, or end within the wanted text */
  constructor(child: RemoteProcess, from = 0, text = '') {
    this.text = text;
    this.next = from;
    this.#output = child.output({ from });
  }

  /** Reads on. Undefined: the text has arrived, or the process was ended with its session. */
  async until(text?: string): Promise<ProcessExit | undefined> {
    while (text === undefined || !this.text.includes(text)) {
      const { value, done } = await this.#output.next();
      if (done) return value;
      if (value.missed !== undefined) throw new Error(`${value.missed} pieces are missing`);
      this.text += value.text;
      this.next = value.seq + 1;
    }
    return undefined;
  }
}

const reached = (child: RemoteProcess, rest: Partial<Reached> = {}): Reached => ({
  child,
  text: '',
  next: 0,
  waiting: {},
  ...rest,
});

/** Writes, ends the input, and reads half of the output. */
async function halfRead(child: RemoteProcess): Promise<Reading> {
  await child.write('one\n', { eof: true });
  const reading = new Reading(child);
  await reading.until(`line ${LINES / 2}`);
  return reading;
}

export const STEPS: readonly Step[] = [
  {
    name: 'a spawn is asked for',
    run: async (_proc, _other, start) => ({ text: '', next: 0, waiting: { spawn: start() } }),
  },
  { name: 'it was spawned', run: async (_proc, _other, start) => reached(await start()) },
  {
    name: 'its input was written',
    async run(_proc, _other, start) {
      const child = await start();
      await child.write('one\n');
      return reached(child);
    },
  },
  {
    name: 'its input was ended',
    async run(_proc, _other, start) {
      const child = await start();
      await child.write('one\n', { eof: true });
      return reached(child);
    },
  },
  {
    name: 'half of its output was read',
    async run(_proc, _other, start) {
      const child = await start();
      const reading = await halfRead(child);
      const { text, next } = reading;
      return reached(child, { text, next, waiting: { output: reading.until() } });
    },
  },
  {
    name: 'another link reads from a cursor',
    async run(_proc, other, start) {
      const child = await start();
      const { text, next } = await halfRead(child);
      const second = new Reading(await other.find(child.id), next, text);
      await second.until(`line ${LINES / 2 + 500}`);
      const waiting = { output: second.until() };
      return reached(child, { text: second.text, next: second.next, waiting });
    },
  },
  {
    name: 'a signal was sent',
    async run(_proc, _other, start) {
      const child = await start();
      const reading = new Reading(child);
      await reading.until('ready');
      const { text, next } = reading;
      return reached(child, { text, next, waiting: { kill: child.kill('SIGTERM') } });
    },
  },
  {
    name: 'its end is awaited',
    async run(_proc, _other, start) {
      const child = await start();
      return reached(child, { waiting: { wait: child.wait() } });
    },
  },
  {
    name: 'it has ended',
    ends: true,
    async run(_proc, _other, start) {
      const child = await start();
      await child.write('one\n', { eof: true });
      await until(async () => (await child.info()).state !== 'running', 'its end');
      return reached(child);
    },
  },
  {
    name: 'its result was read',
    ends: true,
    async run(_proc, _other, start) {
      const child = await start();
      await child.write('one\n', { eof: true });
      const reading = new Reading(child);
      const exit = await reading.until();
      if (exit?.code !== CODE) throw new Error(`ended with ${JSON.stringify(exit)}`);
      return reached(child, { text: reading.text, next: reading.next });
    },
  },
];

/** Brings a process of a kind to a step. */
export function reach(step: Step, kind: Kind, run: string, proc: ProcClient, other: ProcClient): Promise<Reached> {
  return step.run(proc, other, () =>
    proc.spawn(['sh', '-c', SCRIPT, 'sh', step.ends ? 'ends' : 'stays'], {
      env: { [RUN]: run },
      ...(kind === 'terminal' && { pty: { cols: 80, rows: 24 } }),
    }),
  );
}
