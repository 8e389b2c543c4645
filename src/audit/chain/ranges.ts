// Ranges of numbers, of which there are as many as trimmings of years have.

export type Range = readonly [first: number, last: number];

/** Overlapping ranges may be added in any order, while numbers are looked up: both take logarithmic time. */
export function openRanges() {
  /** Each sorted, and less than half as long as the one before it, so that a range is merged only a few times. */
  const lists: Range[][] = [];
  const find = (number: number): Range | undefined => {
    for (const list of lists) {
      const range = rangeIn(list, number);
      if (range) return range;
    }
    return undefined;
  };
  return {
    add(ranges: readonly Range[]): void {
      let added = merged(ranges);
      if (added.length === 0) return;
      for (let last = lists.at(-1); last && last.length <= 2 * added.length; last = lists.at(-1)) {
        added = merged([...last, ...added]);
        lists.pop();
      }
      lists.push(added);
    },
    has: (number: number): boolean => find(number) !== undefined,
    /** The highest number below this one that no range has; 0 if there is none. */
    gapBelow(number: number): number {
      let below = number - 1;
      for (let range = find(below); range; range = find(below)) below = range[0] - 1;
      return below;
    },
  };
}

function merged(ranges: readonly Range[]): Range[] {
  const joined: [first: number, last: number][] = [];
  for (const [first, last] of ranges.toSorted(([one], [other]) => one - other)) {
    const before = joined.at(-1);
    if (before && first <= before[1] + 1) before[1] = Math.max(before[1], last);
    else joined.push([first, last]);
  }
  return joined;
}

function rangeIn(sorted: readonly Range[], number: number): Range | undefined {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = Math.floor((from + to) / 2);
    if ((sorted[middle]?.[1] ?? Infinity) < number) from = middle + 1;
    else to = middle;
  }
  const range = sorted[from];
  return range && range[0] <= number ? range : undefined;
}
