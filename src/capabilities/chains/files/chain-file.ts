/**
 * Chain files: a chain in YAML (or JSON), with the words of `chain/req`. Every problem is reported by line and column: those of
 * the file by its schema, and those of the chain by `readChain`.
 */
import { basename, extname } from 'node:path';
import { type ConfigProblem, type OpenedConfig, openConfig } from '../../../config/open-config.ts';
import { camel, type SettingSchema } from '../../../config/setting.ts';
import type { Budget, ChainNode } from '../chains.schema.ts';
import type { ChainGraph, Problem } from '../definition/graph.ts';
import { outputSchemaProblems } from '../definition/output-schemas.ts';
import { readChain } from '../definition/read.ts';
import { chainFile } from './chain-file.generated.ts';

/** The content of a file, in the words of the wire. */
export interface ChainDefinition {
  readonly name: string;
  readonly description?: string;
  readonly nodes: readonly ChainNode[];
  readonly entry_node?: string;
  readonly timeout?: number;
  readonly max_parallel?: number;
  readonly deadline?: string;
  readonly budget?: Budget;
}

export interface LoadedChain {
  /** Absolute. */
  readonly file: string;
  readonly definition: ChainDefinition;
  readonly graph: ChainGraph;
  /**
   * Returns the error for problems that another check of the chain found, e.g. its host: `config_invalid`, with the position of
   * each.
   */
  refusal(problems: readonly Pick<Problem, 'index' | 'field' | 'message'>[]): Error;
}

/** Limits that admit the largest chain. */
const LIMITS = { maxBytes: 16 * 1024 * 1024, maxValues: 1_000_000 };

/** Reads a chain file. Fails with `config_invalid`, and `detail.problems` with line and column of each. */
export async function loadChainFile(file: string, cwd = process.cwd()): Promise<LoadedChain> {
  const opened: OpenedConfig<object> = await openConfig<object>(file, chainFile, cwd, undefined, LIMITS);
  opened.finish();
  const written = asWritten(opened.settings, chainFile) as Omit<ChainDefinition, 'name'> & { readonly name?: string };
  const refusal: LoadedChain['refusal'] = (problems) =>
    opened.refusal(problems.map((problem) => ({ path: pathOf(problem), message: problem.message })));
  const { graph, problems } = readChain(written);
  if (graph === undefined) throw refusal(problems);
  const broken = await outputSchemaProblems(graph);
  if (broken.length > 0) throw refusal(broken);
  const path = opened.file as string;
  return { file: path, definition: { name: basename(path, extname(path)), ...written }, graph, refusal };
}

/** Returns the problems of a chain file that cannot be used; undefined for other errors. */
export function problemsOf(error: unknown): readonly ConfigProblem[] | undefined {
  const { code, detail } = error as { readonly code?: unknown; readonly detail?: { readonly problems?: unknown } };
  return code === 'config_invalid' && Array.isArray(detail?.problems) ? detail.problems : undefined;
}

/** Returns the path of a problem in the chain file. */
function pathOf({ index, field }: Pick<Problem, 'index' | 'field'>): string {
  if (index === undefined) return field;
  return field === '' ? `nodes[${index}]` : `nodes[${index}].${field}`;
}

/**
 * Returns the settings with the keys of the file, which are those of the wire; a group that the file gave as a text is that
 * text again.
 */
function asWritten(value: unknown, schema: SettingSchema): unknown {
  if (Array.isArray(value)) return value.map((item) => asWritten(item, schema.items ?? {}));
  if (schema.properties === undefined || value === undefined) return value;
  const settings = value as Readonly<Record<string, unknown>>;
  const members = Object.entries(schema.properties)
    .map(([key, member]) => [key, asWritten(settings[camel(key)], member), member] as const)
    .filter(([, member, { properties }]) => member !== undefined && !(properties && isEmpty(member)));
  const [only] = members;
  return schema.short === 'path' && only?.[0] === 'path'
    ? only[1]
    : Object.fromEntries(members.map(([key, member]) => [key, member]));
}

const isEmpty = (value: unknown): boolean =>
  typeof value === 'object' && value !== null && Object.keys(value).length === 0;
