/**
 * An agent that learns to cross a frozen lake, where every second step slips. It plays over the wire, its plan has the
 * next steps, its memory has its findings about the ice, and it chooses among strategies that use them. In the middle
 * of an episode the agent and its host are killed; both start again, and the run ends as if nothing had happened.
 *
 * Run it with `node -C handfast-source examples/learner.ts`. Variables of the process: EPISODES (120), SEED (1), KILL
 * (the episode; 0: none), KILLS (0; number of times the agent, alone or with its host, is killed at random moments).
 * With JSON=1 it prints every episode, for the plot of docs/learning.md, and the result of the run: the same for equal
 * EPISODES and SEED, after any number of kills. It runs on Windows too, where SIGKILL ends a process as well; the
 * address is then a port.
 */
import assert from 'node:assert/strict';
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Agent, connect, serve } from 'handfast';

const EPISODES = Number(process.env.EPISODES ?? 120);
const SEED = Number(process.env.SEED ?? 1);
/** The agent and its host are killed in this episode, after its second step. */
const KILL = Number(process.env.KILL ?? EPISODES / 2);
const KILLS = Number(process.env.KILLS ?? 0);
/** Milliseconds of a life that is ended at random, at most: some episodes. */
const MAX_LIFE_MS = 1500;

type Player = Agent<'env' | 'memory' | 'learning' | 'planning'>;
/** The agent's knowledge of a cell: for each action, how often it led to each cell. For an end, its reward instead. */
type Cell = { tries: Record<number, number>[]; reward?: number };
export type Ice = Map<number, Cell>;
/** A step as episodes have it. */
type Transition = { cell: number; action: number; next: number; terminated: boolean; reward: number };
/** The outcome of an episode; a resumed one was already under way. */
type Done = { number: number; strategy: string; won: boolean; steps: number; resumedAt: number };

// #region strategies
const ACTIONS = [0, 1, 2, 3];
const unknown = (): Cell => ({ tries: ACTIONS.map(() => ({})) });
const triesOf = (ice: Ice, cell: number, action: number) => Object.entries(ice.get(cell)?.tries[action] ?? {});
const countOf = (ice: Ice, cell: number, action: number) =>
  triesOf(ice, cell, action).reduce((sum, [, count]) => sum + count, 0);

/**
 * Returns the promise of an action for given values of the cells: the mean over its tries and one more, which meets
 * `hope`.
 */
function promise(ice: Ice, worth: Map<number, number>, hope: number, cell: number, action: number): number {
  const tries = triesOf(ice, cell, action);
  const sum = tries.reduce((sum, [next, count]) => sum + count * (worth.get(Number(next)) ?? 0), hope);
  return sum / (countOf(ice, cell, action) + 1);
}

/**
 * Returns a player that takes the most promising action, by value iteration over the known cells. Among equal ones: the
 * least tried.
 */
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

export const strategies = {
  /** Tries everything equally often. */
  wander: (ice: Ice) => (cell: number) => ACTIONS.toSorted((a, b) => countOf(ice, cell, a) - countOf(ice, cell, b))[0]!,
  /** Expects the best of unknown actions. */
  curious: (ice: Ice) => planner(ice, 1),
  /** Expects nothing of unknown actions. */
  careful: (ice: Ice) => planner(ice, 0),
};
type Strategy = keyof typeof strategies;

/** Adds a step to the known cells; returns those that it changed. */
export function learnStep(ice: Ice, { cell, action, next, terminated, reward }: Transition): number[] {
  const known = (at: number) => ice.get(at) ?? ice.set(at, unknown()).get(at)!;
  const tries = known(cell).tries[action]!;
  tries[next] = (tries[next] ?? 0) + 1;
  if (terminated) known(next).reward = reward;
  return terminated ? [cell, next] : [cell];
}

/** Returns the features of a decision: the share of cells that were tried. */
export const knownShare = (ice: Ice) => [...ice.keys()].filter((cell) => countOf(ice, cell, 0) >= 3).length / 11;
// #endregion

