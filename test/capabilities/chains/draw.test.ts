/** Drawings of chains: every node is in them, no boxes overlap, no line runs through a box, and their size is bounded. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ChainGraph } from '../../../src/capabilities/chains/definition/graph.ts';
import { readChain } from '../../../src/capabilities/chains/definition/read.ts';
import { crossings, layOut } from '../../../src/capabilities/chains/draw/layers.ts';
import { columnsOf, pictureOf, shortened } from '../../../src/capabilities/chains/draw/picture.ts';
import { drawSvg } from '../../../src/capabilities/chains/draw/svg.ts';
import { drawText } from '../../../src/capabilities/chains/draw/text.ts';
import fc from '../../support/properties.ts';

type Node = Readonly<Record<string, unknown>>;
const tool = (id: string, more: Node = {}): Node => ({ node_id: id, kind: 'tool', name: 'echo', ...more });

function graph(nodes: readonly Node[]): ChainGraph {
  const { graph: found, problems } = readChain({ nodes });
  return found ?? assert.fail(JSON.stringify(problems));
}

const nightly = graph([
  tool('find', { next_node: 'any' }),
  { node_id: 'any', kind: 'branch', condition: '$.find', true_node: 'each', false_node: 'none' },
  { node_id: 'each', kind: 'map', map_node: 'review', parallel: 4 },
  tool('review'),
  tool('build', { after: ['any'], on_error: 'notify', compensate: 'clean' }),
  tool('clean'),
  tool('notify'),
  { node_id: 'merge', kind: 'wait', wait: { approval: '?' }, after: ['each', 'build'] },
  tool('none', { next_node: 'end' }),
  { node_id: 'end', kind: 'gather', after: ['merge', 'notify'] },
]);

const states = [
  { node_id: 'find', state: 'done' },
  { node_id: 'any', state: 'done' },
  { node_id: 'each', state: 'running', items: 12, items_done: 5 },
  { node_id: 'build', state: 'failed', attempts: 3 },
  { node_id: 'notify', state: 'running' },
  { node_id: 'merge', state: 'waiting' },
  { node_id: 'none', state: 'skipped' },
] as const;

const chain = (length: number) =>
  graph(Array.from({ length }, (_, at) => tool(`n${at}`, at + 1 < length ? { next_node: `n${at + 1}` } : {})));

const fan = (width: number) =>
  graph([
    tool('start'),
    ...Array.from({ length: width }, (_, at) => tool(`w${at}`, { after: ['start'] })),
    { node_id: 'end', kind: 'gather', after: Array.from({ length: width }, (_, at) => `w${at}`) },
  ]);

/** Chains of any shape without cycles. */
const someChain = fc
  .array(fc.uniqueArray(fc.nat(30), { maxLength: 3 }), { minLength: 1, maxLength: 24 })
  .map((all) =>
    graph(all.map((after, at) => tool(`n${at}`, { after: after.filter((to) => to < at).map((to) => `n${to}`) }))),
  );

describe('the layout', () => {
  const sizes = { lineWidth: () => 8, gap: 10, whole: false };

  test('has no overlapping places, and lines that lead from each layer to the next one', () => {
    fc.assert(
      fc.property(someChain, fc.boolean(), (found, whole) => {
        const { boxes, lines } = pictureOf(found, undefined, 1_000);
        const widths = boxes.map((_, at) => 21 + (at % 4) * 20);
        const layout = layOut(lines, { ...sizes, widths, whole });
        for (const layer of layout.layers) {
          for (const [index, at] of layer.entries()) {
            const [place, before] = [layout.places[at], layout.places[layer[index - 1] as number]];
            if (place === undefined || before === undefined || index === 0) continue;
            assert.ok(place.x - place.width / 2 - (before.x + before.width / 2) >= sizes.gap - 1e-6);
          }
        }
        for (const { from, to } of layout.segments) {
          assert.equal(layout.places[to]?.layer, (layout.places[from]?.layer as number) + 1);
        }
        // Each place is in one layer, and each line goes from its first box to its last through separate places.
        assert.equal(layout.layers.flat().length, layout.places.length);
        for (const [number, line] of lines.entries()) {
          const own = layout.segments.filter((segment) => segment.line === number);
          assert.deepEqual([own[0]?.from, own.at(-1)?.to], [line.from, line.to]);
          assert.ok(
            own.slice(1).every(({ from }, at) => from === own[at]?.to && layout.places[from]?.box === undefined),
          );
        }
      }),
      { numRuns: 100 },
    );
  });

  test('counts crossings as a simple count does, and untangles what need not cross', () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(5), fc.nat(5)), { maxLength: 14 }), (pairs) => {
        const below = Array.from({ length: 12 }, (_, at) =>
          pairs.filter(([from]) => from === at).map(([, to]) => to + 6),
        );
        const naive = pairs.flatMap((one, at) =>
          pairs.slice(at + 1).filter((two) => (one[0] - two[0]) * (one[1] - two[1]) < 0),
        );
        assert.equal(
          crossings(
            [
              [0, 1, 2, 3, 4, 5],
              [6, 7, 8, 9, 10, 11],
            ],
            below,
          ),
          naive.length,
        );
      }),
    );
    // Two ladders whose rungs are given in the wrong order.
    const tangled = graph([
      tool('a'),
      tool('b'),
      tool('a2', { after: ['b'] }),
      tool('b2', { after: ['a'] }),
      tool('a3', { after: ['b2'] }),
      tool('b3', { after: ['a2'] }),
    ]);
    const { boxes, lines } = pictureOf(tangled, undefined, 100);
    const layout = layOut(lines, { ...sizes, widths: boxes.map(() => 20) });
    const below = layout.places.map((_, at) => layout.segments.filter(({ from }) => from === at).map(({ to }) => to));
    assert.equal(crossings(layout.layers, below), 0);
  });
});

