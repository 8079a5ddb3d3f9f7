/**
 * `handfast mcp config` in an empty home: its output for each client, and the merge into existing settings.
 */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CLIENTS, clientEntry, mergedText } from '../../src/cli/client-entries.ts';
import { User } from './command.ts';

const START = { command: 'handfast', args: ['mcp', 'serve'] };
const AT = { home: '/u', env: {}, platform: 'linux' };

function userOf(t: TestContext): User {
  const user = new User();
  t.after(() => user.leave());
  return user;
}

test('each client has its file, its member and its form', () => {
  const entries = CLIENTS.map((client) => clientEntry(client, START, AT));
  assert.deepEqual(
    entries.map(({ file, path, value }) => [file, path.join('.'), value]),
    [
      ['/u/.claude.json', 'mcpServers.handfast', { type: 'stdio', ...START }],
      ['/u/.cursor/mcp.json', 'mcpServers.handfast', START],
      ['/u/.config/Code/User/mcp.json', 'servers.handfast', { type: 'stdio', ...START }],
      ['/u/.codex/config.toml', 'mcp_servers.handfast', START],
      [
        '/u/.config/opencode/opencode.json',
        'mcp.handfast',
        { type: 'local', command: ['handfast', 'mcp', 'serve'], enabled: true },
      ],
    ],
  );
});

test('an entry is added to JSON with comments and nothing else changes; again, nothing does', () => {
  const entry = clientEntry('cursor', START, AT);
  const value = `{
      "command": "handfast",
      "args": [
        "mcp",
        "serve"
      ]
    }`;
  const cases: [before: string, after: string][] = [
    ['', `{\n  "mcpServers": {\n    "handfast": ${value}\n  }\n}\n`],
    ['{}', `{\n  "mcpServers": {\n    "handfast": ${value}\n  }\n}`],
    [
      '{\n  // mine\n  "a": "}", /* b */\n  "mcpServers": {\n    "x": { "command": "//x" },\n  },\n}\n',
      `{\n  // mine\n  "a": "}", /* b */\n  "mcpServers": {\n    "x": { "command": "//x" },\n    "handfast": ${value},\n  },\n}\n`,
    ],
    [
      '{ "mcpServers": { "handfast": { "command": "old", "env": { "A": "1" } } }, "z": [1] }',
      '{ "mcpServers": { "handfast": {\n      "command": "handfast",\n      "env": {\n        "A": "1"\n      },\n      "args": [\n        "mcp",\n        "serve"\n      ]\n    } }, "z": [1] }',
    ],
  ];
  for (const [before, after] of cases) {
    assert.equal(mergedText(before, entry), after);
    assert.equal(mergedText(after, entry), after);
  }
  for (const broken of ['{', '[]', '{"a" 1}', '"text"', '{"mcpServers": 3}', '{"a": {"b": "c}'])
    assert.throws(() => mergedText(broken, entry), { code: 'config_invalid' });
});

test('an entry is added to TOML, or its own members are replaced, and comments stay', () => {
  const entry = clientEntry('codex', START, AT);
  const table = '[mcp_servers.handfast]\ncommand = "handfast"\nargs = ["mcp", "serve"]\n';
  const before = '# my settings\nmodel = "o" # the model\n\n[mcp_servers.other]\ncommand = "x"\n';
  const after = `${before}\n${table}`;
  assert.equal(mergedText(before, entry), after);
  assert.equal(mergedText(after, entry), after);
  assert.equal(
    mergedText('[mcp_servers."handfast"] # ours\ncommand = "old"\n# slow\ntool_timeout_sec = 9\n\n[z]\na = 1\n', entry),
    `${table}# slow\ntool_timeout_sec = 9\n\n[z]\na = 1\n`,
  );
});

test('what a TOML file has in its strings, lists and comments is no table, and lists over several lines are replaced whole', () => {
  const entry = clientEntry('codex', START, AT);
  const before = [
    'note = """',
    '[mcp_servers.handfast]',
    'command = "a"""" # [mcp_servers.handfast]',
    "other = '''",
    "args = 'x' '''",
    '[[profiles]]',
    'lists = [',
    '  ["a"], # ]',
    '  ["b"]',
    ']',
    "[ 'mcp_servers' . handfast ]",
    '"args" = [',
    '  "old", # [',
    ']',
    "'command' = '''",
    "old'''",
    'env = { A = "[z]" }',
    'http.timeout = 3',
    '[mcp_servers.handfast.tools]',
    'command = "mine"',
    '',
  ];
  const own = ['[mcp_servers.handfast]', 'command = "handfast"', 'args = ["mcp", "serve"]'];
  const after = [...before.slice(0, 10), ...own, ...before.slice(16)].join('\n');
  assert.equal(mergedText(before.join('\n'), entry), after);
  assert.equal(mergedText(after, entry), after);
});

