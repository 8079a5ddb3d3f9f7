/** Blackjack: come closer to 21 than the dealer. Gymnasium's `Blackjack-v1`, an infinite deck. */
import type { Generator } from '../../../base/random/generator.ts';
import type { JsonObject } from '../../../wire/json.ts';
import type { Affordance, ResetRequest, Start, Step } from '../environment.ts';
import { Canvas } from '../rendering/canvas.ts';
import type { Image } from '../rendering/image.ts';
import { Tuple } from '../spaces/composite.ts';
import { Discrete } from '../spaces/discrete.ts';
import { NO_INFO, SeededEnvironment } from './seeded-environment.ts';

/** An ace is 1; jack, queen and king are 10. */
const deck = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10];
const suits = ['C', 'D', 'H', 'S'];
const HIT = 1;

const sum = (hand: readonly number[]): number => hand.reduce((total, card) => total + card, 0);
const hasUsableAce = (hand: readonly number[]): boolean => hand.includes(1) && sum(hand) + 10 <= 21;
const value = (hand: readonly number[]): number => sum(hand) + (hasUsableAce(hand) ? 10 : 0);
const score = (hand: readonly number[]): number => (value(hand) > 21 ? 0 : value(hand));
const isNatural = (hand: readonly number[]): boolean => hand.length === 2 && hand.includes(1) && hand.includes(10);
const drawCard = (random: Generator): number => random.choice(deck);

type Observation = [sum: number, dealer: number, usableAce: number];

/** Options: `sab`, the rules of Sutton and Barto (a natural wins; default), and `natural`, which pays 1.5 for one otherwise. */
export class Blackjack extends SeededEnvironment<Observation, number> {
  readonly actionSpace = new Discrete(2);
  readonly observationSpace = new Tuple([new Discrete(32), new Discrete(11), new Discrete(2)]) as never;
  readonly #natural: boolean;
  readonly #sab: boolean;
  #dealer: number[] = [];
  #player: number[] = [];
  /** The dealer's open card, as on a table: `KS`. */
  #face = '';

  constructor({ natural = false, sab = true }: JsonObject = {}) {
    super();
    this.#natural = natural === true;
    this.#sab = sab === true;
  }

  reset({ seed }: ResetRequest = {}): Start<Observation> {
    const random = this.reseed(seed);
    this.#dealer = [drawCard(random), drawCard(random)];
    this.#player = [drawCard(random), drawCard(random)];
    const suit = random.choice(suits);
    const open = this.#dealer[0]!;
    if (open === 1) this.#face = `A${suit}`;
    else this.#face = `${open === 10 ? random.choice(['J', 'Q', 'K']) : open}${suit}`;
    return { observation: this.#observe(), info: NO_INFO };
  }

  step(action: number): Step<Observation> {
    this.check(action);
    const random = this.random;
    if (action === HIT) {
      this.#player.push(drawCard(random));
      const bust = value(this.#player) > 21;
      return this.#result(bust ? -1 : 0, bust);
    }
    while (value(this.#dealer) < 17) this.#dealer.push(drawCard(random));
    return this.#result(this.#payout(), true);
  }

  affordances(): readonly Affordance<number>[] {
    this.random;
    return [
      { action: 0, description: 'stick' },
      { action: 1, description: 'hit' },
    ];
  }

  #payout(): number {
    const won = Math.sign(score(this.#player) - score(this.#dealer));
    if (this.#sab) return isNatural(this.#player) && !isNatural(this.#dealer) ? 1 : won;
    return this.#natural && isNatural(this.#player) && won === 1 ? 1.5 : won;
  }

  #result(reward: number, terminated: boolean): Step<Observation> {
    return { observation: this.#observe(), reward, terminated, truncated: false, info: NO_INFO };
  }

  #observe(): Observation {
    return [value(this.#player), this.#dealer[0]!, Number(hasUsableAce(this.#player))];
  }

  protected text(): string {
    const ace = hasUsableAce(this.#player) ? ', usable ace' : '';
    return `dealer shows ${this.#face}\nplayer has ${value(this.#player)}${ace}\n`;
  }

  protected picture(): Image {
    const canvas = new Canvas(384, 376, [196, 216, 158]);
    const card = (at: number, y: number, pips: number): void => {
      const x = 24 + at * 56;
      canvas.rectangle(x, y, 48, 72, [255, 255, 255]);
      for (let pip = 0; pip < pips; pip += 1)
        canvas.circle(x + 14 + (pip % 2) * 20, y + 10 + Math.floor(pip / 2) * 13, 4, [180, 40, 40]);
    };
    card(0, 40, this.#dealer[0]!);
    canvas.rectangle(80, 40, 48, 72, [80, 90, 160]);
    for (const [at, pips] of this.#player.slice(0, 6).entries()) card(at, 160, pips);
    // The sum as a bar: full at 21, red above it.
    const total = value(this.#player);
    canvas.rectangle(24, 290, 336, 24, [160, 185, 120]);
    canvas.rectangle(24, 290, Math.min(336, total * 16), 24, total > 21 ? [190, 50, 40] : [60, 110, 60]);
    return canvas.image;
  }

  protected save(): JsonObject {
    return { dealer: [...this.#dealer], player: [...this.#player], face: this.#face };
  }

  protected load({ dealer, player, face }: JsonObject): void {
    this.#dealer = [...(dealer as number[])];
    this.#player = [...(player as number[])];
    this.#face = String(face);
  }
}
