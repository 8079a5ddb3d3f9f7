/**
 * A client has received a change, and the server gets SIGKILL in the same turn of the event loop: the next server has
 * the change. For each kind of change, as the reply of its request and as an event that another client has received.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { connect } from '../../src/control-client/connect.ts';
import type { ControlClient } from '../../src/control-client/control.ts';
import type { ControlSession } from '../../src/control-client/session.ts';
import { type Command, User } from '../cli/command.ts';
import { within } from '../contract/recorder.ts';
import { ownPort } from '../support/own-port.ts';

const ENV = { HANDFAST_KEYRING: 'off' };

interface Site {
  client(): Promise<ControlClient>;
  kill(): void;
  restart(): Promise<void>;
}

interface Change {
  readonly name: string;
  /** Makes the change; resolves as soon as the client knows of it. */
  make(session: ControlSession, watcher: ControlSession, control: ControlClient): Promise<unknown>;
  /** Throws when the next server does not have it. */
  check(session: ControlSession, made: unknown, control: ControlClient): Promise<void>;
}

/** Returns the last lines of its answers. */
const answers = async (session: ControlSession): Promise<(string | undefined)[]> =>
  (await Array.fromAsync(session.messages()))
    .filter(({ kind }) => kind === 'assistant')
    .map(({ text }) => text.trim().split('\n').at(-1));

async function seen(session: ControlSession, type: string): Promise<void> {
  for await (const event of session.events({ afterSeq: 0 })) if (event.type === type) return;
}

const changes: readonly Change[] = [
  {
    name: 'the end and the answer of a turn, as its sender gets them',
    make: async (session) => (await session.prompt('say "mark-1"')).result(),
    async check(session) {
      const turn = (await session.state()).turnId;
      assert.equal(turn, null);
      assert.ok((await answers(session)).includes('mark-1'));
      await ended(session, 'session.completed');
    },
  },
  {
    name: 'the end of a turn, as another client gets it',
    async make(session, watcher) {
      const end = seen(watcher, 'session.completed');
      await session.prompt('say "mark-2"');
      await end;
    },
    async check(session) {
      assert.ok((await answers(session)).includes('mark-2'));
      await ended(session, 'session.completed');
    },
  },
  {
    name: 'an answer, as the message that another client gets',
    async make(session, watcher) {
      const said = (async () => {
        for await (const event of watcher.events({ afterSeq: 0 })) {
          if (event.type !== 'session.message.appended' || event.payload.message.kind !== 'assistant') continue;
          return event.payload.message;
        }
        return undefined;
      })();
      await session.prompt('say "mark-3"');
      return said;
    },
    async check(session, made) {
      const stored = await Array.fromAsync(session.messages());
      assert.deepEqual(
        stored.find(({ kind }) => kind === 'assistant'),
        made,
        'the same message under the same number',
      );
    },
  },
  {
    name: 'the result of a tool, as another client gets it',
    async make(session, watcher) {
      const done = seen(watcher, 'session.tool.call.completed');
      await session.prompt('run "echo done" then wait 5000 ms');
      await done;
    },
    async check(session) {
      await ended(session, 'session.interrupted');
      const types = await typesOf(session);
      assert.equal(types.filter((type) => type === 'session.tool.call.completed').length, 1);
    },
  },
  {
    name: 'a prompt in the queue',
    async make(session) {
      await session.prompt('wait 5000 ms');
      return (await session.prompt('say "mark-5"')).turnId;
    },
    async check(session) {
      for await (const event of session.events({ afterSeq: 0 })) {
        if (event.type === 'session.completed') break;
      }
      assert.ok((await answers(session)).includes('mark-5'), 'it runs');
    },
  },
  {
    name: 'a queue that was cleared',
    async make(session) {
      await session.prompt('wait 5000 ms');
      await session.prompt('say "mark-6"');
      return session.clearQueue();
    },
    async check(session) {
      assert.deepEqual(await session.queue(), []);
      assert.equal((await answers(session)).includes('mark-6'), false);
    },
  },
  {
    name: 'an interrupt, as its reply',
    async make(session) {
      await session.prompt('wait 5000 ms');
      return session.interrupt();
    },
    async check(session) {
      for await (const event of session.events({ afterSeq: 0 })) {
        if (event.type !== 'session.interrupted') continue;
        assert.equal(event.payload.stop_reason, 'interrupted', 'by the user, not by the restart');
        return;
      }
    },
  },
  {
    name: 'a title, as another client gets it by a read',
    async make(session, watcher, control) {
      void control.rpc.sessionRename({ session_id: session.id, title: 'mark-8' }).catch(() => {});
      while ((await watcher.state()).title !== 'mark-8');
    },
    async check(session) {
      assert.equal((await session.state()).title, 'mark-8');
    },
  },
  {
    name: 'an answer that is remembered for its folder',
    async make(session, _watcher, control) {
      await session.prompt('run "printf mark-9"');
      for (;;) {
        const [asked] = (await control.rpc.approvalList({ session_id: session.id })).approvals;
        if (asked === undefined) continue;
        return control.rpc.approvalAnswer({ approval_id: asked.id, decision: 'allow', remember: 'directory' });
      }
    },
    async check(session, _made, control) {
      const { cwd } = await session.state();
      const other = await control.create({ cwd });
      await (await other.prompt('run "printf mark-9"')).result();
      assert.equal((await typesOf(other)).includes('approval.requested'), false, 'it is not asked again');
    },
  },
];

async function typesOf(session: ControlSession): Promise<string[]> {
  const { seq } = await session.state();
  const types: string[] = [];
  for await (const event of session.events({ afterSeq: 0 })) {
    if (event.type !== 'gap') types.push(event.type);
    if ((event.type === 'gap' ? event.to : event.seq) >= seq) break;
  }
  return types;
}

async function ended(session: ControlSession, type: string): Promise<void> {
  const ends = (await typesOf(session)).filter((each) => /session\.(completed|interrupted|error)$/.test(each));
  assert.deepEqual(ends, [type], 'the turn has one end');
}

async function site(user: User): Promise<Site> {
  const config = user.write(
    'handfast.yaml',
    'control:\n  approvals:\n    rules:\n      - command: echo ...\n        then: allow\n',
  );
  const place = ['--config', config, '--port', String(await ownPort())];
  let command: Command;
  let address = '';
  let token = '';
  const restart = async (): Promise<void> => {
    const up = await user.up(place, { env: ENV });
    command = up.command;
    address = up.ready.url;
    token = readFileSync(up.ready.token_file as string, 'utf8').trim();
  };
  await restart();
  return {
    client: () => connect(address, { token }),
    kill: () => void command.child.kill('SIGKILL'),
    async restart() {
      await command.ended();
      await restart();
    },
  };
}

test('the next server has each change that a client knows of', { timeout: 300_000 }, async (t) => {
  const user = new User();
  t.after(() => user.leave());
  const server = await site(user);
  for (const { name, make, check } of changes) {
    await t.test(name, async () => {
      const one = await server.client();
      const two = await server.client();
      const session = await one.create({ title: 'T', cwd: user.cwd });
      const made = await within(make(session, await two.open(session.id), one), name, 30_000);
      server.kill();
      await Promise.all([one.close(), two.close()]);
      await server.restart();
      await using again = await server.client();
      await within(check(await again.open(session.id), made, again), `${name} after the restart`, 30_000);
    });
  }
});
