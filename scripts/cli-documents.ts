/**
 * The output of every command with `--json`, as JSON Schema: the source of `schema/cli.json`.
 *
 * `test/cli/documents.slow.test.ts` checks real output against it.
 */

type Shape = Readonly<Record<string, unknown>>;

const text = { type: 'string' };
const flag = { type: 'boolean' };
const count = { type: 'integer' };
const number = { type: 'number' };
const orNull = (shape: Shape): Shape => ({ anyOf: [shape, { type: 'null' }] });
const list = (items: Shape): Shape => ({ type: 'array', items });
const any = { type: 'object' };

/** Returns the schema of an object of Handfast: it has only the members named here. A name with `?` may be missing. */
function document(members: Readonly<Record<string, Shape>>, about?: string): Shape {
  const named = Object.entries(members).map(([name, shape]) => [name.replace('?', ''), shape] as const);
  return {
    type: 'object',
    ...(about !== undefined && { description: about }),
    required: Object.keys(members).filter((name) => !name.endsWith('?')),
    properties: Object.fromEntries(named),
    additionalProperties: false,
  };
}

/** Returns the schema of a message of a protocol, which has its own schema; unknown members pass through. */
const of = (file: string, name: string): Shape => ({ $ref: `${file}.json#/$defs/${name}` });
const rpc = (name: string): Shape => of('session-rpc', name);

const problem = document({ path: text, message: text, 'line?': count, 'column?': count, 'file?': text });
const session = document({ session_id: text });
const task = rpc('TaskRecord');
const sessionEvent: Shape = {
  description: 'An event of the session as the wire has it, or a gap.',
  anyOf: [
    {
      type: 'object',
      required: ['type', 'timestamp', 'payload', 'seq'],
      properties: { type: text, timestamp: text, payload: any, seq: count },
    },
    {
      type: 'object',
      required: ['type', 'from', 'to'],
      properties: { type: { const: 'gap' }, from: count, to: count },
    },
  ],
};
const callEvent = document({ event: document({ kind: text, data: any, seq: count }) });
const taskEvent = { type: 'object', required: ['task_id'], properties: { task_id: text } };
const ready = {
  ready: { const: true },
  url: orNull(text),
  listeners: list(text),
  token_file: orNull(text),
  pid: count,
};
const conformanceCase = { id: text, level: { enum: ['MUST', 'SHOULD', 'MAY'] }, section: text, title: text };
const conformance: Shape = {
  description: 'The outcomes of a run; with --list the cases.',
  anyOf: [
    list(document(conformanceCase)),
    document({
      protocol: text,
      target: text,
      version: text,
      passed: count,
      failed: count,
      skipped: count,
      cases: list(
        document({
          ...conformanceCase,
          status: { enum: ['passed', 'failed', 'skipped'] },
          'reason?': text,
          'expected?': text,
          'got?': text,
          'transcript?': list(document({ direction: { enum: ['sent', 'received'] }, text })),
          duration_ms: count,
        }),
      ),
    }),
  ],
};
const memoryPage = document({
  entries: list(of('memory', 'MemoryEntry')),
  total: count,
  'nextCursor?': text,
  'degraded?': text,
});
const subagentOutcome = document({
  task_id: text,
  status: text,
  result: orNull(any),
  error: orNull(text),
  code: text,
  'score?': number,
  'usage?': of('multi_agent', 'SubagentUsage'),
});
const chainResult = document({
  chain_id: text,
  success: flag,
  outputs: any,
  final_output: {},
  duration_ms: count,
  nodes_run: count,
  error: orNull(of('chains', 'ChainError')),
  'state?': text,
  'usage?': of('chains', 'ChainUsage'),
});
const outputPiece = document({ stream: text, text, seq: count, 'missed?': count });
const estimate = of('learning', 'Estimate');
const learnedComponents = list(of('learning', 'ComponentPerformanceRecord'));
const provider = { enum: ['openai', 'openrouter', 'antigravity', 'anthropic', 'google', 'compatible'] };
const choice = orNull(document({ provider, model: text, thinking: text, source: text, usable: flag }));
const repository = { subject: text, repository: text, folder: text, path: text, files: any, added_at: text };

