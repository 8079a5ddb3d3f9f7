/**
 * Rights of principals: the one function of rights, and the combination of roles and grants.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { maySet } from '../../src/base/child-environment.ts';
import { ownerSeenBy } from '../../src/control/sessions/methods/history-handlers.ts';
import type { Principal } from '../../src/session/principal.ts';
import { type Action, type Actions, EVERY_OWNER, may, must, variableRights } from '../../src/session/rights.ts';
import { joinGrants, principalWith, ROLES, type RoleName } from '../../src/session/roles.ts';

/** One question for each action: the object, if the action has one. */
const questions: readonly (readonly [Action, unknown?])[] = [
  ['use', 'tools'],
  ['use', 'memory'],
  ['call', { name: 'read_file', risks: ['reads'] }],
  ['call', { name: 'write_file', risks: ['writes', 'destructive'] }],
  ['call', { name: 'shell', risks: ['exec'] }],
  ['read', 'p'],
  ['read', 'other'],
  ['drive', 'p'],
  ['drive', 'other'],
  ['approve', 'p'],
  ['approve', 'other'],
  ['backend', 'model'],
  ['backend', 'codex'],
  ['provider', 'openai'],
  ['mcp_server', 'npx'],
  ['folder', { path: '/srv/a', workspace: '/srv' }],
  ['folder', { path: '/elsewhere', workspace: '/srv' }],
  ['variable', 'FOO'],
  ['settings'],
  ['submit', 'p'],
  ['submit', 'other'],
  ['operate'],
  ['work', { name: 'p' }],
  ['work', { name: 'q' }],
  ['observe', 'p'],
  ['observe', 'other'],
  ['administer'],
];

const ask = (principal: Principal, [action, object]: readonly [Action, unknown?]): boolean =>
  (may as (principal: Principal, action: Action, object?: unknown) => boolean)(principal, action, object);

const text = ([action, object]: readonly [Action, unknown?]): string =>
  object === undefined
    ? action
    : `${action} ${typeof object === 'string' ? object : Object.values(object as object)[0]}`;

const allowed = (principal: Principal): string[] => questions.filter((one) => ask(principal, one)).map(text);

/** Rights of every principal: a provider is refused only by a list, and the workspace is open to all with sessions. */
const ANYONE = ['provider openai', 'folder /srv/a'];

describe('the preset roles', () => {
  const expected: Record<RoleName, readonly string[]> = {
    admin: questions.map(text),
    operator: [
      'read p',
      'read other',
      'drive p',
      'drive other',
      'approve p',
      'approve other',
      'backend model',
      'backend codex',
      'submit p',
      'submit other',
      'operate',
      'observe p',
      'observe other',
    ],
    agent: ['use tools', 'call read_file'],
    client: ['use tools', 'call read_file', 'call write_file', 'read p', 'drive p', 'approve p', 'backend model'],
    viewer: ['read p', 'read other'],
    worker: ['work p'],
  };
  for (const role of Object.keys(ROLES) as RoleName[]) {
    test(`${role} may do this and nothing else`, () => {
      // Tools without a guarded risk are a question of the capability, which is asked before.
      const always = [...ANYONE, 'call read_file', 'observe p'];
      const own = allowed(principalWith('p', [role])).filter((one) => !always.includes(one));
      assert.deepEqual(
        own,
        expected[role].filter((one) => !always.includes(one)),
      );
    });
  }

  test('a name without roles or grants may do nothing', () => {
    assert.deepEqual(allowed({ name: 'p' }), ['call read_file', 'provider openai', 'folder /srv/a', 'observe p']);
  });
});

test('grants add up, what one of them denies is denied, and limits of the token come first', () => {
  const joined = joinGrants(
    {
      capabilities: ['tools'],
      tools: { deny: ['a'], risks: ['exec'] },
      sessions: { read: 'all' },
      limits: { maxParallel: 9 },
    },
    {
      capabilities: ['memory'],
      tools: { deny: ['b'] },
      sessions: { read: 'own', drive: 'own' },
      limits: { maxParallel: 2 },
    },
  );
  assert.deepEqual(joined.capabilities, ['tools', 'memory']);
  assert.deepEqual(joined.tools?.deny, ['a', 'b']);
  assert.deepEqual(joined.tools?.risks, ['exec']);
  assert.deepEqual(joined.sessions, { read: 'all', drive: 'own', approve: undefined });
  assert.deepEqual(joined.limits, { maxParallel: 2 });
});

test('joining a role never takes away, except by deny and by a list of only these tools', () => {
  const names = Object.keys(ROLES) as RoleName[];
  for (const one of names) {
    for (const two of names) {
      const both = allowed(principalWith('p', [one, two]));
      for (const role of [one, two]) {
        const lost = allowed(principalWith('p', [role])).filter((question) => !both.includes(question));
        assert.deepEqual(lost, [], `${one} with ${two} loses of ${role}`);
      }
    }
  }
});

