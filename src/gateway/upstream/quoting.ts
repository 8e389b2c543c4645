// The address and the text of an upstream, made safe for logs, terminals and pages.
import { isObject, isRawJSON } from '../../json-values.ts';

/** Without the query, which may contain a secret. */
export function shownUrl(url: string): string {
  const { origin, pathname } = new URL(url);
  return origin + pathname;
}

/** Whether a server refuses the `Host` that it got: many accept only their own names, against DNS rebinding. */
export function refusesHost(status: number, words: string): boolean {
  return status === 421 || ([400, 403].includes(status) && /\b(HTTP_)?host(name)?\b/i.test(words));
}

/** So many characters of a credential are not found by chance. */
const MIN_PART_LENGTH = 6;

/** Returns whether a text of the upstream repeats a part of the headers that Gatehouse sent, without the scheme of `Authorization`. */
export function findsParts(sent: Readonly<Record<string, string>>): (text: string) => boolean {
  const secrets = Object.values(sent).map((value) => {
    const secret = value.replace(/^[\w-]+ +(?=\S)/, '');
    const length = Math.min(MIN_PART_LENGTH, secret.length);
    return { length, parts: new Set(partsOf(secret, length)) };
  });
  return (text) =>
    [text, decoded(text)].some((shown) =>
      secrets.some(({ length, parts }) => partsOf(shown, length).some((part) => parts.has(part))),
    );
}

/** Shorter ones occur by chance. */
const MIN_MASKED_LENGTH = 8;

/** As a server may repeat it in JSON, also with the escapes of PHP, and in addresses. */
function formsOf(token: string): Set<string> {
  const json = JSON.stringify(token).slice(1, -1);
  return new Set([token, json, json.replaceAll('/', '\\/'), encodeURIComponent(token)]);
}

/** Puts asterisks in place of a person's credential that the upstream repeats, so that apps and their models never see it. */
export function maskText(text: string, token: string): string {
  if (token.length < MIN_MASKED_LENGTH) return text;
  let masked = text;
  for (const form of formsOf(token)) masked = masked.replaceAll(form, '*'.repeat(form.length));
  return masked;
}

/** As `maskText`, in the bytes of a response. */
export function maskBytes(bytes: Buffer, token: string): void {
  if (token.length < MIN_MASKED_LENGTH) return;
  for (const form of formsOf(token))
    for (let at = bytes.indexOf(form); at !== -1; at = bytes.indexOf(form, at + form.length))
      bytes.fill('*', at, at + form.length);
}

/** As `maskText`, in all names, texts and numbers of a JSON value. A credential may look like JSON, so its text is not masked as a whole. */
export function maskJson<T>(value: T, token: string): T {
  return token.length < MIN_MASKED_LENGTH ? value : (masked(value, token) as T);
}

function masked(value: unknown, token: string): unknown {
  if (typeof value === 'string') return maskText(value, token);
  if (Array.isArray(value)) return value.map((item) => masked(item, token));
  if (isObject(value) && !isRawJSON(value))
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [maskText(name, token), masked(member, token)]),
    );
  const text = JSON.stringify(value) ?? '';
  const shown = maskText(text, token);
  return shown === text ? value : shown;
}

function partsOf(text: string, length: number): string[] {
  const count = Math.max(text.length - length + 1, 0);
  return Array.from({ length: count }, (_, start) => text.slice(start, start + length));
}

/** A redirect may repeat a credential in percent escapes. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
