/** A picture in memory, as environments draw it; `rgb_array` sends it as nested arrays and `screenshot` as PNG. */

/** RGB pixels, rows from the top, three bytes each. */
export interface Image {
  readonly width: number;
  readonly height: number;
  /** `width * height * 3` bytes. */
  readonly pixels: Uint8Array;
}

/** Returns the rows of an image as Gymnasium's `rgb_array` has them: `[height][width][3]`. */
export function imageRows({ width, height, pixels }: Image): number[][][] {
  return Array.from({ length: height }, (_, y) =>
    Array.from({ length: width }, (_, x) => [...pixels.subarray((y * width + x) * 3, (y * width + x) * 3 + 3)]),
  );
}
