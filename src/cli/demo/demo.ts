/**
 * `handfast demo`: shows the use of the protocols on this machine in half a minute. A host, an agent, a session and a fleet
 * really run, in a folder that is removed again; every line is printed when it happens.
 */
import { rmSync } from 'node:fs';
import { mkdir, mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { orAborted } from '../../base/race.ts';
import { interruptible } from '../interrupt.ts';
import { leaveSoon } from '../leave.ts';
import type { Terminal } from '../output/terminal.ts';
import { DemoHost } from './demo-host.ts';
import { taskRerouted } from './fleet-scene.ts';
import { approval, chainKilled, handshake, linkCut, toolStreamed } from './host-scenes.ts';
import type { Stage } from './stage.ts';

const scenes: readonly (readonly [title: string, play: (stage: Stage) => Promise<void>])[] = [
  ['A handshake is refused, then accepted', handshake],
  ['A tool streams what it prints', toolStreamed],
  ['The link is cut; the call continues', linkCut],
  ['A change waits for an approval', approval],
  ['The host is killed; the chain continues', chainKilled],
  ['A task goes where its tools are alive', taskRerouted],
];

/** Plays all scenes. Rejects with the failure of the first that does not come to its end. */
export const demo = (terminal: Terminal): Promise<void> => interruptible((signal) => play(terminal, signal));

async function play(terminal: Terminal, signal: AbortSignal): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-demo-'));
  // At the very end, and also when a second Ctrl-C ends the process at once: a scene that was interrupted may still write.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }));
  const workspace = join(folder, 'workspace');
  await mkdir(workspace);
  const host = new DemoHost({ home: join(folder, 'home'), workspace, signal });
  const startedAt = performance.now();
  const seconds = () => (performance.now() - startedAt) / 1000;
  const hosts = [host];
  const another = async (name: string): Promise<DemoHost> => {
    const own = join(folder, name);
    await mkdir(own);
    const added = new DemoHost({ home: join(folder, `${name}-home`), workspace: own, signal });
    hosts.push(added);
    await added.start();
    return added;
  };
  const stop = () => void hosts.map((each) => each.killed());
  signal.addEventListener('abort', stop, { once: true });
  try {
    if (!terminal.json) terminal.line('A host starts, with a folder of its own.');
    await host.start();
    for (const [at, [title, scene]] of scenes.entries()) {
      signal.throwIfAborted();
      if (!terminal.json) terminal.line(`\n${at + 1}. ${title}`);
      const say = (kind: string, text: string): void => {
        if (terminal.json)
          terminal.document({ scene: at + 1, title, kind, text, seconds: Number(seconds().toFixed(3)) });
        else terminal.labelled(`   ${kind.padEnd(9)}  `, text);
      };
      await orAborted(scene({ host, workspace, folder, another, say }), signal);
    }
    if (!terminal.json)
      terminal.line(`\nDone in ${seconds().toFixed(1)} s. Everything was real, and is removed again.`);
  } finally {
    signal.removeEventListener('abort', stop);
    await Promise.all(hosts.map((each) => each.stop()));
    // A scene that was interrupted may still wait for its host.
    leaveSoon();
  }
}
