/**
 * The house rules that a machine can check: imports between folders, the files that may name each package, the form of
 * a file.
 *
 * This file has the tables; `test/rules/` has the functions. Every rule is run twice: on the tree, where it must find
 * nothing, and on an offender written for it, so that a rule that finds nothing any more is noticed.
 */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { inside } from '../src/capabilities/skill/sandbox/inside.ts';
import { processInside } from '../src/capabilities/skill/sandbox/process-inside.ts';
import {
  type AdapterFile,
  adapterViolations,
  type ConcreteRule,
  concreteViolations,
  cycles,
  type InnerOrder,
  innerOrderViolations,
  type Levels,
  layerViolations,
  moduleOf,
} from './rules/imports.ts';
import { filesBelow, importsOf, root, source, sourcesBelow } from './rules/scan.ts';
import {
  adminReads,
  bareFilesNamedInComments,
  clauseViolations,
  defaultExports,
  filesNamedIn,
  filesNamedInComments,
  maxLines,
  mergeViolations,
  placeViolations,
  processViolations,
  shapeViolations,
  wordViolations,
} from './rules/texts.ts';

/**
 * The import table: a folder imports lower levels and itself, never a neighbour of its level. Every folder below
 * `capabilities/` is a separate unit.
 */
const levels: Levels = {
  wire: 0,
  base: 1,
  protocol: 2,
  transport: 2,
  journal: 2,
  connection: 3,
  session: 4,
  // Messages that passed over links: stored, served again and compared.
  recording: 4,
  config: 5,
  trust: 5.5,
  host: 6,
  agent: 6,
  acp: 6,
  mcp: 6,
  // Hosts as servers of MCP, for the addresses and pipes of the server and of the command line.
  'mcp-endpoint': 7.6,
  // Declarations of capabilities, which know plugins and agents; and the list of those that come with the package.
  packages: 6.5,
  // Other capabilities offer tools through it.
  'capabilities/tools': 6.8,
  'capabilities/*': 7,
  // Bundles tools of the others.
  'capabilities/toolkits': 7.1,
  'capabilities/chains': 7.2,
  capabilities: 7.5,
  control: 7,
  fleet: 7,
  'control-client': 7,
  // Cases for other implementations: it reaches a target by bytes, not by the parts above.
  conformance: 3,
  bridge: 8,
  server: 8,
  testing: 8,
  cli: 9,
  '(entry point)': 9,
};

