/**
 * Runs everything in `examples/` as its reader would, by the package's own name, and checks its output. An example also
 * asserts its claims itself, so that a false one exits with an error.
 */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import { root } from './rules/scan.ts';

/** Far above their duration; an example that hangs is ended. */
const PATIENCE_MS = 120_000;

/** Example → its output, a pattern for each line that must be present, in this order. */
const examples: Readonly<Record<string, readonly RegExp[]>> = {
  'first-plugin.ts': [/^days: \{ days: 7 \}$/, /^refused: schema_violation: .*\/from must be string$/],
  'first-agent.ts': [
    /^matches in \d+ of \d+ files$/,
    /^MIT License$/,
    /^tool_denied: "\.\.\/secret" is outside the workspace$/,
    /^the call ended: cancelled$/,
  ],
  'agent-loop.ts': [
    /^1 × grep$/,
    /^\d+ × read_file$/,
    /^1 × count_errors$/,
    /^\d+ events, the last: count_errors progress: source \d+$/,
    /^most thrown: \{ \w+: \d+, \w+: \d+, \w+: \d+ \}$/,
  ],
  'chain-agents.ts': [
    /^accepted by large$/,
    /^a\.log has 12 lines, b\.log has 30 lines, c\.log has 7 lines$/,
    /^the fleet: done by large$/,
  ],
  'chains.ts': [
    /^done: logs$/,
    /^done: each$/,
    /^done: worst$/,
    /^done: report$/,
    /^done$/,
    /^b\.log has most: 30$/,
    /^later: paused$/,
    /^resumed: true, 3 outputs$/,
  ],
  'env.ts': [
    /^kept the pole up for \d{3} steps$/,
    /^8 poles, \d+ fell$/,
    /^> look$/,
    /^You are in the \w+\./,
    /^FrozenLake-v1 breaks 0 rules$/,
  ],
  'environment.ts': [/^breaks 0 rules$/, /^found in \d guesses$/],
  'fleet.ts': [/^done by writer I was asked to write poems$/],
  'learner.ts': [
    /^killed in episode 60, continued behind step 2$/,
    /^120 claims of 120 tasks, none twice$/,
    /^crossed the lake in (?:[5-9]\d|100) % of the last 40 episodes$/,
  ],
  'learning.ts': [
    /^found \d+ of 200$/,
    /^recommended: hybrid, policy: thompson_beta$/,
    /^earned 0\.\d\d; always hybrid: 0\.\d\d$/,
    /^rolled back: true$/,
  ],
  'mcp.ts': [
    /^tools: true, tells the time$/,
    /^progress: \d+ %$/,
    /^done: true$/,
    /^mcp_transport_error, may have run: true$/,
    /^again: noon$/,
    /^tool_changed$/,
    /^accepted: time$/,
    /^then: noon$/,
  ],
  'mcp-server.ts': [
    /^connected to handfast$/,
    /^progress: 50 %$/,
    /^asked: Who are you\?$/,
    /^greet: Hello Ada$/,
    /^greet: failed, schema_violation: /,
    /^memory:\/\/mcp\/user%2Fname: .*"text":"Ada"/,
  ],
  'memory.ts': [
    /^found: Ada lives in Lisbon$/,
    /^another day: Ada lives in Lisbon$/,
    /^in 2020: Ada lives in Rome$/,
    /^versions: 2$/,
    /^changed: \[ \{ key: 'seat' \} \]$/,
    /^forgotten: 2, erased: true$/,
  ],
  'planning.ts': [
    /^ana works on: Write the docs$/,
    /^bo works on: Write the docs, fence 2$/,
    /^then on: Publish$/,
    /^planning\.cycle: these tasks would wait for each other: Write the docs → Publish → Write the docs$/,
    /^# Release$/,
    /^- \[x\] Write the docs$/,
    /^- \[x\] Publish$/,
    /^updated by bo$/,
    /^claimed by bo$/,
    /^expired by the host$/,
    /^claimed by ana$/,
    /^created by ana$/,
  ],
  'multi-agent.ts': [
    /^the coordinator at the shell: tool_denied$/,
    /^the longest: novel\.txt has 301 lines$/,
    /^poem\.txt has 3 lines$/,
    /^novel\.txt has 301 lines$/,
    /^in the channel: 2 messages, the first is 1: true$/,
    /^the runner: from a shell$/,
    /^a fourth subagent: multi_agent\.limit$/,
  ],
  'toolkits.ts': [
    /^tracker: off, about \d+ tokens$/,
    /^converters: on, deferred, about \d+ tokens$/,
    /^listed: nothing$/,
    /^found: to_litre$/,
    /^listed: to_litre$/,
    /^toolkits\.invalid: .*\/token must be the name of a secret/,
    /^\{"issues":\["DOOR-1: the door squeaks"\],"signed_in":true\}$/,
    /^unknown_tool: .*its toolkit tracker is not enabled/,
  ],
  'proc.ts': [
    /^the program says 42$/,
    /^exit code 0$/,
    /^100000 lines$/,
    /^sleep 600: stopped by SIGINT$/,
    /^proc\.denied: Command not allowed$/,
  ],
  'resume.ts': [
    /^connection: lost$/,
    /^connection: resumed$/,
    /^connection: lost$/,
    /^connection: resumed$/,
    /^200 events, the tool ran 1 time, its answer is \{ counted: 200 \}$/,
  ],
  'skill.ts': [
    /^skills: endless, house-style, word-count$/,
    /^progress: read$/,
    /^log: printed, and no message of the skill$/,
    /^4 words, counted in quickjs; write_file: tool_denied$/,
    /^schema_violation: arguments of word-count: .*path/,
    /^endless: timeout$/,
    /^house-style says: Be brief\.$/,
  ],
  'session-rpc-client.ts': [
    /^handfast speaks 1\.0\.0, \d+ methods$/,
    /^user: read LICENSE and count its words$/,
    /^calls read_file$/,
    /^LICENSE has 169 words\.$/,
    /^the turn ended: end_turn$/,
  ],
  'sessions.ts': [/^a tool is called$/, /^end_turn LICENSE has 21 lines\.$/, /^kept: user, assistant$/],
  'terminal.ts': [
    /^lines and columns: 24 80$/,
    /^after resize: 40 120$/,
    /^Ctrl-C ended sleep, the shell runs on$/,
    /^exit code 3$/,
  ],
  'tour.ts': [
    /^granted: tools, toolkits, proc, skill, mcp, memory, planning, learning, env, chains, multi_agent$/,
    /^6\. memory: remembered: README\.md has \d+ words$/,
    /^kept: README\.md has \d+ words; done: Count the words; the chain is done$/,
  ],
  'transports.ts': ['in process', 'TCP', 'Unix socket', 'HTTP and SSE', 'WebSocket', 'child process'].map(
    (name) => new RegExp(`^${name}: MIT License \\(ping [\\d.]+ ms\\)$`),
  ),
};

