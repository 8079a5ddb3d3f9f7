/**
 * `Graph`: nodes, edges between them, and a value for each. A value is `{ nodes, edges, edge_links }`, where `edge_links` has the
 * two node numbers of every edge; without edges both are null.
 */
import { Generator, randomSeed } from '../../../base/random/generator.ts';
import { isObject, type JsonObject } from '../../../wire/json.ts';
import { Box } from './box.ts';
import { Discrete } from './discrete.ts';
import { MultiBinary } from './multi-binary.ts';
import { MultiDiscrete } from './multi-discrete.ts';
import type { Sampler, Space } from './space.ts';

export interface GraphValue {
  readonly nodes: readonly unknown[];
  readonly edges: readonly unknown[] | null;
  readonly edge_links: readonly (readonly [number, number])[] | null;
}

/** Number of nodes of a sample; its edges are fewer than pairs of different nodes. */
const SAMPLE_NODES = 10;
const MAX_PART_SEED = 2 ** 31 - 1;

export class Graph implements Space<GraphValue> {
  readonly kind = 'Graph';
  readonly nodeSpace: Space;
  readonly edgeSpace: Space | null;

  constructor(nodeSpace: Space, edgeSpace: Space | null) {
    this.nodeSpace = nodeSpace;
    this.edgeSpace = edgeSpace;
  }

  describe() {
    return {
      type: 'Graph',
      node_space: this.nodeSpace.describe(),
      edge_space: this.edgeSpace?.describe() ?? null,
    };
  }

  jsonSchema() {
    const pair = { type: 'array', items: { type: 'integer', minimum: 0 }, minItems: 2, maxItems: 2 };
    const edges = this.edgeSpace === null ? [] : [{ type: 'array', items: this.edgeSpace.jsonSchema() }];
    return {
      type: 'object',
      properties: {
        nodes: { type: 'array', items: this.nodeSpace.jsonSchema() },
        edges: { anyOf: [...edges, { type: 'null' }] },
        edge_links: { anyOf: [{ type: 'array', items: pair }, { type: 'null' }] },
      },
      required: ['nodes', 'edges', 'edge_links'],
    };
  }

  contains(value: unknown): value is GraphValue {
    return this.#read(value, (space, item) => (space.contains(item) ? item : undefined)) !== undefined;
  }

  sampler(seed?: number | null): Sampler<GraphValue> {
    const own = seed ?? randomSeed();
    const seeds = new Generator(own);
    const nodes = batchSampler(this.nodeSpace, seeds.integer(0, MAX_PART_SEED));
    const edges = this.edgeSpace && batchSampler(this.edgeSpace, seeds.integer(0, MAX_PART_SEED));
    const generator = new Generator(own);
    return () => {
      const count = generator.integer(0, SAMPLE_NODES * (SAMPLE_NODES - 1));
      const sampled = nodes(SAMPLE_NODES);
      if (edges === null || count === 0) return { nodes: sampled, edges: null, edge_links: null };
      const link = () => generator.integer(0, SAMPLE_NODES);
      const values = edges(count);
      return {
        nodes: sampled,
        edges: values,
        edge_links: Array.from({ length: count }, () => [link(), link()] as const),
      };
    };
  }

  toWire({ nodes, edges, edge_links }: GraphValue): unknown {
    return {
      nodes: nodes.map((node) => this.nodeSpace.toWire(node)),
      edges: edges?.map((edge) => this.edgeSpace!.toWire(edge)) ?? null,
      edge_links,
    };
  }

  fromWire(value: unknown): GraphValue | undefined {
    return this.#read(value, (space, item) => space.fromWire(item));
  }

  #read(value: unknown, read: (space: Space, item: unknown) => unknown): GraphValue | undefined {
    if (!isObject(value) || !Array.isArray(value.nodes)) return undefined;
    const { edges = null, edge_links: links = null } = value as JsonObject;
    const nodes = value.nodes.map((node) => read(this.nodeSpace, node));
    if (nodes.includes(undefined)) return undefined;
    if (edges === null && links === null) return { nodes, edges: null, edge_links: null };
    if (!Array.isArray(edges) || !Array.isArray(links) || this.edgeSpace === null) return undefined;
    const values = edges.map((edge) => read(this.edgeSpace!, edge));
    const isNode = (at: unknown): boolean =>
      Number.isInteger(at) && (at as number) >= 0 && (at as number) < nodes.length;
    const linked = links.every((link) => Array.isArray(link) && link.length === 2 && link.every(isNode));
    if (values.includes(undefined) || !linked || links.length !== edges.length) return undefined;
    return { nodes, edges: values, edge_links: links as [number, number][] };
  }
}

/**
 * Draws many values together. Gymnasium draws those of a batch from a copy of the generator, element by element, and then moves
 * the generator by one number; for other kinds than these four, values are drawn one by one and differ from Gymnasium's.
 */
function batchSampler(space: Space, seed: number): (count: number) => readonly unknown[] {
  if (
    !(
      space instanceof Box ||
      space instanceof Discrete ||
      space instanceof MultiBinary ||
      space instanceof MultiDiscrete
    )
  ) {
    const sample = space.sampler(seed);
    return (count) => Array.from({ length: count }, () => sample());
  }
  const generator = new Generator(seed);
  return (count) => {
    const values = space.batched(count).samplerOf(generator.copy())();
    generator.double();
    return values as readonly unknown[];
  };
}
