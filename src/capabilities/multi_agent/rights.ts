/**
 * The rights of a subagent. Pure: computed from the owner's rights, its right to delegate, and the limits of a kind and a
 * request.
 *
 * An agent delegates the rights that its grant names under `delegate`, and without that member all of its rights. A rule that
 * denies holds for all below it: the rights of a subagent are checked within those of each agent above. @see
 * docs/multi-agent.md#rights
 */
import { capabilityNames, capabilityOf } from '../../protocol/a2e.ts';
import { GUARDED_RISKS, type Principal, type ToolRules } from '../../session/principal.ts';
import { grantOf } from '../../session/rights.ts';

/** The rights that may be delegated, as a grant and a kind name them. */
export interface Delegable {
  readonly capabilities?: readonly string[] | undefined;
  readonly tools?: ToolRules | undefined;
  /** Rights by capability, in the shape of each. */
  readonly grants?: Readonly<Record<string, unknown>> | undefined;
}

/** `auth.tokens[].grants.multi_agent`. */
export interface MultiAgentGrant {
  readonly delegate?: {
    readonly capabilities?: readonly string[];
    readonly tools?: {
      readonly allow?: readonly string[];
      readonly deny?: readonly string[];
      readonly deny_risks?: readonly string[];
      readonly risks?: readonly string[];
    };
    readonly grants?: Readonly<Record<string, unknown>>;
  };
  /** Kinds it may make; `*` stands for any letters. */
  readonly kinds?: readonly string[];
  readonly max_subagents?: number;
  readonly max_depth?: number;
  readonly max_tokens?: number;
  readonly max_cost_usd?: number;
}

/** The limits of a request and a kind on the rights of a subagent. */
export interface Narrowed {
  /** Capabilities of the request; empty: all. */
  readonly asked: readonly string[];
  readonly toolScope: 'shared' | 'restricted' | 'isolated';
  readonly memoryScope: 'shared' | 'isolated';
  /** Of the kind. */
  readonly capabilities: readonly string[] | undefined;
  readonly tools: ToolRules | undefined;
  /** Rights that it may delegate in turn. Absent: all of its rights. */
  readonly delegate: Delegable | undefined;
}

const OWN = 'multi_agent';
/** Capabilities that a scope without tools leaves out. */
const TOOLS = ['tools', 'toolkits', 'mcp', 'skill', 'proc', 'env'];
/** Capabilities that a scope without memory leaves out. */
const STATE = ['memory', 'learning', 'planning'];

const both = (a: readonly string[] | undefined, b: readonly string[] | undefined) =>
  a === undefined && b === undefined ? undefined : [...(a ?? []), ...(b ?? [])];

/** Returns the rights that an agent may delegate, as a principal. */
export function delegable(principal: Principal): Principal {
  const { name, subagent, within, limits, tools } = principal;
  const { delegate, ...limited } = (grantOf(principal, OWN) ?? {}) as MultiAgentGrant;
  if (delegate === undefined) return principal;
  const { capabilities = [], grants } = delegate;
  const { allow, deny, deny_risks, risks } = delegate.tools ?? {};
  const { [OWN]: _, ...others } = { ...grants };
  return {
    name,
    ...(subagent !== undefined && { subagent }),
    ...(within !== undefined && { within }),
    ...(limits !== undefined && { limits }),
    // A subagent must always be able to report its result.
    capabilities: [...capabilities, OWN],
    ...((delegate.tools ?? tools) !== undefined && {
      tools: said({ allow, risks, deny: both(deny, tools?.deny), denyRisks: both(deny_risks, tools?.denyRisks) }),
    }),
    // Its limits hold for all below.
    grants: { ...others, [OWN]: limited },
  };
}

/** Returns the principal of a subagent within the rights that its parent delegates. */
export function subagentPrincipal(within: Principal, id: string, narrowed: Narrowed): Principal {
  const { toolScope, tools, delegate } = narrowed;
  const capabilities = capabilitiesOf(narrowed);
  const has = (name: string) => capabilities.includes('*') || capabilities.includes(nameOf(name));
  const grants = Object.entries(within.grants ?? {}).filter(([name]) => nameOf(name) !== OWN && has(name));
  const rules = toolScope === 'shared' ? { risks: GUARDED_RISKS, ...tools } : tools;
  return {
    name: within.name,
    subagent: id,
    capabilities: [...capabilities, OWN],
    ...(has('tools') && rules !== undefined && { tools: rules }),
    grants: {
      ...Object.fromEntries(grants),
      ...(delegate !== undefined && { [OWN]: { delegate: grantForm(delegate) } }),
    },
    ...(within.limits !== undefined && { limits: within.limits }),
    within,
  };
}

function capabilitiesOf({ asked, capabilities, toolScope, memoryScope }: Narrowed): readonly string[] {
  const ofKind = capabilities?.map(nameOf) ?? ['*'];
  const wanted = asked.length === 0 ? ['*'] : asked.map(nameOf);
  let names = wanted.includes('*') ? ofKind : wanted.filter((name) => ofKind.includes('*') || ofKind.includes(name));
  const without = [...(toolScope === 'isolated' ? TOOLS : []), ...(memoryScope === 'isolated' ? STATE : [])];
  if (without.length > 0 && names.includes('*')) names = [...capabilityNames];
  return names.filter((name) => !without.includes(name) && name !== OWN);
}

const nameOf = (capability: string): string => capabilityOf(capability) ?? capability;

const said = (rules: { readonly [K in keyof ToolRules]: ToolRules[K] | undefined }): ToolRules =>
  Object.fromEntries(Object.entries(rules).filter(([, value]) => value !== undefined));

/** Converts a kind's `delegate` to the form of a grant. */
function grantForm({ capabilities = [], tools, grants }: Delegable): MultiAgentGrant['delegate'] {
  const { denyRisks, ...rules } = tools ?? {};
  return {
    capabilities,
    ...(tools !== undefined && { tools: { ...rules, ...(denyRisks !== undefined && { deny_risks: denyRisks }) } }),
    ...(grants !== undefined && { grants }),
  };
}