test('an entry in another form than a table is refused: a second one would make the file invalid', () => {
  const entry = clientEntry('codex', START, AT);
  const forms = [
    '[mcp_servers]\nhandfast = { command = "old" } # inline\n',
    '[mcp_servers]\nhandfast.command = "old"\n',
    '"mcp_servers".handfast.command = "old"\n',
    'mcp_servers = { other = { command = "x" } }\n',
    'a = "unclosed\n= 3\n',
    'a = [1,\n',
    '[mcp_servers\n',
  ];
  for (const form of forms) assert.throws(() => mergedText(form, entry), { code: 'config_invalid' }, form);
  const other = '[mcp_servers]\nother = { command = "x" }\n';
  assert.equal(
    mergedText(other, entry),
    `${other}\n[mcp_servers.handfast]\ncommand = "handfast"\nargs = ["mcp", "serve"]\n`,
  );
});

test('line ends of a file stay those of the file', () => {
  for (const [client, before] of [
    ['vscode', '{\r\n  "servers": {}\r\n}\r\n'],
    ['codex', 'model = "o"\r\n'],
  ] as const) {
    const after = mergedText(before, clientEntry(client, START, AT));
    assert.ok(after.includes('handfast') && !/[^\r]\n/.test(after), after);
  }
});

test('the command prints the entry, and with --write merges it into a file, a linked one too', async (t) => {
  const user = userOf(t);
  const printed = await user.run(['mcp', 'config', 'claude']);
  assert.deepEqual(JSON.parse(printed.stdout).mcpServers.handfast.args, ['mcp', 'serve']);
  assert.match(printed.stderr, /\.claude\.json; --write merges it there/);

  const dotfiles = join(user.folder, 'dotfiles.json');
  writeFileSync(dotfiles, '{ "projects": {} }\n');
  symlinkSync(dotfiles, join(user.folder, '.claude.json'));
  const wrote = await user.run(['mcp', 'config', 'claude', '--write', '--config', 'my.yaml']);
  assert.deepEqual([wrote.code, wrote.stdout], [0, `wrote ${dotfiles}\n`]);
  const { projects, mcpServers } = JSON.parse(readFileSync(dotfiles, 'utf8'));
  assert.deepEqual(projects, {});
  assert.deepEqual(mcpServers.handfast.args, ['mcp', 'serve', '--config', join(user.cwd, 'my.yaml')]);
  const again = await user.json(['mcp', 'config', 'claude', '--write', '--config', 'my.yaml']);
  assert.equal(again.changed, false);

  const codex = join(user.folder, '.codex', 'config.toml');
  mkdirSync(dirname(codex));
  writeFileSync(codex, '# mine\n');
  await user.run(['mcp', 'config', 'codex', '--write']);
  assert.match(readFileSync(codex, 'utf8'), /^# mine\n\n\[mcp_servers\.handfast\]\n/);

  const opencode = join(user.folder, '.config', 'opencode', 'opencode.json');
  mkdirSync(dirname(opencode), { recursive: true });
  writeFileSync(opencode, 'not json');
  const refused = await user.failure(['mcp', 'config', 'opencode', '--write']);
  assert.deepEqual([refused.exit, refused.code], [2, 'config_invalid']);
  assert.equal(readFileSync(opencode, 'utf8'), 'not json');
});

test('a file that is replaced keeps its mode, and a new one is private', async (t) => {
  const user = userOf(t);
  const file = join(user.folder, '.cursor', 'mcp.json');
  const modeOf = (): number => statSync(file).mode & 0o777;
  await user.run(['mcp', 'config', 'cursor', '--write']);
  assert.equal(modeOf(), 0o600);
  for (const mode of [0o664, 0o640]) {
    writeFileSync(file, '{}\n');
    chmodSync(file, mode);
    const { changed } = await user.json(['mcp', 'config', 'cursor', '--write']);
    assert.deepEqual([changed, modeOf()], [true, mode]);
  }
});