/** Files that put parts together and so may name concrete ones: the server, the commands and the entry points. */
const composers = [/^src\/(?:server|cli|testing|conformance)\//, /^src\/[\w-]+\.ts$/];

const transports: ConcreteRule = {
  folder: 'src/transport/',
  shared: ['link.ts', 'http/http-request.ts', 'http/http-response.ts'],
  // A page has one transport.
  mayName: [...composers, /^src\/connect\.browser\.ts$/, /^src\/control-client\/connect-browser\.ts$/],
  // The agent picks a transport by the address it is given; unused transports are never loaded. Subagents that are
  // programs are children of the host and agents at once.
  mayNameLazily: [
    /^src\/agent\/addresses\.ts$/,
    /^src\/control-client\/connect\.ts$/,
    /^src\/capabilities\/multi_agent\/programs\.ts$/,
  ],
};

const journals: ConcreteRule = {
  folder: 'src/journal/',
  shared: ['journal.ts'],
  mayName: composers,
  mayNameLazily: [],
};

/** The files that may import each external package, and each built-in module that reaches out of the process. */
const adapterFiles: readonly AdapterFile[] = [
  { module: 'typebox', files: [/^src\/wire\/schema\.ts$/] },
  { module: 'ajv', files: [/^src\/base\/json-schema\.ts$/] },
  { module: 'ignore', files: [/^src\/capabilities\/tools\/builtin\/ignore-rules\.ts$/] },
  { module: 'node:http', files: [/^src\/base\/http\/node-http\.ts$/] },
  { module: 'ws', files: [/^src\/transport\/websocket\.ts$/] },
  { module: 'yaml', files: [/^src\/config\/yaml-tree\.ts$/] },
  { module: 'commander', files: [/^src\/cli\/options\.ts$/] },
  { module: 'string-width', files: [/^src\/cli\/output\/text-width\.ts$/] },
  { module: 'diff', files: [/^src\/base\/text-diff\.ts$/] },
  { module: '@earendil-works/pi-tui', files: [/^src\/cli\/chat\/screen\/widgets\.ts$/] },
  {
    module: 'node:sqlite',
    files: [/^src\/base\/sqlite\/file\.ts$/, /^src\/capabilities\/toolkits\/kits\/sqlite-child\.ts$/],
  },
  { module: '@marcbachmann/cel-js', files: [/^src\/base\/expressions\.ts$/] },
  { module: 're2js', files: [/^src\/base\/cel\/pattern\.ts$/] },
  { module: '@jmespath-community/jmespath', files: [/^src\/capabilities\/chains\/definition\/jmespath\.ts$/] },
  ...['@nats-io/transport-node', '@nats-io/jetstream'].map((module) => ({
    module,
    files: [/^src\/fleet\/bus\/nats\/client\.ts$/],
  })),
  { module: '@a2a-js/sdk', files: [/^src\/fleet\/bus\/a2a\/sdk\.ts$/] },
  { module: '@modelcontextprotocol/client', files: [/^src\/mcp\/sdk\.ts$/] },
  { module: 'quickjs-emscripten', files: [/^src\/capabilities\/skill\/sandbox\/quickjs-thread\.ts$/] },
  { module: '@agentclientprotocol/sdk', files: [/^src\/acp\/sdk\.ts$/] },
  ...['openai', 'openai-compatible', 'anthropic', 'google'].map((name) => ({
    module: `@ai-sdk/${name}`,
    files: [/^src\/control\/backends\/model\/sdk\.ts$/],
  })),
  { module: '@openrouter/ai-sdk-provider', files: [/^src\/control\/backends\/model\/sdk\.ts$/] },
  { module: '@napi-rs/keyring', files: [/^src\/control\/providers\/accounts\/keyring\.ts$/] },
  { module: '@lydell/node-pty', files: [/^src\/base\/pseudo-terminal\.ts$/] },
  { module: 'unbash', files: [/^src\/control\/approvals\/commands\/shell-syntax\.ts$/] },
  ...['web-tree-sitter', 'tree-sitter-bash'].map((module) => ({
    module,
    files: [/^src\/control\/approvals\/commands\/second-opinion\.ts$/],
  })),
  { module: 'openid-client', files: [/^src\/control\/providers\/accounts\/oauth\.ts$/] },
  {
    module: 'node:child_process',
    files: [
      /^src\/base\/child\.ts$/,
      // The code that finds and ends children: `ps`, and the process that outlives this one. The process that starts
      // children for this one.
      /^src\/base\/children\/(?:process-table|watcher|launcher|launcher-entry)\.ts$/,
      // The pager, which shares the user's terminal.
      /^src\/base\/terminal-program\.ts$/,
    ],
  },
  {
    module: 'node:https',
    files: [/^src\/transport\/http\/http-request\.ts$/, /^src\/base\/http\/(?:checked-request|http-fetch)\.ts$/],
  },
];

/** Packages that may be imported by several files of a folder, because the folder is their adapter. */
const inOneFile = adapterFiles.map(({ module }) => module).filter((module) => !module.startsWith('node:'));

const src = sourcesBelow('src');
/**
 * Everything that the project wrote, as text; a file that is not text (a picture, a database) has a NUL byte and is
 * left out.
 */
const texts = filesBelow('')
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }))
  .filter(({ text }) => !text.includes('\0'));

test('imports are found in every form and never inside comments, strings, templates or regular expressions', () => {
  const text = `
    import type { A } from './a.ts';
    import { type B, b } from './b.ts'; // import './not-1.ts';
    export { c } from "./c.ts";
    export * from './d.ts';
    import './e.ts';
    /* import './not-2.ts'; */
    const text = "import './not-3.ts'";
    const template = \`import './not-4.ts' \${await import('./f.ts')} import('./not-5.ts') \`;
    const quote = /['"\`/*]/.test(text) ? import('./g.ts') : 1 / 2 / 3;
    const sqlite = process.getBuiltinModule('node:sqlite');
  `;
  const found = importsOf(text).map(
    ({ specifier, typeOnly, lazy }) => `${specifier}${typeOnly ? ' type' : ''}${lazy ? ' lazy' : ''}`,
  );
  assert.deepEqual(found.sort(), [
    './a.ts type',
    './b.ts',
    './c.ts',
    './d.ts',
    './e.ts',
    './f.ts lazy',
    './g.ts lazy',
    'node:sqlite lazy',
  ]);
});

test('a folder imports only lower levels and itself', () => {
  assert.deepEqual(layerViolations(src, levels), []);
});

