// The audience of a connector: the people who may use it. Pure: no I/O.
import { createHmac, type KeyObject } from 'node:crypto';
import type { AudienceRule } from '../settings/entitlements.ts';

/** A connector record is read on every call. */
export const MAX_AUDIENCE_RULES = 50;

/** The textual forms of a rule, as the command line and the console accept them. */
export const AUDIENCE_FORMS =
  'email:ada@example.com, domain:example.com or group:analysts, each optionally followed by @<provider>';

/** Parses one of `AUDIENCE_FORMS`. Undefined if the text has none of them; the members are not validated. */
export function parseAudienceRule(text: string): AudienceRule | undefined {
  const [, kind, rest = ''] = /^\s*(email|domain|group):(.*?)\s*$/s.exec(text) ?? [];
  if (kind === 'email') {
    const [user, host, ...provider] = rest.split('@');
    const email = host === undefined ? rest : `${user}@${host}`;
    return { email, ...(provider.length === 0 ? {} : { provider: provider.join('@') }) };
  }
  // Groups of some providers are addresses, and ids of providers contain no at sign.
  const at = rest.lastIndexOf('@');
  const value = at < 0 ? rest : rest.slice(0, at);
  const provider = at < 0 ? {} : { provider: rest.slice(at + 1) };
  if (kind === 'domain') return { emailDomain: value, ...provider };
  return kind === 'group' ? { group: value, ...provider } : undefined;
}

/** Returns the textual form of a rule. */
export function audienceText({ email, emailDomain, group, provider }: AudienceRule): string {
  const suffix = provider === undefined ? '' : `@${provider}`;
  if (email !== undefined) return `email:${email}${suffix}`;
  return emailDomain === undefined ? `group:${group}${suffix}` : `domain:${emailDomain}${suffix}`;
}

/** Returns the rules without duplicates, in their order. */
export function distinctRules(rules: readonly AudienceRule[]): AudienceRule[] {
  const texts = rules.map(audienceText);
  return rules.filter((_, n) => texts.indexOf(texts[n] ?? '') === n);
}

/** Leaves out the name in an email address: the audit log outlives a person who is forgotten. */
export function loggableAudienceText({ email, ...rule }: AudienceRule): string {
  const address = email === undefined ? {} : { email: `…${email.slice(email.lastIndexOf('@'))}` };
  return audienceText({ ...rule, ...address });
}

const DIGEST_LENGTH = 12;

/** Tells the rules whose loggable texts are the same. Nobody without the key can find the address by guessing. */
export function audienceDigest(key: KeyObject, rule: AudienceRule): string {
  const text = `audience\n${audienceText(rule)}`;
  return createHmac('sha256', key).update(text).digest('base64url').slice(0, DIGEST_LENGTH);
}
