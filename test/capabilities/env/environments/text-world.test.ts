/** The text world: its own suggestions solve every world, seeds decide it, words are matched loosely. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TextWorld } from '../../../../src/capabilities/env/environments/text-world.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

/** Returns commands from the state of a snapshot to the end of the quest: breadth first over the suggested commands. */
function solve(options: JsonObject, seed: number): string[] {
  const world = new TextWorld(options);
  world.reset({ seed });
  const queue: [JsonObject, string[]][] = [[world.snapshot(), []]];
  const seen = new Set<string>();
  while (queue.length > 0) {
    const [from, way] = queue.shift()!;
    world.restore(from);
    for (const { action } of world.affordances()) {
      if (action === 'look' || action === 'inventory') continue;
      world.restore(from);
      const { terminated } = world.step(action);
      if (terminated) return [...way, action];
      const { state } = world.snapshot() as { state: JsonObject };
      const key = JSON.stringify([state.room, state.places, state.isOpen]);
      if (!seen.has(key)) {
        seen.add(key);
        queue.push([world.snapshot(), [...way, action]]);
      }
    }
  }
  return assert.fail(`seed ${seed} cannot be solved`);
}

test('every world can be solved by suggested commands, for a reward of 1', () => {
  for (let seed = 0; seed < 25; seed += 1) {
    const options = { rooms: 2 + (seed % 7), clutter: 0 };
    const commands = solve(options, seed);
    const world = new TextWorld(options);
    world.reset({ seed });
    const steps = commands.map((command) => world.step(command));
    assert.equal(
      steps.reduce((sum, { reward }) => sum + reward, 0),
      1,
    );
    assert.ok(steps.slice(0, -1).every(({ terminated }) => !terminated));
    assert.match(steps.at(-1)!.observation, /quest is done/);
    assert.equal(steps.at(-1)!.info.score, 1);
  }
});

test('the seed decides the world, a null seed continues with another one, world_seed keeps one', () => {
  const [one, other] = [new TextWorld(), new TextWorld()];
  const start = one.reset({ seed: 11 });
  assert.deepEqual(other.reset({ seed: 11 }), start);
  const next = one.reset();
  assert.notDeepEqual(next, start);
  assert.deepEqual(other.reset(), next);
  const kept = new TextWorld({ world_seed: 4 });
  assert.deepEqual(kept.reset({ seed: 1 }), kept.reset({ seed: 2 }));
});

test('a snapshot continues exactly', () => {
  const world = new TextWorld({ rooms: 4 });
  world.reset({ seed: 8 });
  const copy = new TextWorld({ rooms: 4 });
  for (let step = 0; step < 30; step += 1) {
    const [first] = world.affordances().slice(2 + (step % 3));
    const command = first?.action ?? 'look';
    copy.restore(JSON.parse(JSON.stringify(world.snapshot())) as JsonObject);
    assert.deepEqual(copy.step(command), world.step(command));
    assert.equal(copy.render('ansi'), world.render('ansi'));
  }
});

test('words may be written in several ways; nonsense costs a step, changes nothing, and names what can be said', () => {
  const world = new TextWorld();
  world.reset({ seed: 3 });
  const looked = world.step('LOOK').observation;
  for (const same of ['l', ' look ', 'Look']) assert.equal(world.step(same).observation, looked);
  assert.equal(world.step('i').observation, 'You carry nothing.');
  const nonsense: [string, RegExp][] = [
    ['dance', /not understood.*look, inventory/],
    ['go constructor', /no way "constructor"/],
    ['take __proto__', /no "__proto__" to take/],
    ['take crown of doom', /to take/],
    ['drop key', /do not carry/],
    ['open door', /to open/],
    ['🌱', /not understood/],
  ];
  for (const [command, expected] of nonsense) {
    const { observation, reward, terminated } = world.step(command);
    assert.match(observation, expected);
    assert.deepEqual([reward, terminated], [0, false]);
  }
  assert.equal(world.step('look').observation, looked);
  assert.throws(() => world.step(''), { code: 'unknown_action' });
  assert.throws(() => world.step('x'.repeat(201)), { code: 'unknown_action' });
});
