import { HttpError } from '../../http/errors.ts';

/** The upstream is unreachable or its response is invalid. The cause is logged, and nothing of it is sent. */
export function badGateway(
  cause: unknown,
  message = 'the MCP server behind this address is unreachable or sent an invalid response; try again in a moment',
): HttpError {
  return new HttpError(502, 'bad_gateway', message, { cause });
}

export function gatewayTimeout(seconds: number): HttpError {
  const message = 'the MCP server behind this address timed out; try again in a moment';
  const cause = new Error(`the upstream sent nothing for ${seconds} s`);
  return new HttpError(504, 'gateway_timeout', message, { cause });
}
