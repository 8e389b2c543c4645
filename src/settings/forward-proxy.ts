// The proxy in a network that reaches other servers through one only, from the variables that most programs read.
import ipaddr from 'ipaddr.js';
import { isLoopback } from './addresses.ts';
import type { Environment } from './environment.ts';
import type { SettingsIssue } from './issues.ts';

/** Addresses of proxies by the scheme of a request. May contain passwords: never log them. */
export type ForwardProxy = {
  http: string | undefined;
  https: string | undefined;
  /** Hosts that are reached without a proxy. */
  noProxy: readonly string[];
};

const NAMES = ['HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY'] as const;

/** Variables in lower case count too, and take precedence. */
export function readForwardProxy(environment: Environment = process.env): {
  value: ForwardProxy;
  issues: SettingsIssue[];
} {
  const [http, https, noProxy = ''] = NAMES.map(
    (name) => environment[name.toLowerCase()] || environment[name] || undefined,
  );
  const issues = [http, https].flatMap((url, index): SettingsIssue[] => {
    const isAddress = url === undefined || /^https?:$/.test(URL.parse(url)?.protocol ?? '');
    if (isAddress) return [];
    const expected = 'the address of a proxy, such as http://proxy.example.com:3128';
    return [{ setting: NAMES[index] ?? '', given: 'another value', expected }];
  });
  const hosts = noProxy.split(/[\s,]+/).filter((entry) => entry !== '');
  return { value: { http, https: https ?? http, noProxy: hosts }, issues };
}

/** The address of the proxy for a URL, or undefined if it is reached directly. Loopback addresses never have one. */
export function proxyFor(url: string, proxy: ForwardProxy): string | undefined {
  const { protocol, hostname, port } = new URL(url);
  const address = protocol === 'https:' ? proxy.https : proxy.http;
  const host = canonicalHost(hostname);
  if (address === undefined || isLoopback(host)) return undefined;
  const isExempt = (entry: string) =>
    matches(entry, host, port || (protocol === 'https:' ? '443' : '80'));
  return proxy.noProxy.some(isExempt) ? undefined : address;
}

/** Without brackets and final dot. An IPv4 address in IPv6 form (RFC 4291 section 2.5.5.2) is that IPv4 address. */
function canonicalHost(text: string): string {
  const host = text.replace(/^\[|\]$|\.$/g, '').toLowerCase();
  return ipaddr.isValid(host) ? ipaddr.process(host).toString() : host;
}

/** An entry is `*`, a name with its subdomains, an address, or a range of addresses, and may end in a port. */
function matches(entry: string, host: string, port: string): boolean {
  const [, name = '', onlyPort] =
    /^(\[.+\](?:\/\d+)?|[^:]+|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? [];
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const wanted = canonicalHost(name.replace(/^\*?\./, ''));
  if (wanted === '*' || wanted === host || host.endsWith(`.${wanted}`)) return true;
  return ipaddr.isValid(host) && isInRange(ipaddr.parse(host), name.replace(/[[\]]/g, ''));
}

function isInRange(address: ipaddr.IPv4 | ipaddr.IPv6, range: string): boolean {
  if (!ipaddr.isValidCIDR(range)) return false;
  const [start, bits] = ipaddr.parseCIDR(range);
  const network = ipaddr.process(start.toString());
  const isMapped = network.kind() !== start.kind();
  return address.kind() === network.kind() && address.match(network, isMapped ? bits - 96 : bits);
}

/** Host and port, without user and password. */
export function shownProxy(address: string): string {
  const { protocol, host } = new URL(address);
  return `${protocol}//${host}`;
}