test('an import that points up, sideways, or out of src is a violation', () => {
  const offenders = [
    source('src/wire/a.ts', "import { x } from '../session/x.ts';"),
    source('src/transport/a.ts', "import type { X } from '../journal/x.ts';"),
    source('src/capabilities/tools/a.ts', "import { x } from '../env/x.ts';"),
    source('src/cli/a.ts', "import { x } from '../../test/x.ts';"),
    source('src/unheard-of/a.ts', ''),
  ];
  assert.equal(layerViolations(offenders, levels).length, offenders.length);
  const fine = source('src/capabilities/tools/a.ts', "import { x } from '../../host/x.ts'; import './b.ts';");
  assert.deepEqual(layerViolations([fine], levels), []);
});

test('concrete transports and journals are named only where parts are put together', () => {
  assert.deepEqual([...concreteViolations(src, transports), ...concreteViolations(src, journals)], []);
});

test('naming a concrete transport from a file that should know the contract is a violation', () => {
  const offenders = [
    source('src/host/a.ts', "import { x } from '../transport/websocket.ts';"),
    source('src/agent/addresses.ts', "import { x } from '../transport/websocket.ts';"),
  ];
  assert.equal(concreteViolations(offenders, transports).length, 2);
  const fine = [
    source('src/host/a.ts', "import type { Link } from '../transport/link.ts';"),
    source('src/agent/addresses.ts', "await import('../transport/websocket.ts');"),
    source('src/cli/up.ts', "import { x } from '../transport/websocket.ts';"),
  ];
  assert.deepEqual(concreteViolations(fine, transports), []);
});

test('an external package is imported only through its adapter file', () => {
  assert.deepEqual(adapterViolations(src, adapterFiles), []);
});

test('each external package has one adapter file', () => {
  for (const module of inOneFile) {
    const importers = src.filter(({ imports }) => imports.some(({ specifier }) => moduleOf(specifier) === module));
    assert.ok(importers.length <= 1, `"${module}" is imported by ${importers.map(({ path }) => path).join(', ')}`);
  }
});

test('a package without an adapter file, or outside it, is a violation', () => {
  const offenders = [
    source('src/host/a.ts', "import { x } from 'left-pad';"),
    source('src/host/b.ts', "import { WebSocket } from 'ws';"),
    source('src/host/c.ts', "import { spawn } from 'child_process';"),
    source('src/host/d.ts', "await import('ajv/dist/2020.js');"),
    source('src/host/e.ts', "process.getBuiltinModule('node:sqlite');"),
  ];
  assert.equal(adapterViolations(offenders, adapterFiles).length, offenders.length);
  const fine = source('src/host/f.ts', "import type { IncomingMessage } from 'node:http'; import 'node:fs';");
  assert.deepEqual(adapterViolations([fine], adapterFiles), []);
});

test('no file imports itself through others, not even for types', () => {
  assert.deepEqual(cycles([...src, ...sourcesBelow('simulation')]), []);
});

test('a circle of imports is found, also one of types, and a lazy import cuts it', () => {
  const circle = (back: string) => [
    source('src/host/a.ts', "import './b.ts';"),
    source('src/host/b.ts', "import './c.ts';"),
    source('src/host/c.ts', back),
  ];
  const found = ['src/host/a.ts · src/host/b.ts · src/host/c.ts'];
  assert.deepEqual(cycles(circle("import { type A, a } from './a.ts';")), found);
  assert.deepEqual(cycles(circle("import type { A } from './a.ts';")), found);
  assert.deepEqual(cycles(circle("await import('./a.ts');")), []);
  assert.deepEqual(cycles([source('src/host/a.ts', "import './a.ts';")]), ['src/host/a.ts']);
});

/** The order inside the folders that hold a whole edge. */
const innerOrders: readonly InnerOrder[] = [
  {
    folder: 'control',
    rows: [
      ['contract'],
      ['approvals', 'providers/http', 'rounds', 'rpc', 'sessions/record', 'skills'],
      [
        'backends/acp',
        'backends/model',
        'backends/rehearsal',
        'providers/accounts',
        'providers/models',
        'sessions/store',
      ],
      ['providers/sign-in', 'sessions/log'],
      ['providers/methods', 'sessions/history'],
      ['providers', 'sessions/turns'],
      ['sessions/pool'],
      ['sessions/methods'],
      ['sessions'],
      ['commands.ts', 'server-state.ts'],
      ['control-server.ts'],
    ],
  },
  {
    folder: 'fleet',
    rows: [
      ['messages'],
      ['phases', 'route'],
      // The contract of all buses, and the worker in the same process.
      ['bus'],
      ['bus/plain', 'bus/stream'],
      ['bus/a2a', 'bus/http'],
      // One executor is an A2A client.
      ['executors'],
      ['worker'],
      ['blocked-policy.ts', 'queue.ts'],
      ['orchestrator'],
      // The bus stores the orchestrator's tasks too.
      ['bus/nats'],
      ['on-demand.ts'],
    ],
  },
];

