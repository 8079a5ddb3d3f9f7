/**
 * An agent that learns to cross a frozen lake, where every second step slips. It plays over the wire, its plan says what to
 * do next, its memory has what it found out about the ice, and what it chooses between are ways to use that. In the
 * middle of an episode the agent and its host are killed; both start again, and the run ends as if nothing had happened.
 *
 * Run it with `node -C handfast-source examples/learner.ts`. EPISODES (120), SEED (1), KILL (the episode; 0: none) are variables of
 * the process; with JSON=1 it prints every episode, for the plot of docs/learning.md.
 */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Agent, connect, serve } from 'handfast';

const EPISODES = Number(process.env.EPISODES ?? 120);
const SEED = Number(process.env.SEED ?? 1);
/** The agent and its host are killed in this episode, after its second step. */
const KILL = Number(process.env.KILL ?? EPISODES / 2);

type Player = Agent<'env' | 'memory' | 'learning' | 'planning'>;
/** What the agent knows of a cell: for each action, how often it led to which cell. Of an end, its reward instead. */
type Cell = { tries: Record<number, number>[]; reward?: number };
type Ice = Map<number, Cell>;
/** How an episode went; a resumed one was already under way. */
type Done = { number: number; strategy: string; won: boolean; steps: number; resumedAt: number };

// #region strategies
const ACTIONS = [0, 1, 2, 3];
const unknown = (): Cell => ({ tries: ACTIONS.map(() => ({})) });
const triesOf = (ice: Ice, cell: number, action: number) => Object.entries(ice.get(cell)?.tries[action] ?? {});
const countOf = (ice: Ice, cell: number, action: number) =>
  triesOf(ice, cell, action).reduce((sum, [, count]) => sum + count, 0);

/** What an action promises, given what cells are worth: the mean over its tries and one more, which meets `hope`. */
function promise(ice: Ice, worth: Map<number, number>, hope: number, cell: number, action: number): number {
  const tries = triesOf(ice, cell, action);
  const sum = tries.reduce((sum, [next, count]) => sum + count * (worth.get(Number(next)) ?? 0), hope);
  return sum / (countOf(ice, cell, action) + 1);
}

/** Plays what promises most, by value iteration over what is known. Equal ones: what was tried least. */
function planner(ice: Ice, hope: number): (cell: number) => number {
  const worth = new Map<number, number>();
  for (let sweep = 0; sweep < 100; sweep++) {
    for (const [cell, { reward }] of ice) {
      const best = Math.max(...ACTIONS.map((action) => promise(ice, worth, hope, cell, action)));
      worth.set(cell, reward ?? best * 0.99);
    }
  }
  const better = (cell: number) => (a: number, b: number) =>
    promise(ice, worth, hope, cell, b) - promise(ice, worth, hope, cell, a) ||
    countOf(ice, cell, a) - countOf(ice, cell, b);
  return (cell) => ACTIONS.toSorted(better(cell))[0]!;
}

const strategies = {
  /** Tries everything equally often. */
  wander: (ice: Ice) => (cell: number) => ACTIONS.toSorted((a, b) => countOf(ice, cell, a) - countOf(ice, cell, b))[0]!,
  /** Expects the best of what it does not know. */
  curious: (ice: Ice) => planner(ice, 1),
  /** Expects nothing of what it does not know. */
  careful: (ice: Ice) => planner(ice, 0),
};
type Strategy = keyof typeof strategies;
// #endregion

// #region player
/** Plays the episodes of the plan. Killed at any moment and started again, it continues there. */
async function play(agent: Player, report: (done: Done) => void, afterStep: (number: number, step: number) => unknown) {
  const memory = await agent.memory.open({ namespace: 'frozen-lake' });
  // Repeated with its key, each of these gets what is there already.
  const plan = await agent.planning.createPlan('frozen lake', { key: 'frozen lake' });
  const existing = (await agent.planning.tasks(plan.plan_id)).length;
  for (let number = existing + 1; number <= EPISODES; number++)
    await agent.planning.add(plan.plan_id, `episode ${number}`, { key: `${number}`, metadata: { number } });

  for (;;) {
    // An agent that was killed gets its claim again by the key.
    const claim = await agent.planning.claim(plan.plan_id, { key: 'player' });
    if (claim === undefined) return;
    const { number, episode: started } = claim.task.metadata as { number: number; episode?: string };

    // Which strategy? The same id gets the same decision again.
    const ice: Ice = new Map();
    for await (const { key, content } of memory.all({ tags: ['cell'] })) ice.set(Number(key.cell), content as Cell);
    const known = [...ice.keys()].filter((cell) => countOf(ice, cell, 0) >= 3).length / 11;
    const { option, experienceId } = await agent.learning.decide('strategy', Object.keys(strategies), {
      experienceId: `episode ${number}`,
      features: [known],
      policy: { name: 'linucb' },
      seed: SEED,
    });

    // The host stores every step: an episode that was started continues.
    const seed = SEED * 100_000 + number;
    const episode = started
      ? await agent.env.episode<number, number>(started)
      : await agent.env.reset<number, number>('FrozenLake-v1', { seed, durability: 'step' });
    if (!started) await claim.update({ metadata: { number, episode: episode.id } });
    const resumedAt = episode.latest.step;
    for await (const { step } of episode.play(strategies[option as Strategy](ice))) await afterStep(number, step);

    // What it found out. `learned` is stored together with the cells, so that no episode counts twice.
    const learned = Number((await memory.get('learned'))?.content ?? 0);
    const { reward, step } = episode.latest;
    if (learned < number) {
      const changed = new Map<number, Cell>();
      const cellAt = (cell: number) => {
        const found = ice.get(cell) ?? unknown();
        ice.set(cell, found);
        changed.set(cell, found);
        return found;
      };
      for await (const { state, action, next_state, terminated, reward } of episode.transitions()) {
        const next = next_state.observation as number;
        const tries = cellAt(state.observation as number).tries[action as number]!;
        tries[next] = (tries[next] ?? 0) + 1;
        if (terminated) cellAt(next).reward = reward;
      }
      const cells = [...changed].map(([cell, content]) => ({ key: { cell: `${cell}` }, content, tags: ['cell'] }));
      await memory.store([...cells, { key: 'learned', content: number }]);
    }
    await agent.learning.reward(experienceId, reward);
    await claim.done(reward === 1 ? 'crossed' : 'fell in');
    await episode.close();
    report({ number, strategy: option, won: reward === 1, steps: step, resumedAt });
  }
}
// #endregion

