/** Recordings for tests: an agent runs a script on a real host over TCP, with a recorder between. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, connect } from 'handfast';
import { type TestHostOptions, testHost } from 'handfast/testing';
import { addressOf } from '../../src/agent/addresses.ts';
import { parseListenAddress } from '../../src/config/listen-address.ts';
import type { Recording } from '../../src/recording/format.ts';
import { readBundle } from '../../src/recording/read-bundle.ts';
import { Recorder, type RecorderOptions } from '../../src/recording/recorder.ts';
import { listenLinks } from '../../src/server/listen-links.ts';
import type { Link } from '../../src/transport/link.ts';

const scratch = mkdtempSync(join(tmpdir(), 'handfast-recording-'));
let bundles = 0;

/** Returns a folder that does not exist yet. */
export const freshFolder = (): string => join(scratch, `bundle-${++bundles}`);

/** Returns a path in the same folder. */
export const scratchFile = (name: string): string => join(scratch, name);

export const cleanUp = (): void => rmSync(scratch, { recursive: true, force: true });

/** Limits of a listener in front of a recorder. */
export const roomy = { maxMessageBytes: 64 * 1024 * 1024, maxSessions: 100, sendBufferBytes: 64 * 1024 * 1024 };

/** Destroys a link after this number of messages were sent on it. */
export function cutBehind(link: Link, messages: number): void {
  const send = link.send.bind(link);
  let sent = 0;
  link.send = (message) => {
    send(message);
    if (++sent === messages) link.destroy('cut by the test');
  };
}

/** Starts a recorder that listens before an address. */
export async function startRecorder(
  target: string,
  {
    at = 'tcp://127.0.0.1:0',
    cutAfter,
    ...options
  }: Partial<RecorderOptions> & { at?: string; cutAfter?: number | undefined } = {},
) {
  const folder = options.folder ?? freshFolder();
  const recorder = await Recorder.start({ ...options, folder });
  const route = addressOf(target, { timeoutMs: 10_000, maxMessageBytes: roomy.maxMessageBytes });
  let links = 0;
  const listener = await listenLinks(
    parseListenAddress(at)!,
    async (client: Link) => {
      if (++links === 1 && cutAfter !== undefined) cutBehind(client, cutAfter);
      await recorder.connect(client, await route.dial(undefined)).catch(() => {});
    },
    { ...roomy, rpc: true },
  );
  return {
    folder,
    recorder,
    address: listener.address,
    async finish(): Promise<Recording> {
      await listener.close();
      await recorder.finish();
      return readBundle(folder);
    },
  };
}

/** Returns the recording of the actions of `script` with an agent of a host. */
export async function recorded(
  host: TestHostOptions,
  script: (agent: Agent<'tools'>) => Promise<unknown>,
  options: Parameters<typeof startRecorder>[1] = {},
): Promise<Recording> {
  await using served = await testHost(host);
  const recorder = await startRecorder((await served.listen()).address, options);
  const agent = await connect(recorder.address, { capabilities: ['tools'], token: served.token });
  await script(agent);
  await agent.close();
  return recorder.finish();
}