test('the subfolders of an edge import only lower ones', () => {
  assert.deepEqual(
    innerOrders.flatMap((order) => innerOrderViolations(src, order)),
    [],
  );
});

test('an import that points up or sideways within an edge is a violation, and so is a file without a place', () => {
  const order: InnerOrder = {
    folder: 'fleet',
    rows: [['messages'], ['route', 'phases'], ['bus'], ['bus/nats'], ['fleet.ts']],
  };
  const offenders = [
    source('src/fleet/messages/a.ts', "import { x } from '../route/x.ts';"),
    source('src/fleet/route/a.ts', "import type { X } from '../phases/x.ts';"),
    source('src/fleet/bus/peer.ts', "import { x } from './nats/x.ts';"),
    source('src/fleet/elsewhere.ts', ''),
  ];
  assert.equal(innerOrderViolations(offenders, order).length, offenders.length);
  const fine = [
    source('src/fleet/bus/nats/a.ts', "import { x } from '../peer.ts'; import '../../route/x.ts'; import './b.ts';"),
    source('src/fleet/fleet.ts', "import { x } from './bus/nats/a.ts';"),
    source('src/control/a.ts', "import { x } from '../fleet/route/x.ts';"),
  ];
  assert.deepEqual(innerOrderViolations(fine, order), []);
});

test('exports are named', () => {
  assert.deepEqual(defaultExports(sourcesBelow('')), []);
  assert.equal(defaultExports([source('src/a.ts', 'export default 1;')]).length, 1);
  assert.equal(defaultExports([source('src/a.ts', 'export { a as default };')]).length, 1);
});

test('only the command line talks to the terminal and ends the process', () => {
  assert.deepEqual(processViolations(src), []);
  const offender = "console.log('x'); process.exit(1); // console.log";
  assert.equal(processViolations([source('src/host/a.ts', offender)]).length, 2);
  assert.deepEqual(processViolations([source('src/cli/a.ts', offender)]), []);
});

test('whether a principal is an administrator is asked of the one function of rights', () => {
  assert.deepEqual(adminReads(src), []);
  const offenders = ['if (principal.admin === true) x();', 'const f = ({ name, admin }) => admin;'];
  assert.equal(adminReads(offenders.map((text) => source('src/host/a.ts', text))).length, 2);
  assert.deepEqual(adminReads([source('src/host/a.ts', "const root = { name: 'root', admin: true };")]), []);
});

test('a source opens with a header comment and is not too long', () => {
  assert.deepEqual(shapeViolations(src), []);
  assert.equal(shapeViolations([source('src/a.ts', "import './b.ts';\n")]).length, 1);
  assert.equal(shapeViolations([source('src/a.ts', `/** A. */\n${'x();\n'.repeat(maxLines)}`)]).length, 1);
  assert.deepEqual(shapeViolations([source('src/a.ts', '#!/usr/bin/env node\n/** A. */\n')]), []);
});

/** Returns true for a path as pages and comments give it: from the root, from `src/`, or from one of the given folders. */
const exists = (path: string, ...folders: string[]): boolean =>
  ['', 'src', ...folders].some((folder) => existsSync(join(root, folder, path)));

for (const page of ['walkthroughs.md', 'architecture.md']) {
  test(`every file that docs/${page} names exists`, () => {
    const named = filesNamedIn(readFileSync(join(root, 'docs', page), 'utf8'));
    assert.ok(named.length >= 10, 'the page names the files it is about');
    assert.deepEqual(
      named.filter((path) => !exists(path)),
      [],
    );
  });
}

test('every file that a comment names exists', () => {
  const stale = src.flatMap(({ path, text }) =>
    filesNamedInComments(text)
      .filter((named) => !exists(named, dirname(path), dirname(dirname(path))))
      .map((named) => `${path} names ${named}`),
  );
  assert.deepEqual(stale, []);
  const text = "/** See `wire/a.ts` and\n * docs/b.md. */\nconst path = 'wire/c.ts'; // src/wire/d.ts";
  assert.deepEqual(filesNamedInComments(text), ['wire/a.ts', 'docs/b.md', 'src/wire/d.ts']);
});

test('every file that a comment names by its name alone exists', () => {
  const names = new Set(filesBelow('').map((path) => basename(path)));
  assert.deepEqual(
    src.flatMap(({ path, text }) =>
      bareFilesNamedInComments(text)
        .filter((named) => !names.has(named))
        .map((named) => `${path} names ${named}`),
    ),
    [],
  );
  assert.deepEqual(bareFilesNamedInComments('/** See `a.ts`. */ const path = `b.ts`; // Not `c.md`.'), ['a.ts']);
});

