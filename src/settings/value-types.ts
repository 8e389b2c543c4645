// Types of single settings. `valueType` names the type in the settings reference.
import * as z from 'zod';

const UNITS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

const DURATION = 'a duration such as 90s, 15m, 12h or 30d';

/** Parses `<number><s|m|h|d>` into seconds. */
export const duration = z
  .string(DURATION)
  .regex(/^[1-9]\d{0,5}[smhd]$/, { error: DURATION, abort: true })
  .transform(secondsIn)
  .meta({ valueType: 'duration' });

/** Requires text that `duration` accepts. */
export function secondsIn(text: string): number {
  return Number(text.slice(0, -1)) * UNITS[text.at(-1) as keyof typeof UNITS];
}

/** Returns the shortest text that `duration` reads as these seconds. */
export function writeDuration(seconds: number): string {
  const [unit, size] = Object.entries(UNITS).findLast(([, each]) => seconds % each === 0) ?? [
    's',
    1,
  ];
  return `${seconds / size}${unit}`;
}

const ORIGIN =
  'an address such as https://auth.example.com or http://localhost:4000, in lower case, without a path or a trailing slash';

/** Scheme, host and port. Not normalised, because clients compare the issuer byte for byte. */
export const origin = z
  .string(ORIGIN)
  .refine((text) => {
    const url = URL.parse(text);
    return (
      url !== null &&
      /^https?:$/.test(url.protocol) &&
      url.origin === text &&
      url.port !== '0' &&
      !text.includes('*')
    );
  }, ORIGIN)
  .meta({ valueType: 'URL without a path' });

const WEB_ORIGIN =
  'an origin such as https://app.example.com, chrome-extension://<id> or tauri://localhost, in lower case, without a path, a trailing slash or a wildcard';

/** What browsers send as `Origin`, also for pages of extensions and apps. */
export const webOrigin = z
  .string(WEB_ORIGIN)
  .refine((text) => origin.safeParse(text).success || isAppOrigin(text), WEB_ORIGIN)
  .meta({ valueType: 'origin' });

/** Of another scheme than http. URL parsers give these origins as `null`. */
function isAppOrigin(text: string): boolean {
  const [, scheme = ''] = /^([a-z][a-z0-9+.-]*):\/\/[a-z0-9._-]+(:\d{1,5})?$/.exec(text) ?? [];
  return scheme !== '' && !['http', 'https', 'file', 'data'].includes(scheme);
}

const ISSUER =
  'an address such as https://login.example.com, without a query (?), a fragment (#), a user name or a password';

/** The issuer of an identity provider (RFC 8414 section 2). Not normalised. */
export const issuer = z
  .string(ISSUER)
  .refine((text) => {
    const url = URL.parse(text);
    if (url === null || !/^https?:$/.test(url.protocol) || /[?#]/.test(text)) return false;
    return url.username === '' && url.password === '';
  }, ISSUER)
  .meta({ valueType: 'URL' });

/** Ignores a trailing slash after the host (RFC 3986 section 6.2.3). */
export function isSameIssuer(a: string, b: string): boolean {
  return a === b || comparableIssuer(a) === comparableIssuer(b);
}

export function comparableIssuer(issuer: string): string {
  return URL.parse(issuer)?.href ?? issuer;
}

/** An issuer that is a host alone, with and without the slash after it. */
export function issuerSpellings(issuer: string): string[] {
  const { href = issuer, origin = issuer } = URL.parse(issuer) ?? {};
  return href === `${origin}/` ? [origin, href] : [issuer];
}

/**
 * Whether a discovery document of this issuer is accepted, as openid-client decides. Documents of Microsoft have other issuers: `{tenantid}`, or the
 * id of a tenant that is addressed by its domain.
 */
export function isIssuerOfDocument(expected: string, found: unknown): boolean {
  if (typeof found !== 'string') return false;
  const { origin, hostname } = new URL(expected);
  const isMicrosoft =
    origin === 'https://login.microsoftonline.com' || hostname.endsWith('.b2clogin.com');
  return URL.canParse(found) && (isMicrosoft || isSameIssuer(found, expected));
}

const ADDRESS = 'host:port, for example 0.0.0.0:4000';

/** `host:port` to listen on, with IPv6 hosts in brackets. */
export const address = z
  .string(ADDRESS)
  .regex(/^([^:\s[\]]+|\[[0-9a-fA-F:.]+\]):\d{1,5}$/, ADDRESS)
  .transform((text) => {
    const colon = text.lastIndexOf(':');
    return {
      host: text.slice(0, colon).replace(/^\[|\]$/g, ''),
      port: Number(text.slice(colon + 1)),
    };
  })
  .refine(({ port }) => port <= 65_535, 'a port from 0 to 65535')
  .meta({ valueType: '`host:port`' });

export type Address = z.output<typeof address>;

/** An id that is safe in a URL, a rule and a form. */
export const shortId = z
  .string()
  .regex(/^[a-z][a-z0-9-]{0,31}$/, '1 to 32 lower-case letters, digits or dashes, a letter first')
  .meta({ valueType: 'id' });

export function isDistinct(values: readonly string[]): boolean {
  return new Set(values).size === values.length;
}

/** Both limits are inclusive. */
export function wholeNumber(min: number, max: number) {
  const expected = `a whole number from ${min} to ${max}`;
  return z.int(expected).min(min, expected).max(max, expected);
}

const HEADER_VALUE = 'a text, {env: <variable>} or {file: <path>}';

/** A credential for another server. `upstreams.ts` checks the names and reads variables and files. */
export const headerValue = z.union(
  [
    z.string(),
    z.strictObject({ env: z.string().min(1) }),
    z.strictObject({ file: z.string().min(1) }),
  ],
  HEADER_VALUE,
);
