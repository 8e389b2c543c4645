// Plain headers with claims about the caller, for servers that cannot verify a JWT.
import type { Upstream } from '../../settings/upstreams.ts';
import type { JwtClaims } from './caller-header.ts';

/** Of names and values together, below 8 kB: many servers accept no more in all headers, and this leaves room for the others. */
const MAX_BYTES = 7999;

type Source = Upstream['caller']['headers'][string];

const MEMBERS = {
  sub: 'sub',
  name: 'name',
  email: 'email',
  issuer: 'idp',
  subject: 'idp_sub',
  provider: 'provider',
} as const satisfies Record<Exclude<Source, 'groups'>, keyof JwtClaims>;

/** `names` maps names of headers to claims. A header whose claim the caller does not have is absent. */
export function plainHeaders(
  names: Readonly<Record<string, Source>>,
  claims: JwtClaims,
): Record<string, string> {
  const headers: Record<string, string> = {};
  let left = MAX_BYTES;
  const add = (header: string, value: string) => {
    const size = `${header}: ${value}\r\n`.length;
    if (value === '' || size > left) return;
    headers[header] = value;
    left -= size;
  };
  const entries = Object.entries(names);
  // Groups come last, because they can be left out one by one.
  for (const [header, source] of entries)
    if (source !== 'groups') add(header, encodeClaim(claims[MEMBERS[source]] ?? ''));
  for (const [header, source] of entries)
    if (source === 'groups')
      add(header, groupList(claims.groups ?? [], left - `${header}: \r\n`.length));
  return headers;
}

/** Of the groups, those that fit. */
function groupList(groups: readonly string[], maxLength: number): string {
  let list = '';
  for (const group of groups) {
    const encoded = encodeClaim(group).replaceAll(',', '%2C');
    const longer = list === '' ? encoded : `${list},${encoded}`;
    if (encoded !== '' && longer.length <= maxLength) list = longer;
  }
  return list;
}

/** Not printable ASCII, `%`, and a space at an end, which servers remove (RFC 9110 section 5.5). */
const ENCODED = /[^\x20-\x24\x26-\x7e]|^ +| +$/gu;

/** Percent-encodes UTF-8, so that no value can end a header. */
function encodeClaim(text: string): string {
  return text.replace(ENCODED, encodeURIComponent);
}
