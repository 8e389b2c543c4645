// The known name a misspelt one was most likely meant to be.

const MOST_EDITS = 2;

/** The nearest of `names`, at most two edits (insert, delete, replace) away. */
export function nearestName(written: string, names: readonly string[]): string | undefined {
  const [best] = names
    .map((name) => ({ name, edits: edits(written.toLowerCase(), name.toLowerCase()) }))
    .filter(({ name, edits }) => edits <= MOST_EDITS && edits < name.length)
    .sort((a, b) => a.edits - b.edits);
  return best?.name;
}

/** Levenshtein distance, row by row. */
function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, column) => column);
  for (const [line, letter] of [...from].entries()) {
    const next = [line + 1];
    for (const [column, other] of [...to].entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1);
      next.push(Math.min(replaced, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row.at(-1) ?? 0;
}