// #region player
/** Plays the episodes of the plan. Killed at any moment and started again, it continues there. */
async function play(agent: Player, report: (done: Done) => void, afterStep: (number: number, step: number) => unknown) {
  const memory = await agent.memory.open({ namespace: 'frozen-lake' });
  // Repeated with its key, each of these returns the existing object.
  const plan = await agent.planning.createPlan('frozen lake', { key: 'frozen lake' });
  const existing = (await agent.planning.tasks(plan.plan_id)).length;
  for (let number = existing + 1; number <= EPISODES; number++)
    await agent.planning.add(plan.plan_id, `episode ${number}`, { key: `${number}`, metadata: { number } });

  for (;;) {
    // An agent that was killed gets its claim again by the key.
    const claim = await agent.planning.claim(plan.plan_id, { key: 'player' });
    if (claim === undefined) return;
    const { number, episode: started } = claim.task.metadata as { number: number; episode?: string };

    // The choice of a strategy: the same id gets the same decision again.
    const ice: Ice = new Map();
    for await (const { key, content } of memory.all({ tags: ['cell'] })) ice.set(Number(key.cell), content as Cell);
    const { option, experienceId } = await agent.learning.decide('strategy', Object.keys(strategies), {
      experienceId: `episode ${number}`,
      features: [knownShare(ice)],
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

    // Its findings. `learned` is stored together with the cells, so that no episode counts twice.
    const learned = Number((await memory.get('learned'))?.content ?? 0);
    const { reward, step } = episode.latest;
    if (learned < number) {
      const changed = new Set<number>();
      for await (const { state, action, next_state, terminated, reward } of episode.transitions()) {
        const [cell, next] = [state.observation as number, next_state.observation as number];
        for (const at of learnStep(ice, { cell, action: action as number, next, terminated, reward })) changed.add(at);
      }
      const cells = [...changed].map((cell) => ({ key: { cell: `${cell}` }, content: ice.get(cell)!, tags: ['cell'] }));
      await memory.store([...cells, { key: 'learned', content: number }]);
    }
    await agent.learning.reward(experienceId, reward);
    await claim.done(`${reward === 1 ? 'crossed' : 'fell in'} after ${step} steps`);
    await episode.close();
    report({ number, strategy: option, won: reward === 1, steps: step, resumedAt });
  }
}
// #endregion

/** Returns everything that the agent has learned. */
async function learnedBy(agent: Player) {
  const memory = await agent.memory.open({ namespace: 'frozen-lake' });
  const cells = await Array.fromAsync(memory.all(), ({ key, content }) => [key, content]);
  return { cells: cells.sort(), strategies: await agent.learning.stats() };
}

// Three processes run this program: `host FOLDER`, `player ADDRESS TOKEN_FILE LIFE`, and without words the one that starts them.
const [role, place = '', tokenFile = '', life = ''] = process.argv.slice(2);
const send = (message: object) => new Promise<unknown>((resolve) => process.send?.(message, resolve));

async function open(address: string, file: string): Promise<Player> {
  const token = (await readFile(file, 'utf8')).trim();
  const capabilities = ['env', 'memory', 'learning', 'planning'] as const;
  return connect(address, { capabilities, agentId: 'player', token });
}

async function host() {
  const server = await serve(join(place, 'handfast.yaml'), { announce: false });
  await send({ tokenFile: server.tokenFile, url: server.url });
}

async function player() {
  const agent = await open(place, tokenFile);
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
  await writeFile(join(folder, 'handfast.yaml'), `listen: "tcp://127.0.0.1:0"\nplugins: ${plugins}\n`);
  const episodes: Done[] = [];
  const learned: unknown[] = [];

  const start = async () => {
    const server = fork(import.meta.filename, ['host', folder]);
    const [started] = (await once(server, 'message')) as [{ url: string; tokenFile: string }];
    return { server, ...started };
  };
  let { server, url, tokenFile } = await start();
  /** Starts the player; `ready` resolves when it has connected, `waits` when it has to be killed. */
  const run = (life: string) => {
    const child = fork(import.meta.filename, ['player', url, tokenFile, life]);
    const exit = once(child, 'exit');
    const [ready, waits] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let received = 0;
    child.on('message', (message: { done?: Done; learned?: object }) => {
      if (message.done) return void episodes.push(message.done);
      learned.push(message.learned);
      (received++ === 0 ? ready : waits).resolve();
    });
    return { child, exit, ready: Promise.race([ready.promise, exit]), waits: Promise.race([waits.promise, exit]) };
  };
  const killHost = async () => {
    server.kill('SIGKILL');
    await once(server, 'exit');
    ({ server, url, tokenFile } = await start());
  };

  if (KILL > 0) {
    const { child, exit, waits } = run('first');
    await waits;
    child.kill('SIGKILL');
    await Promise.all([exit, killHost()]);
  }
  const random = seeded(SEED);
  for (let kill = 0; kill < KILLS; kill++) {
    const { child, exit, ready } = run('again');
    await ready;
    await Promise.race([exit, delay(random() * MAX_LIFE_MS)]);
    // With the host, or alone; an attempt to kill one that has ended does nothing.
    const host = random() < 0.5 ? killHost() : undefined;
    child.kill('SIGKILL');
    await Promise.all([exit, host]);
  }
  const { exit } = run('last');
  assert.deepEqual(await exit, [0, null]);
  if (KILL > 0) {
    const [, before, after] = learned;
    assert.deepEqual(after, before);
    const resumed = episodes.find(({ resumedAt }) => resumedAt > 0);
    console.log(`killed in episode ${resumed?.number}, continued behind step ${resumed?.resumedAt}`);
  }
  if (KILLS > 0) console.log(`killed ${KILLS} times at random moments`);

  const agent = await open(url, tokenFile);
  const [plan] = await agent.planning.plans();
  const history = await Array.fromAsync(agent.planning.history(plan?.plan_id ?? ''));
  const claims = history.filter(({ action }) => action === 'claimed').map(({ task_id }) => task_id);
  assert.equal(new Set(claims).size, EPISODES);
  console.log(`${claims.length} claims of ${EPISODES} tasks, none twice`);
  assert.equal(claims.length, EPISODES);
  const ends = history.flatMap(({ comment }) => (comment ? [comment] : []));
  const outcome = { ends, ...(await decisionsOf(agent)), ...(await learnedBy(agent)) };
  await agent.close();

  const last = ends.slice(-Math.ceil(EPISODES / 3));
  const crossed = last.filter((end) => end.startsWith('crossed')).length / last.length;
  console.log(`crossed the lake in ${Math.round(crossed * 100)} % of the last ${last.length} episodes`);
  if (process.env.JSON) console.log(JSON.stringify({ episodes, outcome }, withoutTimes));
  server.kill('SIGTERM');
  await once(server, 'exit');
  // Windows frees the files of an ended process a moment later.
  await rm(folder, { recursive: true, maxRetries: 5 });
}

/** Returns every decision, requested again by its id: the strategy and its probability. */
async function decisionsOf(agent: Player) {
  const decisions: [string, number][] = [];
  for (let number = 1; number <= EPISODES; number++) {
    const again = { experienceId: `episode ${number}` };
    const { option, propensity } = await agent.learning.decide('strategy', Object.keys(strategies), again);
    decisions.push([option, propensity]);
  }
  return { decisions };
}

/** Leaves out the times, the only values that kills change. */
const withoutTimes = (key: string, value: unknown) => (key === 'last_called' ? undefined : value);

/** Numbers from 0 to 1 that depend on the seed alone. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
// #endregion

if (role === 'host') await host();
else if (role === 'player') await player();
else if (import.meta.main) await main();
