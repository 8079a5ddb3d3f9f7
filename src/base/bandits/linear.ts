/**
 * Ridge regression of one option's reward on features, updated one reward at a time: the part of LinUCB that learns, and the
 * reward model of the doubly robust estimate.
 *
 * The inverse of the Gram matrix is stored, updated by the formula of Sherman and Morrison. It is symmetric: only its upper
 * triangle is saved, as base64 of little-endian doubles, so that a saved model is the same bit by bit.
 */

/** A model as JSON. */
export interface SavedLinear {
  readonly size: number;
  readonly inverse: string;
  readonly sums: string;
}

export class LinearModel {
  readonly size: number;
  /** Row by row, both halves. */
  readonly #inverse: Float64Array;
  /** Rewards times features. */
  readonly #sums: Float64Array;
  readonly #work: Float64Array;
  #weights: Float64Array | undefined;

  /** @param ridge penalty: the inverse starts as the unit matrix divided by it */
  constructor(size: number, ridge: number) {
    this.size = size;
    this.#inverse = new Float64Array(size * size);
    for (let at = 0; at < size; at++) this.#inverse[at * size + at] = 1 / ridge;
    this.#sums = new Float64Array(size);
    this.#work = new Float64Array(size);
  }

  static restore({ size, inverse, sums }: SavedLinear): LinearModel {
    const model = new LinearModel(size, 1);
    const triangle = doublesOf(inverse);
    let next = 0;
    for (let row = 0; row < size; row++) {
      for (let column = row; column < size; column++) {
        const value = triangle[next++]!;
        model.#inverse[row * size + column] = value;
        model.#inverse[column * size + row] = value;
      }
    }
    model.#sums.set(doublesOf(sums));
    return model;
  }

  save(): SavedLinear {
    const { size } = this;
    const triangle = new Float64Array((size * (size + 1)) / 2);
    let next = 0;
    for (let row = 0; row < size; row++) {
      for (let column = row; column < size; column++) triangle[next++] = this.#inverse[row * size + column]!;
    }
    return { size, inverse: base64Of(triangle), sums: base64Of(this.#sums) };
  }

  /** Returns the expected reward. */
  mean(features: ArrayLike<number>): number {
    const { size } = this;
    if (this.#weights === undefined) {
      this.#weights = new Float64Array(size);
      this.#multiply(this.#sums, this.#weights);
    }
    let sum = 0;
    for (let at = 0; at < size; at++) sum += this.#weights[at]! * features[at]!;
    return sum;
  }

  /** Returns the uncertainty of the expected reward: the square root of `xᵀ A⁻¹ x`. */
  width(features: ArrayLike<number>): number {
    this.#multiply(features, this.#work);
    let sum = 0;
    for (let at = 0; at < this.size; at++) sum += features[at]! * this.#work[at]!;
    return Math.sqrt(Math.max(0, sum));
  }

  learn(features: ArrayLike<number>, reward: number): void {
    const { size } = this;
    this.#multiply(features, this.#work);
    let scale = 1;
    for (let at = 0; at < size; at++) scale += features[at]! * this.#work[at]!;
    for (let row = 0; row < size; row++) {
      const left = this.#work[row]!;
      if (left === 0) continue;
      const offset = row * size;
      // Both halves get the same product in the same order, so that they stay equal.
      for (let column = row; column < size; column++) {
        const value = this.#inverse[offset + column]! - (left * this.#work[column]!) / scale;
        this.#inverse[offset + column] = value;
        this.#inverse[column * size + row] = value;
      }
    }
    for (let at = 0; at < size; at++) this.#sums[at]! += reward * features[at]!;
    this.#weights = undefined;
  }

  #multiply(vector: ArrayLike<number>, into: Float64Array): void {
    const { size } = this;
    into.fill(0);
    for (let row = 0; row < size; row++) {
      const factor = vector[row]!;
      if (factor === 0) continue;
      const offset = row * size;
      for (let column = 0; column < size; column++) into[column]! += factor * this.#inverse[offset + column]!;
    }
  }
}

function base64Of(values: Float64Array): string {
  const bytes = Buffer.alloc(values.length * 8);
  for (let at = 0; at < values.length; at++) bytes.writeDoubleLE(values[at]!, at * 8);
  return bytes.toString('base64');
}

function doublesOf(text: string): Float64Array {
  const bytes = Buffer.from(text, 'base64');
  const values = new Float64Array(bytes.length / 8);
  for (let at = 0; at < values.length; at++) values[at] = bytes.readDoubleLE(at * 8);
  return values;
}
