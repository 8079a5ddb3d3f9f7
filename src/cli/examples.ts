/**
 * The examples of every command's help, in one table: `test/docs.test.ts` finds a command without a row and an example that
 * the command line refuses.
 *
 * Called by `program.ts`.
 */
import type { Command } from './options.ts';

/** Words of a command → lines that a user can type. The command line as a whole has the row `''`. */
export const examples: Readonly<Record<string, readonly string[]>> = {
  '': [
    'handfast init && handfast up              # a host in this folder, with a first plugin',
    'handfast tools ls                         # its tools, from a second terminal',
    'handfast tools call read_file path=README.md',
    'handfast --connect tcp://127.0.0.1:4701 tools ls',
  ],
  init: ['handfast init', 'handfast init agents --force'],
  up: [
    'handfast up',
    'handfast up --port 0 --json',
    'handfast up --listen tcp://127.0.0.1:4701 --listen unix:///run/user/1000/handfast.sock',
  ],
  stdio: ["handfast ping --connect 'stdio:handfast stdio'"],
  ping: ['handfast ping', 'handfast ping --count 5 --json'],
  caps: ['handfast caps', 'handfast caps --cap tools,memory --json'],
  tools: ['handfast tools ls', 'handfast tools call list_dir path=.'],
  'tools ls': ['handfast tools ls', 'handfast tools ls --kind file', 'handfast tools ls --json | jq -r ".[].name"'],
  'tools search': ['handfast tools search "text file"'],
  'tools call': [
    'handfast tools call read_file path=README.md limit=10',
    `handfast tools call grep '{"pattern":"TODO","globs":["**/*.ts"]}' --json`,
    `echo '{"path":"notes.txt","content":"hello"}' | handfast tools call write_file -`,
    "handfast tools call shell command='npm test' --timeout 600",
  ],
  mcp: [
    'handfast mcp                 # in the settings of an MCP client, which starts it',
    'handfast mcp ls',
    `handfast mcp call everything echo '{"message": "hello"}'`,
  ],
  'mcp serve': ['handfast mcp serve --connect tcp://127.0.0.1:4701'],
  'mcp config': ['handfast mcp config claude', 'handfast mcp config vscode --write'],
  'mcp ls': ['handfast mcp ls', 'handfast mcp ls --start --json'],
  'mcp tools': ['handfast mcp tools everything'],
  'mcp call': [`handfast mcp call everything echo '{"message": "hello"}'`],
  'mcp resources': ['handfast mcp resources everything'],
  'mcp templates': ['handfast mcp templates everything'],
  'mcp read': ['handfast mcp read demo://resource/static/document/features.md'],
  'mcp prompts': ['handfast mcp prompts'],
  'mcp prompt': [`handfast mcp prompt args-prompt '{"city": "Lisbon"}' --server everything`],
  'mcp complete': ['handfast mcp complete completable-prompt department S'],
  'mcp accept': ['handfast mcp accept everything', 'handfast mcp accept everything echo'],
  'mcp login': ['handfast mcp login tracker', 'handfast mcp login tracker --no-browser'],
  'mcp logout': ['handfast mcp logout tracker'],
  'mcp logs': ['handfast mcp logs everything'],
  proc: ['handfast proc run -- ls -l', 'handfast proc ls'],
  'proc run': ['handfast proc run -- ls -l', 'handfast proc run --timeout 60 -- ls -l'],
  'proc ls': ['handfast proc ls', 'handfast proc ls --json'],
  'proc attach': ['handfast proc attach 3f9c2a17'],
  'proc logs': ['handfast proc logs 3f9c2a17'],
  'proc kill': ['handfast proc kill 3f9c2a17 --signal SIGINT'],
  skill: ['handfast skill new count-lines', 'handfast skill ls'],
  'skill new': ['handfast skill new count-lines', 'handfast skill new house-style --text'],
  'skill check': ['handfast skill check skills'],
  'skill ls': ['handfast skill ls', 'handfast skill ls --json'],
  'skill show': ['handfast skill show count-lines'],
  'skill run': [`handfast skill run count-lines '{"path": "skills/count-lines/SKILL.md"}'`],
  toolkits: ['handfast toolkits ls', 'handfast toolkits show filesystem'],
  'toolkits ls': ['handfast toolkits ls', 'handfast toolkits ls --json'],
  'toolkits show': ['handfast toolkits show filesystem'],
  'toolkits configure': ["handfast toolkits configure filesystem '{}'"],
  'toolkits enable': ['handfast toolkits enable search'],
  'toolkits disable': ['handfast toolkits disable search'],
  'toolkits search': ['handfast toolkits search move file'],
  plan: ['handfast plan create release', 'handfast plan board release'],
  'plan ls': ['handfast plan ls', 'handfast plan ls --all --json'],
  'plan create': ['handfast plan create release', "handfast plan create launch --columns 'to do' doing done"],
  'plan board': ['handfast plan board release --limit 5'],
  'plan tasks': ['handfast plan tasks release --status todo'],
  'plan add': ["handfast plan add release 'Write the docs' --priority 2"],
  'plan show': ['handfast plan show release', "handfast plan show release 'Write the docs'"],
  'plan move': ["handfast plan move release 'Write the docs' done --comment 'all of them'"],
  'plan comment': ["handfast plan comment release 'Write the docs' 'figures are missing'"],
  'plan ready': ['handfast plan ready release'],
  'plan claim': ['handfast plan claim release --lease 600'],
  'plan renew': ["handfast plan renew release 'Write the docs' --fence 1 --lease 600"],
  'plan release': ["handfast plan release release 'Write the docs' --fence 1 --comment 'another time'"],
  'plan configure': [
    'handfast plan configure release --columns todo doing review done --active doing',
    "handfast plan configure release --rename 'doing=in work'",
  ],
  'plan history': ['handfast plan history release'],
  'plan watch': ['handfast plan watch release', 'handfast plan watch release --after 0 --json'],
  'plan archive': ['handfast plan archive release', 'handfast plan archive release --undo'],
  'plan delete': ['handfast plan delete release --force'],
  'plan dispatch': [
    'handfast plan dispatch release --access read',
    "handfast plan dispatch release 'Write the docs' --retry --budget 20000",
  ],
  'plan share': ['handfast plan share release reviewer read'],
  'plan sync': ['handfast plan sync release TODO.md', 'handfast plan sync release TODO.md --prefer plan'],
  memory: ['handfast memory add city Lisbon', 'handfast memory search Lisbon'],
  'memory add': [
    'handfast memory add city Lisbon --tag profile',
    'handfast memory add city Porto --valid-from 2026-03-01',
    `handfast memory add '{"user":"u1","topic":"prefs"}' '{"lang":"en"}' --agent planner`,
  ],
  'memory search': ['handfast memory search where does Ada live', 'handfast memory search C++ --limit 3 --json'],
  'memory get': ['handfast memory get city', 'handfast memory get city --as-of 2026-01-01'],
  'memory ls': ['handfast memory ls', 'handfast memory ls --agent planner --tier episodic'],
  'memory history': ['handfast memory history city'],
  'memory forget': ['handfast memory forget city', 'handfast memory forget --tag profile --before 2026-01-01'],
  'memory publish': ['handfast memory publish team deploy', 'handfast memory publish team --tag ops'],
  'memory spaces': ['handfast memory spaces'],
  'memory stats': ['handfast memory stats', 'handfast memory stats --json'],
  'memory export': ['handfast memory export > memory.jsonl', 'handfast memory export --agent planner --current'],
  'memory import': [
    'handfast memory import memory.jsonl',
    'handfast memory export | handfast memory import - --namespace copy',
  ],
  learning: ['handfast learning decide search lexical hybrid', 'handfast learning stats'],
  'learning stats': ['handfast learning stats', 'handfast learning stats grep --json'],
  'learning decide': [
    'handfast learning decide search lexical vector hybrid',
    'handfast learning decide model small large --policy linucb,alpha=0.5 --feature 0.2 0.9',
  ],
  'learning reward': ['handfast learning reward 5f0c1f6f9c2b4d0ea9f6b1a7c3d2e410 1'],
  'learning experiences': ['handfast learning experiences', 'handfast learning experiences --limit 20 --json'],
  'learning feedback': ['handfast learning feedback', 'handfast learning feedback --agent planner'],
  'learning adapt': [
    'handfast learning adapt search',
    'handfast learning adapt --policy sliding_window_ucb,window=200',
  ],
  'learning plan': ['handfast learning plan', 'handfast learning plan search --global --json'],
  'learning review': [`handfast learning review '{"path":"router.weights.grep","new_value":0.7}'`],
  'learning apply': [`handfast learning apply '{"path":"router.weights.grep","new_value":0.7}'`],
  'learning rollback': ['handfast learning rollback 1f77a6c20d9e4c35b2aa90e4d1c85f63'],
  'learning history': ['handfast learning history', 'handfast learning history --agent planner'],
  'learning evaluate': [
    'handfast learning evaluate search --option hybrid',
    'handfast learning evaluate search --policy linucb --confidence 0.9',
  ],
  'learning forget': ['handfast learning forget search', 'handfast learning forget --all'],
  env: ['handfast env ls', 'handfast env run CartPole-v1 --episodes 5 --seed 42'],
  'env ls': ['handfast env ls', 'handfast env ls --json'],
  'env spaces': ['handfast env spaces CartPole-v1'],
  'env check': ['handfast env check CartPole-v1', 'handfast env check Taxi-v4 --steps 1000 --json'],
  'env play': [
    'handfast env play FrozenLake-v1 --seed 7',
    "printf '2\\n2\\n1\\n' | handfast env play FrozenLake-v1 --json",
  ],
  'env run': [
    'handfast env run CartPole-v1 --episodes 5 --seed 42',
    `handfast env run FrozenLake-v1 --make '{"is_slippery":false}' --policy 2`,
  ],
  'env record': ['handfast env record CartPole-v1 episodes.jsonl --episodes 10 --seed 1'],
  'env serve-gym': [
    'handfast env serve-gym CartPole-v1',
    'handfast env serve-gym ALE/Pong-v5 --module ale_py --python ./venv/bin/python',
  ],
  call: ['handfast call ping', `handfast call tool/list/req '{"filter_kind":"file"}' --json`],
  chat: [
    'handfast chat',
    'handfast chat --new --model gpt-5.2',
    "echo 'read README.md and count its lines' | handfast chat --new",
  ],
  session: [
    'handfast session send new "read README.md and count its lines"',
    'handfast session ls',
    'handfast session show last',
  ],
  'session send': [
    'handfast session send new "read README.md and count its lines"',
    'handfast session send last @notes.txt',
    'git diff | handfast session send new - --detach',
    'handfast session send last --model claude-opus-4-5 --thinking high "and its tests?"',
  ],
  'session ls': ['handfast session ls', 'handfast session ls --all --cwd . --json'],
  'session show': ['handfast session show last', 'handfast session show last --json | jq .usage'],
  'session tail': ['handfast session tail last', 'handfast session tail last --after 3 --json'],
  'session steer': ['handfast session steer last "only the tests, please"'],
  'session interrupt': ['handfast session interrupt last'],
  'session queue': [
    'handfast session queue last',
    'handfast session queue last --remove 4c1e9a02',
    'handfast session queue last --clear',
  ],
  'session fork': ['handfast session fork last --title "another way"'],
  'session export': ['handfast session export last --out chat.jsonl'],
  'session import': ['handfast session import chat.jsonl --title restored'],
  'session rm': ['handfast session rm last'],
  approve: ['handfast approve ls', 'handfast approve yes 3f9c2a17'],
  'approve ls': ['handfast approve ls', 'handfast approve ls --all --json'],
  'approve yes': [
    'handfast approve yes 3f9c2a17 --remember session',
    `handfast approve yes 3f9c2a17 --content '{"answer":"red"}'`,
  ],
  'approve no': ['handfast approve no 3f9c2a17'],
  model: ['handfast model ls', 'handfast model use anthropic/claude-sonnet-4-5', 'handfast model test'],
  'model ls': ['handfast model ls', 'handfast model ls --provider anthropic --json | jq -r ".models[].id"'],
  'model use': ['handfast model use claude-sonnet-4-5', 'handfast model use anthropic/claude-opus-4-5 --thinking high'],
  'model test': ['handfast model test', 'handfast model test openai/gpt-5.2'],
  auth: ['handfast auth ls', 'handfast auth login anthropic', 'handfast auth logout anthropic'],
  'auth login': [
    'handfast auth login anthropic              # asks for the key',
    'cat key.txt | handfast auth login openrouter',
    'handfast auth login openai --device',
    'cat key.txt | handfast auth login compatible --base-url http://127.0.0.1:11434/v1',
  ],
  'auth logout': ['handfast auth logout anthropic'],
  'auth ls': ['handfast auth ls', 'handfast auth ls --json'],
  rpc: [`echo '{"jsonrpc":"2.0","id":1,"method":"rpc.handshake"}' | handfast rpc`],
  acp: ['handfast acp --backend model     # in the settings of an editor, which starts it'],
  fleet: [
    'handfast fleet check fleet.yaml',
    'handfast fleet up fleet.yaml',
    'handfast fleet workers',
    'handfast task submit "read README.md and count its lines" --wait',
  ],
  'fleet up': ['handfast fleet up fleet.yaml', 'handfast fleet up --listen tcp://127.0.0.1:4701 --json'],
  'fleet check': ['handfast fleet check fleet.yaml', 'handfast fleet check fleet.yaml --json'],
  'fleet workers': ['handfast fleet workers', 'handfast fleet workers --json | jq -r ".[] | .peer_id, .status"'],
  'fleet top': ['handfast fleet top', 'handfast fleet top --json'],
  'fleet drain': ['handfast fleet drain trial-1 --wait', 'handfast fleet drain trial-1 --undo'],
  worker: [
    'handfast worker --id trial-1 --executor rehearsal --repo .',
    'handfast worker claude.yaml --join nats://10.0.0.5:4222',
  ],
  task: [
    'handfast task submit "read README.md and count its lines" --wait',
    'handfast task ls --open',
    'handfast task show last',
  ],
  'task submit': [
    'handfast task submit "add a test for the parser" --require-mcp context_mode --budget 20000 --deadline 30m',
    'handfast task submit @brief.md --min-tier sonnet --worktree',
    'git diff | handfast task submit - --access read --reply prose --wait',
    'handfast task submit "release it" --after last --id release-1.4',
  ],
  'task batch': ['handfast task batch tasks.yaml --wait', 'handfast task ls --batch tasks'],
  'task ls': [
    'handfast task ls --open',
    'handfast task ls --parked',
    'handfast task ls --state error --state lost --json',
  ],
  'task show': ['handfast task show last', 'handfast task show last --json | jq .attempts'],
  'task watch': ['handfast task watch last', 'handfast task watch'],
  'task result': ["handfast task result last --json | jq -r '.status, .summary'"],
  'task cancel': ['handfast task cancel last --reason "not needed any more"'],
  'task retry': ['handfast task retry last', 'handfast task retry last --worker trial-1'],
  'task drop': ['handfast task drop last --reason "done by hand"'],
  'task steer': ['handfast task steer last "leave the lockfile alone"'],
  'task answer': [
    'handfast task answer last 7d1f02c4 yes',
    `handfast task answer last 7d1f02c4 yes --content '{"answer":"red"}'`,
  ],
  route: ['handfast route explain last'],
  'route explain': [
    'handfast route explain last',
    'handfast route explain --brief "add a test" --require-mcp context_mode --min-tier sonnet',
  ],
  tail: ['handfast tail', 'handfast tail 5f0c0a3e --follow'],
  audit: ['handfast audit ls --since 1h', 'handfast audit verify'],
  'audit ls': [
    'handfast audit ls --since 1h',
    'handfast audit ls --capability planning --outcome error --json',
    'handfast audit ls --principal local --follow',
  ],
  'audit verify': ['handfast audit verify', 'handfast audit verify audit.jsonl --json'],
  record: [
    'handfast record --out tools.rec --connect tcp://127.0.0.1:4701 --listen tcp://127.0.0.1:0',
    'handfast record check tools.rec',
  ],
  'record run': [
    'handfast record run --out tools.rec -- handfast stdio',
    'handfast record --out tools.rec --connect http://127.0.0.1:4700 --listen http://127.0.0.1:4710',
  ],
  'record check': ['handfast record check tools.rec', 'handfast record check tools.rec --json'],
  replay: [
    'handfast replay tools.rec --listen tcp://127.0.0.1:0',
    'handfast replay tools.rec --listen http://127.0.0.1:4710 --once --speed as-recorded',
  ],
  diff: [
    'handfast diff before.rec after.rec',
    "handfast diff before.rec after.rec --all --volatile '/data/data/now' --json",
  ],
  completion: ['handfast completion bash'],
  complete: ['handfast complete -- tools c'],
  conformance: [
    'handfast conformance a2e --target http://127.0.0.1:8000 --tool echo',
    'handfast conformance a2e --list',
  ],
  'conformance a2e': [
    `handfast conformance a2e --target 'stdio:handfast stdio' --tool list_dir --args '{"path":"."}'`,
    'handfast conformance a2e --target tcp://127.0.0.1:4701 --token-file token --level must --junit a2e.xml',
    'handfast conformance a2e --target ws://127.0.0.1:8000/ws --filter "A2E-HS-*" --filter ping',
  ],
  doctor: ['handfast doctor', 'handfast doctor --json'],
  trust: [
    'handfast trust add            # shows what this folder would run, and asks',
    'handfast trust ls',
    'handfast trust rm ../clone    # running programs stop using it',
  ],
  'trust ls': ['handfast trust ls', 'handfast trust ls --json'],
  'trust add': ['handfast trust add', 'handfast trust add ../clone --yes'],
  'trust rm': ['handfast trust rm ../clone'],
  config: ['handfast config check', 'handfast config reload'],
  'config check': ['handfast config check', 'handfast config check handfast.yaml --as local'],
  'config reload': ['handfast config reload'],
  schema: ['handfast schema export', 'handfast schema export config > handfast.schema.json'],
  'schema export': [
    'handfast schema export',
    'handfast schema export config > handfast.schema.json',
    'handfast schema export --out schema',
  ],
};

/** The words of a command below the program: `tools call`. */
export function wordsOf(command: Command): string {
  const words: string[] = [];
  for (let at = command; at.parent !== null; at = at.parent) words.unshift(at.name());
  return words.join(' ');
}

/** A command and all below it, each before its own. */
export const commandsBelow = (command: Command): readonly Command[] => [
  command,
  ...command.commands.flatMap(commandsBelow),
];

/** Adds the examples to the help of every command that has a row. */
export function addExamples(program: Command): void {
  for (const command of commandsBelow(program)) {
    const lines = examples[wordsOf(command)];
    if (lines !== undefined)
      command.addHelpText('after', `\nExamples:\n${lines.map((line) => `  ${line}`).join('\n')}`);
  }
}
