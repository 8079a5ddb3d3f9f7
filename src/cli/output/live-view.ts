/**
 * A view that is redrawn every second and when the terminal changes its size, on the terminal's alternate screen. The
 * first screen returns afterwards, with the last picture below it. Without a terminal it is drawn once.
 */

import { escapeControls } from '../../base/escape-controls.ts';
import type { Terminal } from './terminal.ts';
import { fitted } from './text-width.ts';

/** One snapshot of the view. */
export interface View {
  /** The document for programs. */
  readonly document: unknown;
  /** Returns the picture for the present width. */
  lines(): readonly string[];
}

/** Time between two snapshots. */
const REFRESH_MS = 1000;
const ENTER = '\u001b[?1049h\u001b[?25l';
const LEAVE = '\u001b[?25h\u001b[?1049l';

/** Shows the result of `read` until `signal` aborts, its orderly end; once without a terminal. Fails as `read` does. */
export async function liveView(terminal: Terminal, signal: AbortSignal, read: () => Promise<View>): Promise<void> {
  let view = await read();
  if (terminal.json) return terminal.document(view.document);
  if (!terminal.live) {
    for (const line of view.lines()) terminal.line(line);
    return;
  }
  const draw = (): void => void process.stdout.write(picture(view.lines(), terminal.width));
  const leave = (): void => void process.stdout.write(LEAVE);
  // However the process ends, the terminal must get its cursor back.
  process.on('exit', leave);
  process.stdout.on('resize', draw);
  process.stdout.write(ENTER);
  try {
    draw();
    while (await passed(signal)) {
      view = await read();
      draw();
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    process.stdout.removeListener('resize', draw);
    process.removeListener('exit', leave);
    leave();
  }
  for (const line of view.lines()) terminal.line(cut(line, terminal.width));
}

/** Returns the lines that replace the previous picture, as many as fit. */
function picture(lines: readonly string[], width: number): string {
  const rows = Math.max(4, process.stdout.rows ?? 24);
  const shown = lines.slice(0, rows).map((line) => `${cut(escapeControls(line), width)}\u001b[K`);
  return `\u001b[H${shown.join('\n')}\u001b[J`;
}

const cut = (line: string, width: number): string => fitted(line.replaceAll('\n', ' '), width);

/** Resolves after a moment with true; when the signal aborts, with false. */
function passed(signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve(!signal.aborted);
    };
    const timer = setTimeout(done, REFRESH_MS);
    signal.addEventListener('abort', done);
    if (signal.aborted) done();
  });
}
