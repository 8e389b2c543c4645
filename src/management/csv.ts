// Lines of CSV (RFC 4180) for spreadsheets, which run what looks like a formula.

const LINE_END = '\r\n';

export function csvLine(values: readonly unknown[]): string {
  return values.map(csvCell).join(',') + LINE_END;
}

/** What begins a formula, also after spaces, and in full width. */
const FORMULA = /^\s*[=+\-@\t\r\n＝＋－＠]|^[\t\r\n]/u;
/** Would do something in a terminal. Lines in cells are allowed. */
const CONTROL = /(?![\t\r\n])[\p{Cc}\p{Bidi_Control}\u2028\u2029]/gu;

function csvCell(value: unknown): string {
  if (value === undefined) return '';
  if (typeof value !== 'string') return String(value);
  const text = value.replace(CONTROL, '\uFFFD');
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
