/**
 * Tools that are left out of a model's list until it has searched for them: definitions that it never needs cost it nothing. A
 * model with such tools has `tool_search`, which states the size of the found ones.
 *
 * The hosts and capabilities decide which tools are deferred.
 */
import { toolScore, toolTokens } from '../../base/tool-definitions.ts';
import type { ToolCall, ToolDone } from '../../protocol/session-types.ts';
import { failedCall } from './failed-call.ts';
import type { ToolOffer } from './toolbox.ts';

const MAX_FOUND = 20;
const DEFAULT_FOUND = 5;

/** The search as the model is offered it. */
export const searchOffer: ToolOffer = Object.freeze({
  name: 'tool_search',
  description:
    'Finds further tools by what they do. A tool that is found is listed from then on and can be called by its name. Search when no listed tool fits.',
  inputSchema: {
    type: 'object',
    additionalProperties: false,
    required: ['query'],
    properties: {
      query: { type: 'string', minLength: 1, description: 'Words of what the tool is to do; all of them must fit.' },
      limit: {
        type: 'integer',
        minimum: 1,
        maximum: MAX_FOUND,
        description: `Tools at most. Default ${DEFAULT_FOUND}.`,
      },
    },
  },
  kind: 'search',
  risks: ['reads'],
});

/** The deferred tools of one session. */
export class DeferredTools {
  /** Names that a search found. */
  readonly #found = new Set<string>();
  #hidden: ReadonlyMap<string, ToolOffer> = new Map();

  /** Returns the offers without the deferred ones that were not found yet; with the search while some are left out. */
  listed(offers: readonly ToolOffer[]): ToolOffer[] {
    const isHidden = ({ name, deferred }: ToolOffer) => deferred === true && !this.#found.has(name);
    this.#hidden = new Map(offers.filter(isHidden).map((offer) => [offer.name, offer]));
    const listed = offers.filter((offer) => !isHidden(offer));
    const isTaken = listed.some(({ name }) => name === searchOffer.name);
    return this.#hidden.size === 0 || isTaken ? listed : [...listed, searchOffer];
  }

  /** Returns a deferred tool that was not found yet. */
  find(name: string): ToolOffer | undefined {
    return this.#hidden.get(name);
  }

  /** Replies to a call of the search. The tools that it finds are listed from now on. */
  search(call: ToolCall): ToolDone {
    const { name, input, callId } = call;
    const { query, limit = DEFAULT_FOUND } = input;
    if (typeof query !== 'string' || query.trim() === '') {
      return failedCall(call, 'invalid_input', 'invalid arguments: query must be a text');
    }
    if (!Number.isInteger(limit) || (limit as number) < 1 || (limit as number) > MAX_FOUND) {
      return failedCall(
        call,
        'invalid_input',
        `invalid arguments: limit must be a whole number from 1 to ${MAX_FOUND}`,
      );
    }
    const found = [...this.#hidden.values()]
      .map((offer) => ({ offer, points: toolScore(offer, query) }))
      .filter(({ points }) => points > 0)
      .sort((one, other) => other.points - one.points || (one.offer.name < other.offer.name ? -1 : 1))
      .slice(0, limit as number)
      .map(({ offer }) => offer);
    for (const offer of found) this.#found.add(offer.name);
    const tools = found.map((offer) => ({
      name: offer.name,
      description: offer.description,
      tokens: toolTokens({ ...offer, input_schema: offer.inputSchema }),
    }));
    return { name, ok: true, input, result: { tools, left: this.#hidden.size - found.length }, callId };
  }
}
