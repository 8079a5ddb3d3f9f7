/** Properties of every environment: the contract of `environment.ts`, snapshots, pictures. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inflateSync } from 'node:zlib';
import { Generator } from '../../../../src/base/random/generator.ts';
import type { Environment, Step } from '../../../../src/capabilities/env/environment.ts';
import { environmentKinds, makeEnvironment } from '../../../../src/capabilities/env/registry.ts';
import { type Image, imageRows } from '../../../../src/capabilities/env/rendering/image.ts';
import { encodePng } from '../../../../src/capabilities/env/rendering/png.ts';
import type { JsonObject } from '../../../../src/wire/json.ts';

const variants: readonly [id: string, make: JsonObject][] = [
  ...environmentKinds.map(({ id }) => [id, {}] as [string, JsonObject]),
  ['FrozenLake-v1', { map_name: null }],
  ['Taxi-v4', { is_rainy: true, fickle_passenger: true }],
  ['Blackjack-v1', { sab: false, natural: true }],
];

/** Returns sensible actions: suggestions if any exist, else samples. */
function policy(environment: Environment, seed: number): () => unknown {
  const generator = new Generator(seed);
  const sample = environment.actionSpace.sampler(seed);
  return () => {
    const suggested = environment.affordances?.();
    return suggested === undefined || suggested.length === 0 ? sample() : generator.choice(suggested).action;
  };
}

const copyOf = <Value>(value: Value): Value => JSON.parse(JSON.stringify(value)) as Value;

for (const [id, make] of variants) {
  const kind = environmentKinds.find((each) => each.id === id)!;
  const name = `${id} ${JSON.stringify(make)}`;

  test(`${name}: observations are in the space, the seed decides the episode, snapshots continue it`, async () => {
    const [environment, copy] = [await makeEnvironment(kind, make), await makeEnvironment(kind, make)];
    for (const seed of [0, 2 ** 53 - 1, null, 5, null]) {
      const start = await environment.reset({ seed });
      assert.ok(environment.observationSpace.contains(start.observation));
      const act = policy(environment, 3);
      for (let step = 0; step < 60; step += 1) {
        const action = act();
        copy.restore!(copyOf(environment.snapshot!()));
        const result: Step = await environment.step(action);
        assert.deepEqual(await copy.step(action), result);
        assert.ok(environment.observationSpace.contains(result.observation), JSON.stringify(result.observation));
        assert.ok(Number.isFinite(result.reward));
        if (result.terminated || result.truncated) break;
      }
      // A null seed continues the generator, even that of a copy.
      copy.restore!(copyOf(environment.snapshot!()));
      assert.deepEqual(await copy.reset(), await environment.reset());
    }
  });

  test(`${name}: the same seed and actions give the same episode, and what is returned is fresh`, async () => {
    const play = async (): Promise<unknown[]> => {
      const environment = await makeEnvironment(kind, { ...make, ...(make.map_name === null && seededMap) });
      const results: unknown[] = [copyOf(await environment.reset({ seed: 77 }))];
      const act = policy(environment, 6);
      for (let step = 0; step < 30; step += 1) {
        const result = await environment.step(act());
        results.push(copyOf(result));
        // A caller may change an observation.
        if (Array.isArray(result.observation)) result.observation.fill(12345);
        if (result.terminated || result.truncated) break;
      }
      return results;
    };
    assert.deepEqual(await play(), await play());
  });

  test(`${name}: steps before a reset and unknown actions are refused; neither counts nor draws`, async () => {
    const environment = await makeEnvironment(kind, make);
    const valid = environment.actionSpace.sampler(0)();
    await assert.rejects(async () => environment.step(valid), { code: 'runtime_error' });
    await assert.rejects(async () => environment.render!('ansi'), { code: 'runtime_error' });
    await environment.reset({ seed: 1 });
    const before = copyOf(environment.snapshot!());
    for (const action of [-1, 99, 0.5, null, undefined, [0], {}, NaN, 1n])
      await assert.rejects(async () => environment.step(action), { code: 'unknown_action' });
    assert.deepEqual(copyOf(environment.snapshot!()), before);
  });

  test(`${name}: text and picture show the state, and the picture is a PNG`, async () => {
    const environment = await makeEnvironment(kind, make);
    await environment.reset({ seed: 2 });
    assert.match((await environment.render!('ansi')) as string, /\S/);
    const image = (await environment.render!('rgb_array')) as Image;
    assert.deepEqual(decoded(encodePng(image)), image);
    const rows = imageRows(image);
    assert.deepEqual([rows.length, rows[0]!.length, rows[0]![0]!.length], [image.height, image.width, 3]);
    assert.ok(new Set(rows.flat().map(String)).size >= 3, 'there is more than a background');
    const act = policy(environment, 1);
    let changed = false;
    for (let step = 0; step < 20 && !changed; step += 1) {
      const { terminated, truncated } = await environment.step(act());
      changed = !Buffer.from(((await environment.render!('rgb_array')) as Image).pixels).equals(image.pixels);
      if (terminated || truncated) await environment.reset();
    }
    assert.ok(changed, 'the picture follows the state');
  });
}

const seededMap = { random_map: { size: 6, p: 0.8, seed: 3 } };

/** Returns the picture of a PNG file without filters. */
function decoded(png: Buffer): Image {
  assert.equal(png.toString('latin1', 1, 4), 'PNG');
  const [width, height] = [png.readUInt32BE(16), png.readUInt32BE(20)];
  const length = png.readUInt32BE(33);
  assert.equal(png.toString('latin1', 37, 41), 'IDAT');
  const lines = inflateSync(png.subarray(41, 41 + length));
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0; y < height; y += 1) {
    const at = y * (width * 3 + 1);
    assert.equal(lines[at], 0);
    pixels.set(lines.subarray(at + 1, at + 1 + width * 3), y * width * 3);
  }
  return { width, height, pixels };
}
