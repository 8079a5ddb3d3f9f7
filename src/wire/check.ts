/**
 * The shape of a validator, and the form of its findings. Every validator of the project has this shape: the generated
 * ones for Handfast's messages, and those compiled at run time for users' schemas (`base/json-schema.ts`).
 */
import { fail, type HandfastError } from './errors.ts';

/** An issue that a validator found: its position, and the expectation. */
export interface Issue {
  /** JSON Pointer to the offending value, `''` for the value itself. */
  readonly instancePath: string;
  readonly keyword: string;
  readonly params: Record<string, unknown>;
  readonly message?: string;
}

/** A validator: true or false; after false, `errors` holds the issues until the next call. */
export interface Check {
  (value: unknown): boolean;
  errors?: readonly Issue[] | null;
}

/** Most issues sent to a peer; a hostile message must not cause a long reply. */
const MAX_ISSUES = 8;

/** Longest path sent to a peer, in characters; the names in it may be the peer's own. */
const MAX_PATH = 80;

/** The pattern of names: bounds on their characters, and no control characters. */
const NAME_PATTERN = /^\^\[\^\\u0000-\\u001f\]\{(\d+),(\d+)\}\$$/;

/** Returns a path in the form for sending: cut if it is long. */
export const shortPath = (path: string): string => (path.length > MAX_PATH ? `${path.slice(0, MAX_PATH)}…` : path);

/** Returns the JSON Pointer of an issue; for a missing field it names that field. */
export function issuePath(issue: Issue): string {
  const missing = issue.params.missingProperty ?? issue.params.additionalProperty;
  return shortPath(typeof missing === 'string' ? `${issue.instancePath}/${missing}` : issue.instancePath);
}

/** About a member that no schema names. */
export const UNKNOWN_MEMBER = 'is not a known property';

/** Returns one line about an issue, without the offending value: `must be string`. Its path names a missing field already. */
export function issueText(issue: Issue): string {
  if (issue.params.missingProperty !== undefined) return 'is required';
  if (issue.params.additionalProperty !== undefined) return UNKNOWN_MEMBER;
  const lengths = NAME_PATTERN.exec(String(issue.params.pattern));
  if (lengths !== null) return `must have ${lengths[1]} to ${lengths[2]} characters, none of them a control character`;
  const allowed = issue.params.allowedValues ?? issue.params.allowedValue;
  const names = allowed === undefined ? '' : `: ${[allowed].flat().slice(0, 12).map(String).join(', ')}`;
  return `${issue.message ?? issue.keyword}${names}`;
}

/**
 * Returns the `schema_violation` for the issues that a check just found; `what` names the invalid message, e.g.
 * `tool/call/req`.
 */
export function violation(what: string, issues: readonly Issue[] | null | undefined): HandfastError {
  const found = (issues ?? [])
    .slice(0, MAX_ISSUES)
    .map((issue) => ({ path: issuePath(issue), message: issueText(issue) }));
  const first = found[0] ?? { path: '', message: 'does not fit its schema' };
  return fail('schema_violation', `${what}: ${first.path === '' ? '' : `${first.path} `}${first.message}`, {
    path: first.path,
    errors: found,
  });
}
