// Which hosts are this computer and nobody else's (RFC 8252 section 7.3, RFC 6761 section 6.3).

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|::1|\[::1\])$/;

/** Host names and addresses as in a URL or a listen address. Anything unusual is not loopback. */
export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

/** True for an http or https address on this computer. */
export function isLoopbackUrl(url: string): boolean {
  return isLoopback(new URL(url).hostname);
}