/** All that the agent has learned. */
async function learnedBy(agent: Player) {
  const memory = await agent.memory.open({ namespace: 'frozen-lake' });
  const cells = await Array.fromAsync(memory.all(), ({ key, content }) => [key, content]);
  return { cells: cells.sort(), strategies: await agent.learning.stats() };
}

// Three processes run this program: `host HOME`, `player HOME TOKEN_FILE LIFE`, and without words the one that starts them.
const [role, home = '', tokenFile = '', life = ''] = process.argv.slice(2);
const send = (message: object) => new Promise<unknown>((resolve) => process.send?.(message, resolve));
const address = (folder: string) => `unix://${join(folder, 'host.sock')}`;

async function open(folder: string, file: string): Promise<Player> {
  const token = (await readFile(file, 'utf8')).trim();
  const capabilities = ['env', 'memory', 'learning', 'planning'] as const;
  return connect(address(folder), { capabilities, agentId: 'player', token });
}

async function host() {
  const server = await serve(join(home, 'handfast.yaml'), { announce: false });
  await send({ tokenFile: server.tokenFile });
}

async function player() {
  const agent = await open(home, tokenFile);
  await send({ learned: await learnedBy(agent) });
  await play(
    agent,
    (done) => send({ done }),
    async (number, step) => {
      if (life !== 'first' || number !== KILL || step !== 2) return;
      await send({ learned: await learnedBy(agent) });
      // Here it is killed.
      await new Promise(() => {});
    },
  );
  await agent.close();
  process.disconnect?.();
}

// #region main
async function main() {
  const folder = await mkdtemp(join(tmpdir(), 'handfast-learner-'));
  process.env.HANDFAST_HOME = folder;
  const plugins = '[{ use: env, options: { durability: step } }, memory, learning, planning]';
  await writeFile(join(folder, 'handfast.yaml'), `listen: "${address(folder)}"\nplugins: ${plugins}\n`);
  const episodes: Done[] = [];
  const learned: unknown[] = [];

  const start = async () => {
    const server = fork(import.meta.filename, ['host', folder]);
    const [started] = (await once(server, 'message')) as [{ tokenFile: string }];
    return { server, tokenFile: started.tokenFile };
  };
  /** Runs the player until it ends or has to be killed. */
  const run = async (file: string, life: string) => {
    const child = fork(import.meta.filename, ['player', folder, file, life]);
    const exit = once(child, 'exit');
    const middle = Promise.withResolvers<void>();
    child.on('message', (message: { done?: Done; learned?: object }) => {
      if (message.done) episodes.push(message.done);
      else if (learned.push(message.learned) === 2) middle.resolve();
    });
    await Promise.race([exit, middle.promise]);
    return { child, exit };
  };

  let { server, tokenFile } = await start();
  if (KILL > 0) {
    const { child, exit } = await run(tokenFile, 'first');
    child.kill('SIGKILL');
    server.kill('SIGKILL');
    await Promise.all([exit, once(server, 'exit')]);
    ({ server, tokenFile } = await start());
  }
  const { exit } = await run(tokenFile, 'second');
  assert.deepEqual(await exit, [0, null]);
  const [, before, after] = learned;
  assert.deepEqual(after, before);
  const resumed = episodes.find(({ resumedAt }) => resumedAt > 0);
  if (KILL > 0) console.log(`killed in episode ${resumed?.number}, continued behind step ${resumed?.resumedAt}`);

  const agent = await open(folder, tokenFile);
  const [plan] = await agent.planning.plans();
  const history = await Array.fromAsync(agent.planning.history(plan?.plan_id ?? ''));
  const claims = history.filter(({ action }) => action === 'claimed').map(({ task_id }) => task_id);
  assert.equal(new Set(claims).size, EPISODES);
  console.log(`${claims.length} claims of ${EPISODES} tasks, none twice`);
  assert.equal(claims.length, EPISODES);
  await agent.close();

  const last = episodes.slice(-Math.ceil(EPISODES / 3));
  const crossed = last.filter(({ won }) => won).length / last.length;
  console.log(`crossed the lake in ${Math.round(crossed * 100)} % of the last ${last.length} episodes`);
  if (process.env.JSON) console.log(JSON.stringify(episodes));
  server.kill('SIGTERM');
  await once(server, 'exit');
  await rm(folder, { recursive: true });
}
// #endregion

if (role === 'host') await host();
else if (role === 'player') await player();
else await main();