test('texts name the actor: no vague words', () => {
  assert.deepEqual(wordViolations(texts), []);
  const vague = ['some', 'no'].map((half) => `${half}body`);
  const page = { path: 'docs/a.md', text: `The client ${vague[0]} named, and \`${vague[1]}\`` };
  const tested = {
    path: 'test/a.test.ts',
    text: `test('${vague[1]} waits', () => run('${vague[0]}')); // ${vague[0]}`,
  };
  assert.deepEqual(wordViolations([page, tested]), [
    `docs/a.md:1: "${vague[0]}"`,
    `test/a.test.ts:1: "${vague[1]}"`,
    `test/a.test.ts:1: "${vague[0]}"`,
  ]);
});

test('sentences begin with their subject: no clause in its place', () => {
  // Pages below `test/` are data of tests.
  assert.deepEqual(clauseViolations(texts.filter(({ path }) => !/^test\/.*\.md$/.test(path))), []);
  const [clause, person] = ['at it does', 'o asks'].map((end) => `Wh${end}`);
  const page = {
    path: 'docs/a.md',
    text: `# ${clause}\n\n| Command | ${clause} |\n\n${clause}? \`${clause}\` runs.\n- **${person}** waits.\n`,
  };
  const decision = { path: 'docs/decisions/0001-a.md', text: `# 1. ${clause}\n` };
  const code = { path: 'src/a.ts', text: `/** Runs. ${clause} is data. */\nconst text = '${clause}'; // ${person}?` };
  const schema = {
    path: 'src/a.schema.ts',
    text: `/** A. */\nconst a = text('Data. ${clause} is data.', '${person}');`,
  };
  assert.deepEqual(clauseViolations([page, code, schema, decision]), [
    `docs/a.md:1: "${clause}"`,
    `docs/a.md:3: "${clause}"`,
    `docs/a.md:6: "${person}"`,
    `src/a.ts:1: "${clause} is data"`,
    `src/a.schema.ts:2: "${clause} is data"`,
    `src/a.schema.ts:2: "${person}"`,
  ]);
});

test('no text names a path of one machine or the host of a package registry', () => {
  assert.deepEqual(placeViolations(texts), []);
  const offender = ['see ', 'home', 'me', 'notes.txt and https:/', 'registry.example.org'].join('/');
  assert.equal(placeViolations([{ path: 'a.md', text: offender }]).length, 2);
  assert.deepEqual(placeViolations([{ path: 'a.md', text: 'src/root/list and ./work/x and tools/home/me/x' }]), []);
});

test('no file has lines of an unfinished merge', () => {
  assert.deepEqual(mergeViolations(texts), []);
  const text = ['a', `${'<'.repeat(7)} HEAD`, 'b'].join('\n');
  assert.deepEqual(mergeViolations([{ path: 'a.md', text }]), ['a.md: an unfinished merge']);
});

test('the lockfile pins what is installed, not where it is fetched from', () => {
  const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, { resolved?: string; integrity?: string }>;
  };
  const installed = Object.entries(lock.packages).filter(([path]) => path !== '');
  assert.deepEqual(
    installed.filter(([, entry]) => entry.resolved !== undefined).map(([path]) => path),
    [],
  );
  assert.deepEqual(
    installed.filter(([, entry]) => entry.integrity === undefined).map(([path]) => path),
    [],
  );
});

test('every module that a benchmark loads from the build has a source', () => {
  const loaded = sourcesBelow('bench').flatMap(({ text }) =>
    [...text.matchAll(/built<typeof [^;]*?>\('([^']+)'\)/g)].map(([, module]) => `src/${module}.ts`),
  );
  assert.ok(loaded.length > 5);
  assert.deepEqual(
    loaded.filter((file) => !existsSync(join(root, file))),
    [],
  );
});

test('functions whose text runs elsewhere hold no import(), around which the compiler puts a function of the module', () => {
  for (const made of [inside, processInside]) assert.doesNotMatch(made.toString(), /\bimport\s*\(/, made.name);
});

test('no text loses its end by an expression that tries each place of it again', () => {
  const expression = /\.replace\(\/(?:\[[^\]]*\]|\\?.)[+*]\$\/[a-z]*,/;
  assert.deepEqual(
    [...sourcesBelow('src')].filter(({ text }) => expression.test(text)).map(({ path }) => path),
    [],
    'use trimmedEnd (base/trim-end.ts): such an expression is quadratic in its input',
  );
});
