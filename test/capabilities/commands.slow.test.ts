/**
 * Every command of the capabilities that need no other program, as a program calls it: with `--json` it prints one JSON
 * document, or one per line for a stream, and nothing else; a mistake is one line of JSON on stderr; exit codes are those of
 * the error.
 *
 * A command without a row fails the test. `test/cli/documents.slow.test.ts` checks the documents against their schema.
 */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { commandsBelow, wordsOf } from '../../src/cli/examples.ts';
import { commandLine } from '../../src/cli/program.ts';
import { type Json, User } from '../cli/command.ts';

interface Row {
  /** Its arguments, after the effects of the rows above; `ID` is the id that the row above printed. */
  readonly does?: readonly string[];
  readonly input?: string;
  readonly exit?: number;
  /** True when it prints one document per line. */
  readonly stream?: true;
  /** Invalid arguments, the code of the error, and the content of the message; exit code 2 unless given. */
  readonly fails: readonly [args: readonly string[], code: string, about: RegExp, exit?: number];
}

const proposal = '{"path":"router.weights.read","new_value":0.4}';

/** In the order in which they run. */
const table: Readonly<Record<string, Row>> = {
  'memory add': {
    does: ['city', 'Lisbon', '--tag', 'profile'],
    fails: [
      ['city', 'Lisbon', '--tier', 'core'],
      'usage',
      /^--tier: expected working, episodic or semantic, got "core"/,
    ],
  },
  'memory search': {
    does: ['Lisbon'],
    fails: [['x', '--ranking', 'best'], 'usage', /^--ranking: expected hybrid, lexical or vector, got "best"/],
  },
  'memory get': { does: ['city'], fails: [['nothing'], 'not_found', /^no entry nothing.*handfast memory ls/, 5] },
  'memory ls': { fails: [['--limit', '-1'], 'usage', /^--limit: expected a whole number, got "-1"/] },
  'memory history': {
    does: ['city'],
    fails: [[], 'usage', /^missing required argument 'key'.*handfast memory history/],
  },
  'memory spaces': { fails: [['--tier', 'x'], 'usage', /unknown option '--tier'.*handfast memory spaces --help/] },
  'memory stats': { fails: [['more'], 'usage', /too many arguments.*handfast memory stats --help/] },
  'memory export': { stream: true, fails: [['--tier', 'core'], 'usage', /^--tier: expected/] },
  'memory import': { does: ['entries.jsonl'], fails: [['.'], 'usage', /^\. is a folder.*JSON lines/] },
  'memory publish': {
    does: ['team', 'city'],
    fails: [['team', 'nothing'], 'not_found', /^no semantic entry of this memory has the key nothing/, 5],
  },
  'memory forget': { does: ['city'], fails: [[], 'usage', /^name what to forget/] },

  'learning decide': {
    does: ['search', 'lexical', 'hybrid'],
    fails: [['', 'a', 'b'], 'schema_violation', /\/choice must have 1 to 100 characters/, 5],
  },
  'learning reward': {
    does: ['ID', '1'],
    fails: [['nothing', 'good'], 'usage', /^the reward must be a number, got "good"/],
  },
  'learning stats': { fails: [['--component'], 'usage', /unknown option/] },
  'learning experiences': { fails: [['x'], 'usage', /too many arguments/] },
  'learning feedback': { fails: [['x'], 'usage', /too many arguments/] },
  'learning adapt': {
    does: ['search'],
    fails: [
      ['search', '--strategy', 'best'],
      'usage',
      /^--strategy: expected ppo, ucb1, epsilon_greedy or softmax, got "best"/,
    ],
  },
  'learning plan': { fails: [['a', 'b'], 'usage', /too many arguments/] },
  'learning review': { does: [proposal], fails: [['no JSON'], 'usage', /^the proposal must be a JSON object/] },
  'learning apply': { does: [proposal], fails: [['no JSON'], 'usage', /^the proposal must be a JSON object/] },
  'learning rollback': { does: ['ID'], fails: [[], 'usage', /missing required argument 'refinement'/] },
  'learning history': { fails: [['x'], 'usage', /too many arguments/] },
  'learning evaluate': {
    does: ['search', '--option', 'hybrid'],
    fails: [['search'], 'usage', /^name what to estimate: --option or --policy/],
  },
  'learning forget': { does: ['search'], fails: [[], 'usage', /^name a choice, or give --all/] },

  'plan create': { does: ['release'], fails: [[''], 'usage', /^the name of the plan is empty/] },
  'plan ls': { fails: [['x'], 'usage', /too many arguments/] },
  'plan add': {
    does: ['release', 'Write the docs'],
    fails: [['release', 'x', '--priority', 'high'], 'usage', /^--priority: expected a whole number, got "high"/],
  },
  'plan tasks': {
    does: ['release'],
    fails: [
      ['release', '--status', 'dnoe'],
      'usage',
      /^--status: the plan "release" has no column "dnoe"; did you mean "done"\?/,
    ],
  },
  'plan board': {
    does: ['release'],
    fails: [['release', '--limit', '-1'], 'usage', /^--limit: expected a whole number, got "-1"/],
  },
  'plan show': { does: ['release'], fails: [['nothing'], 'planning.unknown_plan', /^there is no plan "nothing"/, 5] },
  'plan ready': { does: ['release'], fails: [['nothing'], 'planning.unknown_plan', /handfast plan ls/, 5] },
  'plan comment': {
    does: ['release', 'Write the docs', 'figures are missing'],
    fails: [
      ['release', 'nothing', 'x'],
      'planning.unknown_task',
      /^there is no task "nothing".*handfast plan tasks release/,
      5,
    ],
  },
  'plan claim': {
    does: ['release', 'Write the docs'],
    fails: [['release', 'Write the docs', '--lease', 'soon'], 'usage', /^--lease: expected seconds, got "soon"/],
  },
  'plan renew': {
    does: ['release', 'Write the docs', '--fence', '1'],
    fails: [['release', 'Write the docs'], 'usage', /^pass the fence of your claim/],
  },
  'plan release': {
    does: ['release', 'Write the docs', '--fence', '1'],
    fails: [['release', 'Write the docs', '--fence', '9'], 'planning.claim_lost', /fence 9/, 5],
  },
  'plan move': {
    does: ['release', 'Write the docs', 'todo'],
    fails: [['release', 'Write the docs', 'dnoe'], 'usage', /has no column "dnoe"; did you mean "done"\?.*--force/],
  },
  'plan configure': {
    does: ['release', '--columns', 'backlog', 'todo', 'done'],
    fails: [['release', '--deps', 'maybe'], 'usage', /^--deps: expected enforced or advisory, got "maybe"/],
  },
  'plan history': {
    does: ['release'],
    stream: true,
    fails: [['release', 'nothing'], 'planning.unknown_task', /^there is no task/, 5],
  },
  'plan watch': { fails: [['release', '--after', 'x'], 'usage', /^--after: expected a whole number, got "x"/] },
  'plan share': {
    does: ['release', 'reviewer', 'read'],
    fails: [['release', 'reviewer', 'owner'], 'usage', /^the role: expected read, write or none, got "owner"/],
  },
  'plan sync': { does: ['release', 'TODO.md'], fails: [['release', '.'], 'usage', /^\. is a folder.*Markdown/] },
  // With a fleet: `test/capabilities/planning/dispatch.slow.test.ts`.
  'plan dispatch': { fails: [['release'], 'unreachable', /handfast fleet up/, 4] },
  'plan archive': { does: ['release'], fails: [['nothing'], 'planning.unknown_plan', /^there is no plan/, 5] },
  'plan delete': { does: ['release'], fails: [[], 'usage', /missing required argument 'plan'/] },

  'env ls': { fails: [['x'], 'usage', /too many arguments/] },
  'env spaces': {
    does: ['FrozenLake-v1'],
    fails: [
      ['FrozenLake-v1', '--make', '{"slippery":true}'],
      'env.invalid_options',
      /has no "slippery".*is_slippery/,
      5,
    ],
  },
  'env check': {
    does: ['FrozenLake-v1', '--steps', '20'],
    fails: [['FrozenLake-v1', '--steps', '0'], 'usage', /^--steps: expected a whole number from 1 to 1000, got "0"/],
  },
  'env play': {
    does: ['FrozenLake-v1', '--seed', '1'],
    input: '1\n2\n',
    stream: true,
    fails: [['Nothing-v0'], 'runtime_error', /handfast env ls/, 5],
  },
  'env run': {
    does: ['FrozenLake-v1', '--episodes', '2'],
    fails: [['FrozenLake-v1', '--episodes', '0'], 'usage', /^--episodes: expected a whole number from 1, got "0"/],
  },
  'env record': {
    does: ['FrozenLake-v1', 'out.jsonl'],
    fails: [['FrozenLake-v1', 'TODO.md'], 'usage', /^TODO.md exists already/],
  },

  'toolkits ls': { fails: [['x'], 'usage', /too many arguments/] },
  'toolkits show': { does: ['search'], fails: [['nothing'], 'toolkits.unknown', /^there is no toolkit "nothing"/, 5] },
  'toolkits configure': {
    does: ['sqlite', '{"max_rows":5}'],
    fails: [['sqlite', 'max_rows'], 'usage', /^the configuration must be a JSON object/],
  },
  'toolkits enable': { does: ['sqlite'], fails: [['git'], 'toolkits.unknown', /^there is no toolkit "git"/, 5] },
  'toolkits disable': { does: ['search'], fails: [[], 'usage', /missing required argument 'toolkit'/] },
  'toolkits search': {
    does: ['move', 'file'],
    fails: [['x', '--limit', '3'], 'usage', /unknown option '--limit'/],
  },

  'skill new': { does: ['count-lines'], fails: [['Count'], 'usage', /lower-case letters.*got "Count"/] },
  'skill check': { does: ['skills'], fails: [['--all'], 'usage', /unknown option '--all'/] },
  'skill ls': { fails: [['x'], 'usage', /too many arguments/] },
  'skill show': {
    does: ['count-lines'],
    fails: [['nothing'], 'unknown_skill', /^there is no skill "nothing"/, 5],
  },
  'skill run': {
    does: ['count-lines', '{"path":"entries.jsonl"}'],
    fails: [['count-lines', 'path'], 'usage', /^the arguments must be a JSON object/],
  },

  'agents kinds': { fails: [['x'], 'usage', /too many arguments/] },
  'agents run': { does: ['hello'], fails: [['x', '--count', '0'], 'usage', /^--count needs a number above 0/] },
  'agents ls': { fails: [['x'], 'usage', /too many arguments/] },
  'agents show': {
    does: ['last'],
    fails: [['nothing'], 'not_found', /^no subagent has an id that starts with "nothing"/, 5],
  },
  'agents terminate': { does: ['sub_'], fails: [['nothing'], 'not_found', /handfast agents ls/, 5] },

  // Serves until it is stopped: `test/capabilities/env/gym-bridge.test.ts`.
  'env serve-gym': { fails: [[], 'usage', /missing required argument 'names'/] },
};