const home = mkdtempSync(join(tmpdir(), 'handfast-examples-'));
after(() => rmSync(home, { recursive: true }));

/** The keys and settings of the user that runs this are not visible. */
const { PATH, NODE_COMPILE_CACHE } = process.env;

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
/** The condition under which the package's name means its sources. */
const condition = Object.keys(manifest.exports['.'])[0] as string;

test('every example is run by this file', () => {
  assert.deepEqual(
    readdirSync(join(root, 'examples'))
      .filter((name) => name.endsWith('.ts'))
      .sort(),
    Object.keys(examples).sort(),
  );
});

for (const [name, lines] of Object.entries(examples)) {
  test(`examples/${name} ends by itself and prints what it should`, async () => {
    const { stdout, stderr } = await promisify(execFile)(process.execPath, ['-C', condition, join('examples', name)], {
      cwd: root,
      env: { PATH, NODE_COMPILE_CACHE, HOME: home, HANDFAST_HOME: home, HANDFAST_KEYRING: 'off' },
      timeout: PATIENCE_MS,
      killSignal: 'SIGKILL',
    });
    const printed = stdout.trimEnd().split('\n');
    let from = 0;
    for (const line of lines) {
      const at = printed.findIndex((text, index) => index >= from && line.test(text));
      assert.notEqual(at, -1, `no line like ${line} behind line ${from} of:\n${stdout}`);
      from = at + 1;
    }
    assert.equal(stderr, '');
  });
}

test('an example says how to run it, in the way that works', () => {
  for (const name of Object.keys(examples)) {
    const text = readFileSync(join(root, 'examples', name), 'utf8');
    assert.ok(text.includes(`node -C ${condition} examples/${name}`), `examples/${name} does not say how to run it`);
  }
});
