// Generators of malformed requests: valid requests with members that are replaced, omitted or added.
import * as fc from 'fast-check';
import type { Arbitrary } from 'fast-check';

/** A page that contains one of these has unescaped output. */
export const MARKUP = [
  '<img src=x onerror=fuzz>',
  '"><script>fuzz</script>',
  "'><svg onload=fuzz>",
];

const HOSTILE = [
  ...MARKUP,
  '',
  ' ',
  '\u0000',
  '\r\nX-Injected: yes\r\n\r\n',
  '%0d%0aX-Injected:%20yes',
  '%',
  '%00',
  '%ff%fe',
  '\u202e\u200b\ufeff',
  '\ud800',
  '__proto__',
  'constructor',
  'toString',
  'null',
  'undefined',
  'NaN',
  '[object Object]',
  '-1',
  '99999999999999999999',
  '../../../etc/passwd',
  '${7*7}{{7*7}}<%= 7*7 %>',
  "' OR 1=1 --",
  '*',
  '~',
  'a~0~b',
  'https://',
  'https://[',
  'http://[::1',
  'http://localhost:99999/',
  'javascript:fuzz()',
  'data:text/html,<script>fuzz</script>',
  'x'.repeat(5000),
  '🙈'.repeat(500),
  'eyJhbGciOiJub25lIn0.e30.',
  'e30.e30.e30',
];

export const text: Arbitrary<string> = fc.oneof(
  fc.constantFrom(...HOSTILE),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.string({ unit: 'grapheme-ascii', maxLength: 200 }),
);

const json: Arbitrary<unknown> = fc.oneof(
  text,
  fc.jsonValue({ maxDepth: 4 }),
  fc.array(text, { maxLength: 30 }),
  fc.dictionary(text, text, { maxKeys: 5 }),
  fc.constantFrom(null, true, 0, -1, 1e308, [], {}, [[]], [null], '__proto__'),
);

/** The valid members with some replaced, omitted or added. */
function mutated<T>(
  valid: Record<string, T>,
  wrong: Arbitrary<T>,
  more: readonly string[] = [],
): Arbitrary<Record<string, T>> {
  const names = [...Object.keys(valid), ...more];
  const changes = fc.dictionary(fc.oneof(fc.constantFrom(...names), text), wrong, { maxKeys: 4 });
  const omitted = fc.subarray(Object.keys(valid), { maxLength: 2 });
  return fc.tuple(changes, omitted).map(([changed, without]) => {
    const sent = { ...valid, ...changed };
    for (const name of without) delete sent[name];
    return sent;
  });
}

const REGISTRATION_MEMBERS =
  'client_name client_uri logo_uri tos_uri policy_uri jwks jwks_uri contacts scope software_id software_version software_statement response_types application_type client_id client_secret sector_identifier_uri'.split(
    ' ',
  );

export function registrationBody(valid: Record<string, unknown>): Arbitrary<string> {
  return fc.oneof(
    {
      weight: 8,
      arbitrary: mutated(valid, json, REGISTRATION_MEMBERS).map((body) => JSON.stringify(body)),
    },
    { weight: 1, arbitrary: json.map((body) => JSON.stringify(body)) },
    { weight: 1, arbitrary: text },
  );
}

/** A query or form. Some parameters are repeated or wrongly encoded. */
export function parameters(
  valid: Record<string, string>,
  more: readonly string[],
): Arbitrary<string> {
  const encoded = fc
    .tuple(
      mutated(valid, text, more),
      fc.subarray([...Object.keys(valid), ...more], { maxLength: 1 }),
    )
    .map(([sent, twice]) => {
      const form = new URLSearchParams(wellFormed(sent));
      for (const name of twice) form.append(name, form.get(name) ?? 'again');
      return form.toString();
    });
  const raw = fc
    .tuple(
      encoded,
      fc.nat(),
      fc.constantFrom('%', '%zz', '&', '&&=', '=', '[]=', '[a]=b', ';', '+', '%00', '?', '%c0%ae'),
    )
    .map(([query, at, odd]) => {
      const place = query.length === 0 ? 0 : at % query.length;
      return query.slice(0, place) + odd + query.slice(place);
    });
  return fc.oneof({ weight: 4, arbitrary: encoded }, { weight: 1, arbitrary: raw });
}

function wellFormed(sent: Record<string, string>): [string, string][] {
  return Object.entries(sent).map(([name, value]) => [name.toWellFormed(), value.toWellFormed()]);
}

/** The characters that HTTP allows in a header value. */
const headerText = text.map((value) => value.replace(/[^\t -~\u0080-\u00ff]/g, '').slice(0, 2000));

export function headers(
  valid: Record<string, string>,
  more: readonly string[],
): Arbitrary<Record<string, string>> {
  const names = [...Object.keys(valid), ...more];
  const changes = fc.dictionary(fc.constantFrom(...names), headerText, { maxKeys: 3 });
  return changes.map((changed) => ({ ...valid, ...changed }));
}

const METHODS = [
  'initialize',
  'ping',
  'tools/list',
  'tools/call',
  'resources/read',
  'server/discover',
];

export function mcpBody(): Arbitrary<string> {
  const valid: Record<string, unknown> = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/list',
    params: {},
  };
  const method = fc.oneof(fc.constantFrom(...METHODS), text);
  const called = fc.record({
    name: fc.oneof(fc.constantFrom('club_overview', 'find_members'), text),
    arguments: json,
  });
  const message = fc
    .tuple(mutated(valid, json), method, fc.oneof(called, json))
    .map(([sent, name, params]) => ({ ...sent, method: name, params }));
  return fc.oneof(
    { weight: 6, arbitrary: message.map((body) => JSON.stringify(body)) },
    {
      weight: 1,
      arbitrary: fc.array(message, { maxLength: 5 }).map((body) => JSON.stringify(body)),
    },
    { weight: 1, arbitrary: fc.nat({ max: 20_000 }).map((depth) => '['.repeat(depth)) },
    { weight: 1, arbitrary: text },
  );
}

/** A path that can be sent: printable ASCII without spaces. */
export const path: Arbitrary<string> = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        'oauth',
        'token',
        'authorize',
        'register',
        'interaction',
        'callback',
        'connect',
        'mcp',
        '.well-known',
        'oauth-protected-resource',
        'oauth-authorization-server',
        'assets',
        'style.css',
        '..',
        '.',
        '',
        '%2e%2e',
        'api',
        'v1',
        'connectors',
        'account',
      ),
      text.map((value) => encodeURIComponent(value.toWellFormed()).slice(0, 300)),
      text.map((value) => value.replace(/[^!-~]/g, '').slice(0, 300)),
    ),
    { maxLength: 5 },
  )
  .map((segments) => `/${segments.join('/')}`);
