// Fetches what a trusted issuer publishes about its keys, also from a cluster with its own certificates and its own authentication.
import { readFile } from 'node:fs/promises';
import { readBytes } from '../http/body.ts';
import { INTERNET, sendGuarded, sendUnguarded } from '../http/guarded-request.ts';
import { tracedRequest } from '../observability/tracing.ts';
import { isLoopbackUrl } from '../settings/addresses.ts';
import type { ForwardProxy } from '../settings/forward-proxy.ts';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';

export type PublishingIssuer = Pick<
  TrustedIssuer,
  'issuer' | 'jwksUri' | 'caFile' | 'tokenFile' | 'privateNetwork'
>;

const MAX_BYTES = 1024 * 1024;

/**
 * Resolves to the JSON of a response with status 200. Does not follow redirects. Without `privateNetwork`, connects only to public addresses, except
 * to this computer if the settings say so.
 */
export async function fetchFromIssuer(
  url: string,
  issuer: PublishingIssuer,
  { forwardProxy, signal }: { forwardProxy: ForwardProxy; signal: AbortSignal },
): Promise<unknown> {
  const { issuer: name, jwksUri = name, caFile, tokenFile, privateNetwork } = issuer;
  // Both are replaced while this process runs: the kubelet writes a new token before the old one ends.
  const [ca, token] = await Promise.all([contentOf(caFile), contentOf(tokenFile)]);
  const target = new URL(url);
  // The document of an issuer may name any host.
  const isTokenFor = target.origin === new URL(jwksUri).origin;
  const message = {
    method: 'GET',
    headers: {
      accept: 'application/json',
      ...(token !== undefined && isTokenFor ? { authorization: `Bearer ${token.trim()}` } : {}),
    },
    signal,
  } as const;
  const way = { forwardProxy, ...(ca === undefined ? {} : { ca }) };
  const isHere = isLoopbackUrl(url) && target.origin === new URL(jwksUri).origin;
  return tracedRequest({ peer: 'identity-provider', method: 'GET', url }, async () => {
    const response = await (privateNetwork || isHere
      ? sendUnguarded(url, way, message)
      : sendGuarded(url, { ...INTERNET, ...way }, message));
    try {
      if (response.statusCode !== 200)
        throw new Error(`${url} answered ${response.statusCode ?? 'without a status'}`);
      const tooLarge = () => new TypeError(`${url} is larger than ${MAX_BYTES} bytes`);
      const bytes = await readBytes(response, MAX_BYTES, tooLarge);
      return JSON.parse(bytes.toString('utf8')) as unknown;
    } finally {
      response.destroy();
    }
  });
}

async function contentOf(file: string | undefined): Promise<string | undefined> {
  return file === undefined ? undefined : readFile(file, 'utf8');
}
