const MAX_LENGTH = 200;

/** Puts the text of another system on one line, without control characters, and truncates it. */
export function printable(text: string, maxLength = MAX_LENGTH): string {
  const line = text.replaceAll(/[\p{C}\p{Zl}\p{Zp}\s]+/gu, ' ').trim();
  return line.length > maxLength ? `${line.slice(0, maxLength)}…` : line;
}