const GROUPS = ['memory', 'learning', 'plan', 'env', 'skill', 'toolkits', 'agents'];

const documentsOf = (stdout: string): Json[] =>
  stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));

describe('the commands', { timeout: 300_000 }, () => {
  const user = new User();
  after(() => user.leave());

  before(async () => {
    user.write('entries.jsonl', '{"key":"river","content":"Tagus","tier":"semantic"}\n');
    const command = [process.execPath, fileURLToPath(new URL('../support/echo-subagent.mjs', import.meta.url))];
    const echo = JSON.stringify({ use: 'multi_agent', options: { kinds: [{ name: 'echo', command }] } });
    const plugins = `[tools, env, learning, memory, planning, toolkits, { use: skill, options: { roots: ['./skills'] } }, ${echo}]`;
    await user.up(['--config', user.write('host.yaml', `plugins: ${plugins}\n`)]);
  });

  test('all have a row', async () => {
    const words = commandsBelow(await commandLine(async () => {}))
      .filter((command) => command.commands.length === 0)
      .map(wordsOf)
      .filter((name) => GROUPS.includes(name.split(' ', 1)[0] as string));
    assert.deepEqual(Object.keys(table).sort(), words.sort());
  });

  test('print JSON with --json, and fail with one error and its exit code', async () => {
    let id = '';
    const problems: string[] = [];
    for (const [words, { does, input = '', exit = 0, stream, fails }] of Object.entries(table)) {
      const [args, code, about, failure = 2] = fails;
      const runs = !['plan watch', 'plan dispatch', 'env serve-gym'].includes(words);
      try {
        if (runs) {
          const given = (does ?? []).map((word) => (word === 'ID' ? id : word));
          const { stdout, stderr, code: ended } = await user.run([...words.split(' '), ...given, '--json'], { input });
          assert.deepEqual({ ended, stderr }, { ended: exit, stderr: '' });
          const documents = documentsOf(stdout);
          assert.ok(stream ? documents.length > 0 : documents.length === 1, `${documents.length} documents`);
          id = documents[0]?.experience_id ?? documents[0]?.refinement_id ?? id;
        }
        const failed = await user.failure([...words.split(' '), ...args]);
        assert.deepEqual([failed.code, failed.exit], [code, failure], failed.message);
        assert.match(failed.message, about);
      } catch (error) {
        problems.push(`${words}: ${(error as Error).message}`);
      }
      if (words === 'plan sync') writeFileSync(join(user.cwd, 'TODO.md'), '# Empty\n');
    }
    assert.equal(problems.join('\n'), '');
  });

  test('a command that follows prints each entry as it comes, until Ctrl-C', async () => {
    await user.json(['plan', 'create', 'followed']);
    const watching = user.start(['plan', 'watch', 'followed', '--after', '0', '--json']);
    await watching.says('\n');
    await user.json(['plan', 'add', 'followed', 'one']);
    await watching.says('"one"');
    watching.child.kill('SIGINT');
    const { code, stdout } = await watching.ended();
    assert.equal(code, 130);
    assert.deepEqual(
      documentsOf(stdout).map(({ seq }) => seq),
      [1, 2],
    );
  });
});
