/** Runs the published vectors of routing, through the plain function and through the indexed router. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { DEFAULT_ROUTE_POLICY, type Profile, type RoutePolicy, type RouteTask } from '../../src/fleet/route/profile.ts';
import { route } from '../../src/fleet/route/route.ts';
import { Router } from '../../src/fleet/route/router.ts';
import { sampleProfile, sampleTask } from './route/samples.ts';

const folder = new URL('../vectors/fleet/', import.meta.url);
const files = readdirSync(folder).filter((name) => name.startsWith('route.'));

interface Wire {
  readonly task: { task_id: string; priority: RouteTask['priority']; token_budget?: number };
  readonly requirements: Partial<
    Pick<RouteTask, 'required_mcp' | 'required_capabilities' | 'min_tier' | 'min_context_window'>
  >;
  readonly deadline: string;
  readonly brief: string;
  readonly envelope?: { context_id?: string };
}

interface Vector {
  readonly input: {
    readonly now: string;
    readonly policy: Partial<RoutePolicy> & { readonly exclude?: readonly string[] };
    readonly dispatch: Wire;
    readonly profiles: readonly (Partial<Profile> & { readonly mcp_health?: Record<string, string> })[];
  };
  readonly expect: unknown;
}

const taskOf = ({ task, requirements, deadline, brief, envelope }: Wire): RouteTask =>
  sampleTask({
    ...task,
    ...requirements,
    deadlineMs: Date.parse(deadline),
    brief_bytes: Buffer.byteLength(brief),
    ...(envelope?.context_id !== undefined && { context_id: envelope.context_id }),
  });

/** Makes the profile of a worker; members that a vector leaves out are unknown. */
const profileOf = (given: Vector['input']['profiles'][number]): Profile =>
  sampleProfile({
    agent_id: 'nobody',
    model_tier: 'unknown',
    context_window: null,
    tools: [],
    mcp_servers: [],
    max_concurrent: null,
    repo_state: null,
    session_fresh: null,
    ...given,
    mcp_health: new Map(Object.entries(given.mcp_health ?? {})),
  });

test('there are vectors of routing', () => assert.equal(files.length, 21));

for (const file of files) {
  test(`${file} is routed as published`, () => {
    const { input, expect } = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Vector;
    const { exclude = [], ...changes } = input.policy;
    const policy = { ...DEFAULT_ROUTE_POLICY, ...changes };
    const task = taskOf(input.dispatch);
    const profiles = input.profiles.map(profileOf);
    const excluded = new Set(exclude);
    const nowMs = Date.parse(input.now);
    assert.deepEqual(route(task, profiles, policy, { nowMs, excluded }), expect);

    for (const ways of [{}, { checkEachUpTo: 0 }]) {
      const router = new Router(policy, undefined, ways);
      for (const profile of profiles) router.upsert(profile, 5000);
      const { rejected_more, ...decided } = router.decide(task, { nowMs: 5000, wallMs: nowMs, excluded });
      assert.deepEqual(decided, expect);
      assert.equal(rejected_more, 0);
    }
  });
}
