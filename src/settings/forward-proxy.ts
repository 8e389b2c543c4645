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
  if (address === undefined || isLoopback(hostname)) return undefined;
  const host = hostname.replace(/^\[|\]$|\.$/g, '').toLowerCase();
  const isExempt = (entry: string) =>
    matches(entry, host, port || (protocol === 'https:' ? '443' : '80'));
  return proxy.noProxy.some(isExempt) ? undefined : address;
}

/** An entry is `*`, a name with its subdomains, an address, or a range of addresses, and may end in a port. */
function matches(entry: string, host: string, port: string): boolean {
  const [, name = '', onlyPort] = /^(\[.+\]|[^:]+|.*:.*:.*?)(?::(\d+))?$/.exec(entry) ?? [];
  if (onlyPort !== undefined && onlyPort !== port) return false;
  const wanted = name
    .replace(/^\[|\]$/g, '')
    .replace(/^\*?\./, '')
    .toLowerCase();
  if (wanted === '*' || wanted === host || host.endsWith(`.${wanted}`)) return true;
  if (!ipaddr.isValidCIDR(wanted) || !ipaddr.isValid(host)) return false;
  const [address, range] = [ipaddr.parse(host), ipaddr.parseCIDR(wanted)];
  return address.kind() === range[0].kind() && address.match(range);
}

/** Host and port, without user and password. */
export function shownProxy(address: string): string {
  const { protocol, host } = new URL(address);
  return `${protocol}//${host}`;
}
