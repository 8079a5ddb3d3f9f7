/**
 * `routing.learn`: outcomes of tasks reach the router, and the record of a task shows the choice by learning.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { fleet } from './support/fleet.ts';
import { settle } from './support/virtual-clock.ts';

for (const learn of [true, false]) {
  test(`with learn: ${learn} outcomes ${learn ? 'change' : 'do not change'} which of two like workers gets a task`, async (t) => {
    const { bus, orchestrator } = await fleet(t, { learn });
    const workers = { a: await bus.worker('a'), b: await bus.worker('b') };
    const chosen: string[] = [];
    for (let round = 0; round < 12; round++) {
      const { task_id } = await orchestrator.submit({ brief: `task ${round}` });
      await settle();
      const { explanation } = await orchestrator.get(task_id);
      assert.equal(explanation?.learned !== undefined, learn);
      const name = explanation?.chosen as 'a' | 'b';
      chosen.push(name);
      if (learn) assert.match(explanation?.sentence ?? '', /learning chooses among nearly equal workers/);
      await workers[name].report(task_id, 'done', {}, 1);
      await settle();
    }
    assert.equal(new Set(chosen).size, learn ? 2 : 1);
  });
}
