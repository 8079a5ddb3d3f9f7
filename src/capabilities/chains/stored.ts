/** The stored data of runs and chains, and their keys. */
import type { Budget, ChainError, ChainNode, ChainUsage } from './chains.schema.ts';

/** A chain as it runs: its nodes and the settings of the run. */
export interface Definition {
  readonly nodes: readonly ChainNode[];
  readonly entry_node: string;
  /** Seconds. */
  readonly timeout: number;
  readonly max_parallel: number;
  /** RFC 3339; '' = none. */
  readonly deadline: string;
  readonly budget: Budget;
}

/** Stored at `run/<chain_id>`; small, so that runs are listed by it. */
export interface StoredRun {
  readonly chain_id: string;
  /** The agent that started it. */
  readonly agent: string;
  /** Of the stored chain; '' and 0: none. */
  readonly name: string;
  readonly version: number;
  /** `running` without a run in memory: the run was interrupted. */
  readonly state: 'running' | 'paused' | 'done' | 'failed' | 'cancelled';
  readonly nodes_total: number;
  readonly nodes_ended: number;
  /** Epoch seconds. */
  readonly started_at: number;
  readonly ended_at: number | null;
  readonly error: ChainError | null;
  readonly usage: ChainUsage;
  readonly success: boolean;
  /** The table of its journal. */
  readonly table: string;
  readonly correlation_id: string;
}

/** Stored at `definition/<chain_id>`. */
export interface StoredDefinition {
  readonly definition: Definition;
  readonly initial_input: Readonly<Record<string, unknown>>;
}

export const runKey = (chainId: string): string => `run/${chainId}`;
export const definitionKey = (chainId: string): string => `definition/${chainId}`;
