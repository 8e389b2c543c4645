// Rules of administrators about apps that register anew: blocked hosts and names, and allowed apps. One record holds them all, because each
// authorization reads them. A name is only a claim of the app.
import { createHash } from 'node:crypto';
import { membersOf } from '../json-values.ts';
import { isLoopback } from '../settings/addresses.ts';
import { KEEP, type Store } from '../store/store.ts';

/**
 * What a rule matches. A block has either a host, which includes its subdomains, or a name. An allowed app has a name and the destinations
 * that its redirect URIs may have.
 */
export type RuleSubject =
  | { effect: 'block'; host: string }
  | { effect: 'block'; name: string }
  | { effect: 'allow'; name: string; destinations: readonly string[] };

/**
 * `createdAt` in seconds since the epoch. `by` as in the audit log. `key` as in the file of `gatehouse apply`, which made or adopted it.
 * `isUnfinished`: a file made this block, and connections that it blocks may not have ended yet.
 */
export type ClientRule = RuleSubject & {
  createdAt: number;
  by?: string | undefined;
  key?: string | undefined;
  isUnfinished?: true | undefined;
};

/**
 * What a client registered, or states in its metadata document. `id` is absent before it is registered. `usesDevice`: its access goes to a device,
 * not to a redirect URI.
 */
export type App = {
  id?: string;
  name?: string;
  redirectUris: readonly string[];
  usesDevice?: boolean | undefined;
};

/** The stored name of an app that states none. */
export const UNNAMED = 'An app without a name';

export const MAX_RULES = 1000;

const RULES = 'client-rules:all';
const LOOPBACK_DESTINATION = 'loopback';
const DEVICE_DESTINATION = 'device';

type StoredRules = { rules: ClientRule[] };

/** Reads the store: a rule takes effect at once in every process. */
export async function listRules(store: Store): Promise<ClientRule[]> {
  return (await store.get<StoredRules>(RULES))?.value.rules ?? [];
}

/** The same for the same subject. */
export function ruleId(rule: RuleSubject): string {
  const subject =
    rule.effect === 'allow'
      ? [rule.effect, rule.name, ...rule.destinations]
      : [rule.effect, 'host' in rule ? rule.host : '', 'name' in rule ? rule.name : ''];
  return createHash('sha256').update(JSON.stringify(subject)).digest('hex').slice(0, 22);
}

/** The subject that an item of the audit log has in its details. Undefined if it has none. */
export function ruleSubjectIn(details: unknown): RuleSubject | undefined {
  const { effect, host, name, destinations } = membersOf(details);
  if (effect === 'block' && typeof host === 'string') return { effect, host };
  if (typeof name !== 'string') return undefined;
  if (effect === 'block') return { effect, name };
  if (effect !== 'allow' || !Array.isArray(destinations)) return undefined;
  return { effect, name, destinations: destinations.map(String) };
}

/** Resolves to `added` for the one call that added it, and to `full` if there are MAX_RULES. */
export async function addRule(
  store: Store,
  rule: ClientRule,
): Promise<'added' | 'existed' | 'full'> {
  let result: 'added' | 'existed' | 'full' = 'existed';
  await store.update<StoredRules>(RULES, (current) => {
    const rules = current?.rules ?? [];
    const exists = rules.some((known) => ruleId(known) === ruleId(rule));
    result = exists ? 'existed' : rules.length >= MAX_RULES ? 'full' : 'added';
    return result === 'added' ? { value: { rules: [...rules, rule] }, ttl: Infinity } : KEEP;
  });
  await store.replicated(RULES);
  return result;
}

/** Writes what `next` makes of each rule, in one write. `next` is pure. */
export async function changeRules(
  store: Store,
  next: (rule: ClientRule) => ClientRule,
): Promise<void> {
  await store.update<StoredRules>(RULES, (current) => {
    if (!current) return KEEP;
    return { value: { rules: current.rules.map(next) }, ttl: Infinity };
  });
  await store.replicated(RULES);
}