const compared = document({
  equal: flag,
  divergences: list(
    document({
      kind: { enum: ['changed', 'missing', 'added', 'order'] },
      type: text,
      part: { enum: ['request', 'event', 'reply', 'message'] },
      left: orNull(count),
      right: orNull(count),
      path: orNull(text),
      left_value: orNull(text),
      right_value: orNull(text),
    }),
  ),
});

/** Words of a command → its document. One for each line where a command prints several. */
export const documents: Readonly<Record<string, Shape>> = {
  up: document(ready),
  'record run': document({ ready: { const: true }, address: text, folder: text, pid: count }),
  replay: {
    anyOf: [
      document({ ready: { const: true }, address: text, pid: count }),
      document({ matched: count, misses: count, missed: list(text), missing: count }),
      compared,
    ],
  },
  diff: compared,
  'record export': document({ file: text, messages: count, complete: flag }),
  'record import': document({ folder: text, messages: count, complete: flag }),
  'record check': document({
    valid: { const: true },
    complete: flag,
    missing: orNull(text),
    protocol: text,
    connections: count,
    messages: count,
    started_at: text,
    redacted: list(document({ rule: text, count, values: count })),
  }),
  'mcp config': document({ client: text, file: text, text, 'changed?': flag }),
  demo: document({ scene: count, title: text, kind: text, text, seconds: number }),
  ping: document({ seq: count, address: text, round_trip_ms: number, 'uptime_seconds?': number }),
  'learning stats': document({ components: learnedComponents, choices: list(of('learning', 'ChoiceStats')) }),
  'learning decide': document({
    experience_id: text,
    option: text,
    propensity: number,
    probabilities: any,
    policy: text,
  }),
  'learning reward': document({ rewarded: flag }),
  'learning experiences': list(of('learning', 'Experience')),
  'learning feedback': list(of('learning', 'Feedback')),
  'learning adapt': document({
    updated: learnedComponents,
    message: text,
    recommendations: list(of('learning', 'Recommendation')),
    refinement_id: text,
  }),
  'learning plan': document({ plan_id: text, proposals: list(any), status: text }),
  'learning review': document({
    approved: flag,
    confidence_adjusted: number,
    reasons: list(text),
    risk_level: text,
  }),
  'learning apply': document({
    refinement_id: text,
    applied_edits: count,
    failed_edits: count,
    rollback_available: flag,
    error: text,
  }),
  'learning rollback': document({ refinement_id: text, rolled_back: flag, error: text, 'rewards_since?': count }),
  'learning history': list(any),
  'learning evaluate': document({
    estimates: list(estimate),
    logged: estimate,
    rows: count,
    learned_from: count,
    effective_rows: number,
    unsupported: number,
    notes: list(text),
  }),
  'learning forget': document({ forgotten: flag }),
  caps: document({
    address: text,
    session_id: text,
    max_parallel: count,
    extensions: list(text),
    capabilities: list(document({ capability: text, enabled: flag, metadata: any })),
  }),
  'env ls': list(of('env', 'EnvDescription')),
  'env spaces': document({ action_space: any, state_schema: any }),
  'env check': document({
    findings: list(of('env', 'EnvFinding')),
    'gymnasium?': document({ problem: orNull(text), warnings: list(text) }),
  }),
  'env play': document({
    episode_id: text,
    step: count,
    observation: {},
    reward: number,
    terminated: flag,
    truncated: flag,
    info: any,
  }),
  'env run': list(document({ episode: count, seed: orNull(count), steps: count, return: number, ended: text })),
  'env record': document({ file: text, episodes: count, steps: count, bytes: count }),
  'env serve-gym': document(ready),
  'tools ls': list(of('tools', 'ToolDescription')),
  'tools search': list(of('tools', 'ToolDescription')),
  'tools call': {
    description: 'The result; with --stream each event, then the result as {"result":…}.',
    anyOf: [of('tools', 'ToolResult'), callEvent, document({ result: of('tools', 'ToolResult') })],
  },
  'mcp ls': list(of('mcp', 'ServerInfo')),
  'mcp tools': list(of('tools', 'ToolDescription')),
  'mcp call': any,
  'mcp resources': list(of('mcp', 'Resource')),
  'mcp templates': list(of('mcp', 'ResourceTemplate')),
  'mcp read': list(of('mcp', 'ResourceContent')),
  'mcp prompts': list(of('mcp', 'Prompt')),
  'mcp prompt': list(of('mcp', 'PromptMessage')),
  'mcp complete': list(text),
  'mcp accept': list(text),
  'mcp logs': list(text),
  'mcp login': document({ server: text, signed_in: flag }),
  'mcp logout': document({ server: text, removed: flag }),
  'toolkits ls': list(of('toolkits', 'ToolkitInfo')),
  'toolkits show': document({
    toolkit: of('toolkits', 'ToolkitInfo'),
    definitions: list(of('tools', 'ToolDescription')),
  }),
  'toolkits configure': of('toolkits', 'ToolkitInfo'),
  'toolkits enable': of('toolkits', 'ToolkitInfo'),
  'toolkits disable': of('toolkits', 'ToolkitInfo'),
  'toolkits search': document({ tools: list(of('tools', 'ToolDescription')), loaded: list(text), tokens: count }),
  'plan ls': list(of('planning', 'Plan')),
  'plan create': of('planning', 'Plan'),
  'plan board': of('planning', 'Board'),
  'plan tasks': list(of('planning', 'TaskLine')),
  'plan add': of('planning', 'Task'),
  'plan show': { anyOf: [of('planning', 'Plan'), of('planning', 'Task')] },
  'plan move': of('planning', 'Task'),
  'plan comment': document({ seq: count }),
  'plan ready': list(of('planning', 'TaskLine')),
  'plan claim': { anyOf: [of('planning', 'Task'), { type: 'null' }] },
  'plan renew': document({ task_id: text, lease_ms: count }),
  'plan release': of('planning', 'Task'),
  'plan configure': of('planning', 'Plan'),
  'plan history': of('planning', 'Entry'),
  'plan watch': of('planning', 'Entry'),
  'plan archive': { anyOf: [of('planning', 'Plan'), of('planning', 'Task')] },
  'plan delete': { anyOf: [document({ tasks: count, entries: count }), document({ detached: list(text) })] },
  'plan dispatch': list(
    document({
      task_id: text,
      title: text,
      fleet_task_id: orNull(text),
      state: text,
      worker: orNull(text),
      tokens_spent: orNull(count),
      reason: orNull(text),
    }),
  ),
  'plan share': of('planning', 'Plan'),
  'plan sync': document({
    added: list(text),
    updated: list(text),
    missing: list(text),
    unknown: list(text),
    conflicts: list(any),
  }),
  'chain new': document({ file: text }),
  'chain check': document({ files: list(any) }),
  'chain show': { anyOf: [document({ text }), document({ file: text })] },
  'chain run': chainResult,
  'chain put': document({ name: text, version: count, created: flag }),
  'chain ls': list(of('chains', 'StoredChain')),
  'chain get': { anyOf: [of('chains', 'StoredChain'), document({ text }), document({ file: text })] },
  'chain rm': document({ versions: count }),
  'chain runs': list(of('chains', 'ChainRun')),
  'chain status': any,
  'chain history': document({ entries: list(of('chains', 'ChainEntry')), next: count }),
  'chain pause': of('chains', 'ChainRun'),
  'chain resume': chainResult,
  'chain retry-from': chainResult,
  'chain cancel': of('chains', 'ChainRun'),
  'chain approve': of('chains', 'ChainRun'),
  'chain approvals': list(of('chains', 'ChainApproval')),
  'chain deliver': document({ nodes: count }),
  'chain dry-run': document({
    nodes: list(of('chains', 'Sample')),
    order: list(text),
    final_output: {},
    success: flag,
  }),
  'proc run': { anyOf: [outputPiece, document({ code: number, signal: text, reason: text })] },
  'proc attach': { anyOf: [outputPiece, document({ code: number, signal: text, reason: text })] },
  'proc ls': list(of('proc', 'ProcStatus')),
  'proc logs': outputPiece,
  'proc kill': document({ proc_id: text, state: text }),
  'agents kinds': list(of('multi_agent', 'SubagentKind')),
  'agents run': { anyOf: [subagentOutcome, document({ result: orNull(any), from: list(text), failed: list(text) })] },
  'agents ls': list(of('multi_agent', 'SubagentSummary')),
  'agents show': document({ subagent: of('multi_agent', 'SubagentSummary'), outcome: orNull(subagentOutcome) }),
  'agents terminate': document({ subagent_id: text, success: flag }),
  'skill ls': list(of('skill', 'SkillDefinition')),
  'skill show': document({
    skill: of('skill', 'SkillDefinition'),
    files: list(of('skill', 'SkillFile')),
    versions: list(text),
    entry: orNull(text),
  }),
  'skill run': of('skill', 'SkillResult'),
  'skill check': document({
    skills: list(document({ name: text, version: text, digest: text, runs: flag, folder: text })),
    problems: list(of('skill', 'SkillProblem')),
  }),
  'skill new': document({ folder: text, files: list(text) }),
  'memory add': document({ stored: list(any) }),
  'memory search': memoryPage,
  'memory get': of('memory', 'MemoryEntry'),
  'memory ls': memoryPage,
  'memory history': list(of('memory', 'MemoryEntry')),
  'memory forget': document({ deleted: count, erased: flag }),
  'memory publish': document({ published: list(any) }),
  'memory spaces': list(of('memory', 'MemorySpace')),
  'memory stats': document({
    tiers: any,
    used: of('memory', 'MemoryAmount'),
    quota: of('memory', 'MemoryAmount'),
    embedder: text,
    pending: count,
    'problem?': text,
  }),
  'memory export': of('memory', 'MemoryEntry'),
  'memory import': document({ stored: count, expired: count, errors: list(text) }),
  call: {
    description: 'The reply; with --stream each event, then the reply as {"result":…}.',
    anyOf: [any, callEvent, document({ result: any })],
  },
  chat: sessionEvent,
  'session ls': list(rpc('SessionSummary')),
  'session show': document(
    {
      id: text,
      created_at: text,
      updated_at: text,
      pending: flag,
      status_label: text,
      messages: list(rpc('UiMessage')),
      history: list(rpc('ChatMessage')),
      queue: list(document({ id: text, text, images: list(any), enqueued_at: text })),
      pending_steer_count: count,
      conversation_provider: orNull(text),
      active_session_id: orNull(text),
      context_token_estimate: number,
      context_token_source: orNull(text),
      context_token_provider: orNull(text),
      context_token_breakdown: {},
      title: text,
      cwd: text,
      backend: text,
      turn_id: orNull(text),
      seq: count,
      closed: flag,
      settings: any,
      usage: rpc('Usage'),
      approvals: list(rpc('Approval')),
      'shares?': {},
      'owner?': orNull(text),
      'parent_session_id?': orNull(text),
    },
    'The state of the session, its names in snake case.',
  ),
  'session tail': sessionEvent,
  'session send': {
    description: 'Each event of the turn; with --detach one document.',
    anyOf: [sessionEvent, document({ session_id: text, turn_id: text, queued: flag })],
  },
  'session steer': rpc('session.steer.result'),
  'session interrupt': document({ interrupted: flag }),
  'session queue': {
    description: 'The queue; with --clear or --remove what was done.',
    anyOf: [
      list(document({ id: text, text, images: list(any), enqueued_at: text })),
      document({ cleared: count }),
      document({ removed: flag }),
    ],
  },
  'session fork': session,
  'session export': { description: 'The lines of the export, as without --json.', ...any },
  'session import': session,
  'session rm': document({ session_id: text, deleted: flag }),
  'approve ls': list(rpc('Approval')),
  'approve yes': document({ approval: rpc('Approval'), accepted: flag }),
  'approve no': document({ approval: rpc('Approval'), accepted: flag }),
  'model ls': document({
    choice,
    models: list(
      document({
        id: text,
        provider,
        label: text,
        description: text,
        'display_provider?': text,
        'supported_thinking_levels?': list(text),
        'default_thinking_level?': text,
        'routing_providers?': list(text),
        'context_window_tokens?': number,
      }),
    ),
  }),
  'model use': rpc('model.select.result'),
  'model test': document({
    provider,
    model: text,
    stop_reason: text,
    round_trip_ms: number,
    text,
    usage: rpc('Usage'),
  }),
  'auth login': document({ provider, choice }),
  'auth logout': document({ provider, removed: flag, usable: flag }),
  'auth ls': document({
    providers: list(
      document({
        provider,
        usable: flag,
        credential: orNull(text),
        variables: list(text),
        signs_in: flag,
        allowed: flag,
        default_model: orNull(text),
        model_count: count,
        audio: flag,
      }),
    ),
    stored_in: { enum: ['keyring', 'file'] },
  }),
  'fleet up': document({ ...ready, fleet: orNull(text), workers: list(text) }),
  'fleet check': document({
    ok: flag,
    file: orNull(text),
    fleet: text,
    bus: list(text),
    listen: list(text),
    data_dir: text,
    workers: list(text),
    environments: { type: 'object', additionalProperties: list(text) },
    peers: list(text),
    warnings: list(problem),
  }),
  'fleet workers': list(rpc('WorkerEntry')),
  'fleet top': document({
    status: rpc('fleet.status.result'),
    workers: list(rpc('WorkerEntry')),
    down: list(document({ reason: text, since: count })),
    tasks: list(task),
  }),
  'fleet drain': document({ peer_id: text, draining: flag }),
  worker: document({ ready: { const: true }, worker: text, peer_id: text, joined: text, pid: count }),
  'task submit': { description: 'The task; with --wait each event, then the task.', anyOf: [task, taskEvent] },
  'task batch': { description: 'The tasks; with --wait each task as it ends.', anyOf: [list(task), task] },
  'task ls': list(task),
  'task show': task,
  'task watch': {
    description: 'Each event, then the task; without a task the open ones.',
    anyOf: [task, taskEvent, list(task)],
  },
  'task result': {
    description: 'The result; for a task that ended without one its state and the reason.',
    type: 'object',
    required: ['task_id', 'status'],
  },
  'task cancel': task,
  'task retry': task,
  'task drop': task,
  'task steer': task,
  'task answer': task,
  'route explain': rpc('Explanation'),
  tail: {
    description: 'The sessions; of a session each entry.',
    anyOf: [
      list(document({ session_id: text, state: text, agent_id: text, principal: text, last: count })),
      { type: 'object', required: ['kind'], properties: { kind: text } },
    ],
  },
  'audit ls': {
    description: 'Each line as the audit stores it.',
    type: 'object',
    required: ['n', 'time', 'type', 'prev', 'hash'],
    properties: {
      ...{
        n: count,
        time: number,
        session: text,
        principal: text,
        task: text,
        peer: text,
        type: text,
        tool: text,
        via: text,
      },
      ...{ by: { enum: ['editor'] }, request_bytes: count, reply_bytes: count, duration_ms: number },
      outcome: { enum: ['ok', 'error', 'cancelled', 'refused'] },
      ...{ error_code: text, reason: text, count, since: number, oldest: count },
      ...{ prev: text, hash: text },
    },
    additionalProperties: false,
  },
  'audit verify': document({
    ok: flag,
    lines: count,
    files: count,
    chains: list(document({ file: text, first: count, head: document({ n: count, hash: text }), torn_tail: flag })),
    'first_break?': document({ file: text, line: count, reason: text }),
  }),
  'conformance a2e': conformance,
  'conformance fleet': conformance,
  'conformance session-rpc': conformance,
  doctor: document({
    ok: flag,
    checks: list(
      document({ name: text, status: { enum: ['ok', 'warn', 'fail'] }, message: text, 'fix?': text, 'code?': text }),
    ),
  }),
  init: document({ written: list(text) }),
  'trust ls': list(document({ ...repository, state: { enum: ['as trusted', 'changed', 'missing'] } })),
  'trust add': document({ trusted: list(any) }),
  'trust rm': document({ removed: list(document(repository)) }),
  'config check': document({
    ok: flag,
    file: orNull(text),
    listen: list(text),
    workspace: text,
    plugins: list(text),
    warnings: list(problem),
    exposed: list(text),
    principals: list(
      document({ name: text, grants: any, sessions_at_once: orNull(document({ environment: count, control: count })) }),
    ),
  }),
  'config reload': document({ principals: list(text), restart: list(text) }),
  'schema export': list(text),
};

/** Every failure with `--json`: one line on stderr. */
export const failure: Shape = document({
  error: document({ code: text, message: text, detail: any, retryable: flag }),
});