test('guarded risks need their name, or the name of the tool without a wildcard; deny wins', () => {
  const shell = { name: 'shell', risks: ['exec', 'network'] };
  const can = (tools: Principal['tools'], more: object = {}) => may({ name: 'p', tools, ...more }, 'call', shell);
  assert.equal(can(undefined), false);
  assert.equal(can({ allow: ['*'] }), false);
  assert.equal(can({ allow: ['sh*'] }), false);
  assert.equal(can({ allow: ['shell'] }), true);
  assert.equal(can({ risks: ['exec'] }), false);
  assert.equal(can({ risks: ['exec', 'network'] }), true);
  assert.equal(can({ risks: ['exec', 'network'], denyRisks: ['network'] }), false);
  assert.equal(can({ allow: ['shell'], deny: ['s*'] }), false);
  assert.equal(can(undefined, { admin: true }), true);
  assert.equal(can({ deny: ['shell'] }, { admin: true }), false);
});

test('a folder is open with all below it, and not its neighbour of a longer name', () => {
  const at = (path: string) => may({ name: 'p', folders: ['/data/a'] }, 'folder', { path, workspace: '/srv' });
  assert.deepEqual(['/srv', '/srv/x', '/data/a', '/data/a/b'].map(at), [true, true, true, true]);
  assert.deepEqual(['/srvs', '/', '/data', '/data/ab'].map(at), [false, false, false, false]);
});

test('names with odd characters are compared as they are written', () => {
  const as = (worker: string, name: string) => may({ name: 'p', fleet: { worker: [worker] } }, 'work', { name });
  assert.equal(as('a.b', 'axb'), false);
  assert.equal(as('a*', 'a\nb'), true);
  assert.equal(as('(a|b)', 'a'), false);
  assert.equal(as('__proto__', '__proto__'), true);
});

test('a worker of a pool needs the pool, where pools are named', () => {
  const fleet = { worker: ['w'], pools: ['fast'] };
  const joins = (pool?: string) => may({ name: 'p', fleet }, 'work', { name: 'w', ...(pool && { pool }) });
  assert.deepEqual([joins(), joins('slow'), joins('fast')], [false, false, true]);
});

test('a refusal names who, and the grant that is missing', () => {
  assert.throws(() => must({ name: 'ann' }, 'settings'), {
    code: 'unauthorized',
    message: 'ann may not do this: the grant settings is missing',
    detail: { grant: 'settings' },
  });
});

test('the sessions of all owners are asked for as such: no name of a principal means them', () => {
  for (const name of ['*', 'all', 'every owner', '']) {
    assert.equal(may({ name, sessions: { read: 'own' } }, 'read', EVERY_OWNER), false);
    assert.equal(may({ name, sessions: { read: 'all' } }, 'read', EVERY_OWNER), true);
    assert.equal(ownerSeenBy({ name, ...ROLES.client }), name);
  }
});

test('a role that does not exist is refused', () => {
  for (const role of ['root', '__proto__', 'toString']) {
    assert.throws(() => principalWith('p', [role]), { code: 'config_invalid' });
  }
});

// Every action has a question above.
test('every action is asked', () => {
  const every: { readonly [A in keyof Actions]: true } = {
    use: true,
    call: true,
    read: true,
    drive: true,
    approve: true,
    backend: true,
    provider: true,
    mcp_server: true,
    folder: true,
    variable: true,
    settings: true,
    submit: true,
    operate: true,
    work: true,
    observe: true,
    administer: true,
  };
  assert.deepEqual([...new Set(questions.map(([action]) => action))].sort(), Object.keys(every).sort());
});

test('a variable is set by its name, by a wildcard that covers no code, and by an administrator', () => {
  const maySetAs = (principal: Principal, name: string): boolean => maySet(name, 'x', variableRights(principal));
  const named: Principal = { name: 'p', env: ['FOO', 'APP_*', 'LESSOPEN', 'HANDFAST_TOKEN', 'PATH', 'GIT_*'] };
  const outcomes = { FOO: true, APP_MODE: true, LESSOPEN: true, BAR: false, foo: false, GIT_SSH: false, GIT_X: false };
  for (const [name, may] of Object.entries(outcomes)) assert.equal(maySetAs(named, name), may, name);
  // These are of the host.
  for (const name of ['PATH', 'HANDFAST_TOKEN', 'HANDFAST_CHILD_OF']) assert.equal(maySetAs(named, name), false, name);
  const admin: Principal = { name: 'local', admin: true };
  assert.deepEqual(
    ['BAR', 'NODE_ENV', 'MAKEFLAGS', 'LD_PRELOAD', 'HOME', 'PATH'].map((name) => maySetAs(admin, name)),
    [true, true, false, false, false, false],
  );
  const within: Principal = { name: 'p', env: ['FOO'], within: { name: 'p' } };
  assert.equal(maySetAs(within, 'FOO'), false, 'not more than the agent above it');
});