describe('text', () => {
  test('has every node, its kind, its state and the words of lines, in 80 columns', () => {
    const text = drawText(nightly, { states, width: 80 });
    for (const { node } of nightly.nodes) assert.ok(text.includes(node.node_id), node.node_id);
    for (const words of ['✓ find', '✗ build', '▸ each', '… merge', '- none', '○ end', 'tool echo ×3', 'map 5/12']) {
      assert.ok(text.includes(words), words);
    }
    for (const label of ['▼ true', '▼ false', '▼ each', '▼ error', '▼ undo']) assert.ok(text.includes(label), label);
    assert.ok(text.split('\n').every((line) => columnsOf(line) <= 80 && line === line.trimEnd()));
    assert.equal(text, drawText(nightly, { states, width: 80 }));
  });

  test('joins lines where they meet', () => {
    const diamond = graph([
      tool('a'),
      tool('b', { after: ['a'] }),
      tool('c', { after: ['a'] }),
      tool('d', { after: ['b', 'c'] }),
    ]);
    assert.deepEqual(drawText(diamond, { width: 80 }).split('\n'), [
      '        ┌───────────┐',
      '        │     a     │',
      '        │ tool echo │',
      '        └─────┬─────┘',
      '      ┌───────┴──────┐',
      '      ▼              ▼',
      '┌───────────┐  ┌───────────┐',
      '│     b     │  │     c     │',
      '│ tool echo │  │ tool echo │',
      '└─────┬─────┘  └─────┬─────┘',
      '      └───────┐      │',
      '              ├──────┘',
      '              ▼',
      '        ┌───────────┐',
      '        │     d     │',
      '        │ tool echo │',
      '        └───────────┘',
    ]);
  });

  test('never draws a line through a box, and stays within its width', () => {
    fc.assert(
      fc.property(someChain, fc.integer({ min: 30, max: 120 }), (found, width) => {
        const lines = drawText(found, { width }).split('\n');
        assert.ok(lines.every((line) => columnsOf(line) <= width));
        const text = lines.join('\n');
        if (!text.includes('┌')) return;
        // A box that a line runs through has an interrupted inside.
        const insides = text.match(/│ +n\d+ +│/g) ?? [];
        assert.equal(insides.length, found.nodes.length);
        assert.equal((text.match(/│ tool echo │/g) ?? []).length, found.nodes.length);
      }),
      { numRuns: 100 },
    );
  });

  test('is a list where a drawing would be too wide', () => {
    const text = drawText(nightly, { states, width: 40 });
    assert.ok(!text.includes('┌'));
    assert.match(text, /✗ build +tool echo ×3 +← any/);
    assert.ok(text.split('\n').every((line) => columnsOf(line) <= 40));
  });

  test('summarises what is large', () => {
    for (const large of [chain(10_000), fan(9_998)]) {
      const text = drawText(large, { width: 80 });
      assert.ok(text.split('\n').length < 30);
      assert.match(text, /9998 tool nodes/);
    }
  });

  test('shows control characters of names, and measures wide letters', () => {
    const odd = graph([
      tool('日本語のノード'),
      { node_id: 'b\u202e', kind: 'tool', name: '\u001b[31mred', after: ['日本語のノード'] },
    ]);
    const text = drawText(odd, { width: 80 });
    assert.ok(!text.includes('\u001b') && !text.includes('\u202e'));
    const rows = text.split('\n').filter((line) => /[┌│└]/.test(line));
    assert.equal(new Set(rows.slice(0, 3).map((row) => columnsOf(row.trim()))).size, 1);
    assert.deepEqual([columnsOf('日本'), shortened('abcdef', 4), shortened('日本語', 4)], [4, 'abc…', '日…']);
  });
});

