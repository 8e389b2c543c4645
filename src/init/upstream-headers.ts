// The headers that the MCP server requires, each with the environment variable that contains its value.
import type { Environment } from '../settings/environment.ts';
import { hidden } from '../settings/source.ts';
import { readHeaderVariables } from '../settings/upstreams.ts';

export type UpstreamHeader = { name: string; variable: string };

/** `values` by header name in lower case: secrets, empty if there are problems. */
export type UpstreamHeaders = {
  headers: readonly UpstreamHeader[];
  values: Readonly<Record<string, string>>;
  problems: readonly { given: string; expected: string }[];
};

export const HEADER_EXAMPLE = 'Authorization: TOOLS_AUTHORIZATION';

/** Reads texts of the form of HEADER_EXAMPLE. The problems never contain a value. */
export function readUpstreamHeaders(
  texts: readonly string[],
  environment: Environment | undefined,
): UpstreamHeaders {
  const parsed = texts.map(parse);
  const malformed = texts
    .filter((_, n) => parsed[n] === undefined)
    .map((text) => ({
      given: hidden(text),
      expected: `a header and the environment variable with its value, such as "${HEADER_EXAMPLE}"`,
    }));
  const headers = parsed.flatMap((header) => header ?? []);
  const { value: values = {}, issues } = readHeaderVariables(
    headers.map(({ name, variable }) => [name, variable]),
    environment,
  );
  return { headers, values, problems: [...malformed, ...issues] };
}

function parse(text: string): UpstreamHeader | undefined {
  const [, name, variable] = /^\s*([^\s:]+)\s*:\s*(\S|\S.*\S)\s*$/.exec(text) ?? [];
  return name === undefined || variable === undefined ? undefined : { name, variable };
}