/** Resolves to the rule for the one call that removed it. */
export async function removeRule(store: Store, id: string): Promise<ClientRule | undefined> {
  let removed: ClientRule | undefined;
  await store.update<StoredRules>(RULES, (current) => {
    removed = current?.rules.find((rule) => ruleId(rule) === id);
    if (!current || !removed) return KEEP;
    return { value: { rules: current.rules.filter((rule) => rule !== removed) }, ttl: Infinity };
  });
  await store.replicated(RULES);
  return removed;
}

/** Whether a rule blocks the host of a redirect URI or of the metadata document, or the name. */
export function isBlocked(rules: readonly ClientRule[], app: App): boolean {
  // Normalizing the name and hosts takes as long as everything else that a list does with an app.
  if (rules.every(({ effect }) => effect !== 'block')) return false;
  const hosts = hostsOf(app);
  const name = comparableName(app.name ?? '');
  return rules.some((rule) => {
    if (rule.effect !== 'block') return false;
    if ('name' in rule) return name !== '' && comparableName(rule.name) === name;
    return hosts.some((host) => host === rule.host || host.endsWith(`.${rule.host}`));
  });
}

/**
 * Whether a rule allows each registration with this name and these destinations. Never a metadata document: anybody can publish one with the
 * name, and its host is not part of the rule.
 */
export function isAllowedApp(rules: readonly ClientRule[], app: App): boolean {
  if (app.id?.startsWith('https://')) return false;
  const destinations = destinationsOf(app);
  return rules.some(
    (rule) =>
      rule.effect === 'allow' &&
      rule.name === app.name &&
      destinations.length > 0 &&
      destinations.every((destination) => rule.destinations.includes(destination)),
  );
}

/** Hosts with ports of http(s) redirect URIs, `loopback`, `device`, and the schemes of others. */
export function destinationsOf({ redirectUris, usesDevice = false }: App): string[] {
  const destinations = redirectUris.map((uri) => {
    const url = URL.parse(uri);
    if (!url || !isHttp(url)) return url?.protocol ?? uri;
    return isLoopback(url.hostname) ? LOOPBACK_DESTINATION : url.host;
  });
  return [...new Set([...destinations, ...(usesDevice ? [DEVICE_DESTINATION] : [])])].sort();
}

/** Accents and other marks, which can be almost invisible. In other alphabets they are part of the word. */
const MARKS = /(?<=[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}])\p{M}+/gu;

/** Ignores case, Unicode form, blanks, punctuation and accents. Empty if the name has nothing else. */
export function comparableName(name: string): string {
  const folded = name.normalize('NFKC').toLowerCase().normalize('NFKD');
  return folded
    .replace(MARKS, '')
    .replace(/[^\p{L}\p{M}\p{N}]/gu, '')
    .normalize('NFKC');
}

/** A domain below a top-level domain, or an IP address. */
const BLOCKABLE = /^([\w-]+\.)+[\w-]+$|^\[[\da-f:.]+\]$/;

/**
 * The ASCII form of a host name without the dot at its end. Undefined if the text is not one host, is a top-level domain with all its hosts, or is
 * this computer.
 */
export function blockableHost(text: string): string | undefined {
  const url = /^[^\s/:?#@\\]+$/.test(text) ? URL.parse(`https://${text}`) : null;
  const host = url?.hostname.replace(/\.$/, '');
  return !host || !BLOCKABLE.test(host) || isLoopback(host) || host.length > 253 ? undefined : host;
}

function hostsOf({ id = '', redirectUris }: App): string[] {
  return [id, ...redirectUris].flatMap((uri) => {
    const host = URL.parse(uri)?.hostname.toLowerCase().replace(/\.$/, '');
    return host ? [host] : [];
  });
}

function isHttp({ protocol }: URL): boolean {
  return protocol === 'https:' || protocol === 'http:';
}