describe('an SVG picture', () => {
  /** Boxes by their rectangles or polygons, as left, top, right, bottom. */
  const boxesIn = (svg: string): number[][] =>
    [...svg.matchAll(/<g><title>[^<]*<\/title>(.*?)<text/g)].map(([, shape = '']) => {
      const points = /points="([^"]+)"/
        .exec(shape)?.[1]
        ?.split(' ')
        .map((point) => point.split(',').map(Number));
      if (points !== undefined) {
        const [xs, ys] = [points.map(([x]) => x as number), points.map(([, y]) => y as number)];
        return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
      }
      const [x, y, width, height] = ['x', 'y', 'width', 'height'].map((name) =>
        Number(new RegExp(` ${name}="([\\d.-]+)"`).exec(shape)?.[1]),
      ) as [number, number, number, number];
      return [x, y, x + width, y + height];
    });

  /** Points on the curves of a path. */
  function* pointsOf(path: string): Generator<readonly [number, number]> {
    let [x, y] = [0, 0];
    for (const [, command, rest = ''] of path.matchAll(/([MLC])([^MLC]+)/g)) {
      const [x1 = 0, y1 = 0, x2 = 0, y2 = 0, x3 = 0, y3 = 0] = rest.trim().split(/\s+/).map(Number);
      for (let part = 0; part <= 20; part += 1) {
        const t = part / 20;
        const at = (a: number, b: number, c: number, d: number) =>
          a * (1 - t) ** 3 + 3 * b * t * (1 - t) ** 2 + 3 * c * t ** 2 * (1 - t) + d * t ** 3;
        if (command === 'C') yield [at(x, x1, x2, x3), at(y, y1, y2, y3)];
        if (command === 'L') yield [x + (x1 - x) * t, y + (y1 - y) * t];
      }
      [x, y] = command === 'C' ? [x3, y3] : [x1, y1];
    }
  }

  test('has every node with its state as a word and as a sign, and a legend', () => {
    const svg = drawSvg(nightly, { states, title: 'a <run> & "more"' });
    assert.ok(svg.startsWith('<svg xmlns="http://www.w3.org/2000/svg"') && svg.endsWith('</svg>\n'));
    for (const { node } of nightly.nodes) assert.ok(svg.includes(`>${node.node_id}</text>`), node.node_id);
    assert.ok(svg.includes('<title>build: tool echo ×3, failed</title>'));
    assert.ok(svg.includes('a &#60;run&#62; &#38; &#34;more&#34;'));
    for (const state of ['done', 'running', 'waiting', 'failed', 'skipped', 'pending']) {
      assert.ok(svg.includes(`>${state}</text>`), state);
    }
    assert.ok(!drawSvg(nightly).includes('>pending</text>'));
    const long = 'x'.repeat(200);
    assert.ok(Number(/ width="(\d+)"/.exec(drawSvg(nightly, { title: long }))?.[1]) > long.length * 8.4);
    assert.equal(svg, drawSvg(nightly, { states, title: 'a <run> & "more"' }));
  });

  test('has no boxes that overlap, and no line through a box', () => {
    fc.assert(
      fc.property(someChain, (found) => {
        const svg = drawSvg(found);
        const boxes = boxesIn(svg);
        assert.equal(boxes.length, found.nodes.length);
        for (const [at, one] of boxes.entries()) {
          for (const two of boxes.slice(at + 1)) {
            const [a, b, c, d] = one as [number, number, number, number];
            const [e, f, g, h] = two as [number, number, number, number];
            assert.ok(a >= g || e >= c || b >= h || f >= d, `${one} ${two}`);
          }
        }
        for (const [, path = ''] of svg.matchAll(/<path d="(M[^"]+)" fill="none"/g)) {
          for (const [x, y] of pointsOf(path)) {
            const inside = boxes.find(
              ([a, b, c, d]) =>
                x > (a as number) + 1 && x < (c as number) - 1 && y > (b as number) + 1 && y < (d as number) - 1,
            );
            assert.equal(inside, undefined, `${x} ${y} in ${inside}`);
          }
        }
      }),
      { numRuns: 60 },
    );
  });

  test('of 10,000 nodes has a bounded size', () => {
    let seed = 7;
    const random = () => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed / 2_147_483_648;
    };
    const mesh = graph(
      Array.from({ length: 10_000 }, (_, at) =>
        tool(`m${at}`, {
          after: [...new Set(Array.from({ length: at === 0 ? 0 : 2 }, () => `m${Math.floor(random() * at)}`))],
        }),
      ),
    );
    for (const large of [chain(10_000), fan(9_998), mesh]) {
      const svg = drawSvg(large);
      assert.ok(svg.length < 300_000, `${svg.length}`);
      assert.ok(boxesIn(svg).length <= 240);
      assert.ok(boxesIn(svg).length > 1);
    }
  });
});
