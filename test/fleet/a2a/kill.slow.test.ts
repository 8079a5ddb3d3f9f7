/** An agent whose process is killed in the middle of a task. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { TaskState } from '@a2a-js/sdk';
import { functionExecutor } from '../../../src/fleet/executors/function.ts';
import { createWorker } from '../../../src/fleet/worker/worker.ts';
import { createAuthenticator } from '../../../src/session/auth.ts';
import { within } from '../../contract/recorder.ts';
import { aDispatch } from '../bus-contract.ts';
import { quiet } from '../support/stream-links.ts';
import { asTask, clientOf, dataIn, FLEET, folder, request, saying, served, text } from './agent-stand.ts';

test('a client finds its tasks, with the end their worker can vouch for, after the agent was killed', async (context) => {
  const home = await folder(context);
  const child = spawn(
    process.execPath,
    ['-C', 'handfast-source', join(import.meta.dirname, 'agent-process.ts'), home],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  );
  context.after(() => child.kill('SIGKILL'));
  const [address] = (await within(once(createInterface(child.stdout), 'line'), 'the agent to listen')) as [string];
  const before = await clientOf(address);
  const dispatch = aDispatch('t-1', { requirements: { access: 'read' } });
  const task = asTask(await before.sendMessage(saying(dispatch, { returnImmediately: true }), FLEET));
  const stream = before.resubscribeTask({ tenant: '', id: task.id });
  await within(stream.next(), 'the task to be streamed');
  const rest = (async () => {
    for await (const _ of stream);
  })();
  // It ends with an error, perhaps before the test waits for it.
  rest.catch(() => {});
  child.kill('SIGKILL');
  await once(child, 'exit');
  await within(
    rest.catch(() => {}),
    'the stream to end',
  );

  const executor = functionExecutor({ run: () => 'done' });
  const worker = await createWorker({
    agentId: 'w-1',
    executor,
    tools: [],
    cwd: home,
    home: join(home, 'data'),
    log: quiet,
  });
  context.after(() => worker.close());
  await worker.start();
  const agent = await served(context, worker, { file: join(home, 'a2a.db'), auth: createAuthenticator([]) });
  const after = await clientOf(agent.address);
  const found = await after.getTask({ tenant: '', id: task.id });
  assert.equal(found.status?.state, TaskState.TASK_STATE_FAILED);
  assert.match(String(dataIn(found.artifacts[0]?.parts)[0]?.error_summary), /^worker restarted/);
  const next = asTask(await after.sendMessage(request({ parts: [text('go on')] })));
  assert.equal(next.status?.state, TaskState.TASK_STATE_COMPLETED);
});
