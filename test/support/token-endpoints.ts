// Requests to the revocation (RFC 7009) and introspection (RFC 7662) endpoints, with raw responses.
import type { Client } from './oauth.ts';

export type Credentials = Pick<Client, 'id' | 'secret' | 'method'>;
export type TokenEndpointResponse = { status: number; headers: Headers; text: string };

/** Without a client there is no client authentication. */
export async function postToken(
  endpoint: string,
  client: Credentials | undefined,
  token: string | undefined,
  hint?: string,
): Promise<TokenEndpointResponse> {
  const body = new URLSearchParams();
  if (token !== undefined) body.set('token', token);
  if (hint !== undefined) body.set('token_type_hint', hint);
  const headers: Record<string, string> = {};
  if (client?.method === 'client_secret_basic')
    headers.authorization = `Basic ${btoa(`${client.id}:${client.secret ?? ''}`)}`;
  else if (client) body.set('client_id', client.id);
  if (client?.method === 'client_secret_post') body.set('client_secret', client.secret ?? '');
  const response = await fetch(endpoint, { method: 'POST', headers, body });
  return { status: response.status, headers: response.headers, text: await response.text() };
}
