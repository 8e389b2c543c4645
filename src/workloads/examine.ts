// Explains what the JWT of a workload would get, without giving or using anything.
import { rootMessage } from '../error-causes.ts';
import { connectorIdOf, connectLink } from '../links/connect-link.ts';
import type { Connector } from '../links/connector.ts';
import { findConnector, listConnectors } from '../links/connectors.ts';
import type { TrustedIssuer } from '../settings/identity-provider-schema.ts';
import type { Settings } from '../settings/settings.ts';
import type { WorkloadRule } from '../settings/workloads.ts';
import type { Store } from '../store/store.ts';
import { type FoundRule, matchingRule, refusalOfRule, rulesAbout } from './find-rule.ts';
import { KeysUnavailable, signatureOfWorkload } from './issuer-keys.ts';
import {
  type Check,
  claimChecks,
  type Claims,
  HEADER_CHECKS,
  type UnmatchedClaim,
  unmatchedClaims,
  WORKLOAD_ERRORS,
  type WorkloadErrorCode,
  WorkloadRefused,
} from './validation.ts';
import { decodeWorkload, usedAssertionKey } from './verify.ts';

/** `error` says why the check failed. */
export type ExaminedCheck = { name: string; value?: unknown; error?: string };

export type ExaminedRule = {
  rule: WorkloadRule;
  /** The connect link, if the rule names one that exists. */
  link?: string;
  unmatched: UnmatchedClaim[];
  error?: string;
};

export type Examination = {
  /** One of the rules gives a token for it. */
  isAccepted: boolean;
  issuer?: TrustedIssuer;
  checks: ExaminedCheck[];
  /** Of the issuer, about the resource if there is one. */
  rules: ExaminedRule[];
};

export type ExamineOptions = {
  settings: Settings;
  store: Store;
  now: () => number;
  /** A connect link. */
  resource?: string | undefined;
};

/** Fetches the keys of the issuer anew. Throws WorkloadRefused if it is no JWT. */
export async function examineWorkload(
  assertion: string,
  options: ExamineOptions,
): Promise<Examination> {
  const { settings, store, now } = options;
  const { header, claims } = decodeWorkload(assertion);
  const issuer = settings.authorization.trustedIssuers.find(
    ({ issuer: name, workloads }) => name === claims['iss'] && workloads.length > 0,
  );
  const checks = [
    ...outcomesOf(HEADER_CHECKS, header),
    failedIf(issuer === undefined, { name: 'iss', value: claims['iss'] }, 'unknown_issuer'),
  ];
  if (!issuer) return { isAccepted: false, checks, rules: [] };
  const expected = { issuer, authUrl: settings.authUrl, now: now() };
  checks.push(
    ...outcomesOf(claimChecks(expected), claims),
    await examineSignature(issuer, assertion, options),
  );
  if (issuer.singleUse) {
    const isUsed = await store.get(usedAssertionKey(issuer, claims, assertion));
    checks.push(failedIf(isUsed !== undefined, { name: 'single use' }, 'replayed'));
  }
  const rules = await examineRules(issuer, claims, options);
  const isSound = checks.every(({ error }) => error === undefined);
  const isAccepted = isSound && rules.some(({ error }) => error === undefined);
  return { isAccepted, issuer, checks, rules };
}

function outcomesOf<Of>(checks: readonly Check<Of>[], jwt: Of): ExaminedCheck[] {
  return checks.map(({ name, reason, shown, isPassed }) =>
    failedIf(!isPassed(jwt), { name, value: shown(jwt) }, reason),
  );
}

function failedIf(
  isFailed: boolean,
  check: ExaminedCheck,
  reason: WorkloadErrorCode,
): ExaminedCheck {
  return isFailed ? { ...check, error: WORKLOAD_ERRORS[reason].description } : check;
}

async function examineSignature(
  issuer: TrustedIssuer,
  assertion: string,
  { settings: { forwardProxy }, now }: ExamineOptions,
): Promise<ExaminedCheck> {
  const check = { name: 'signature' };
  try {
    const reason = await signatureOfWorkload(issuer, { forwardProxy, now })(assertion);
    return reason ? failedIf(true, check, reason) : check;
  } catch (error) {
    if (!(error instanceof KeysUnavailable)) throw error;
    // The keys were fetched for this, so an unknown key is no newer than they are.
    const why = error.cause === undefined ? 'the issuer publishes no key with its kid' : undefined;
    return { ...check, error: why ?? `${error.message}: ${rootMessage(error)}` };
  }
}

/** Also rules that were ended, and those that name no connector. */
async function examineRules(
  issuer: TrustedIssuer,
  claims: Claims,
  { settings, store, now, resource }: ExamineOptions,
): Promise<ExaminedRule[]> {
  const id = resource === undefined ? undefined : connectorIdOf(settings.resourceUrl, resource);
  const named = id === undefined ? undefined : await findConnector(store, id);
  const all = resource === undefined ? await listConnectors(store) : named ? [named] : [];
  const isAbout = ({ id: connectorId, name }: Connector, rule: WorkloadRule) =>
    rule.connector === connectorId || rule.connector === name;
  const rules = issuer.workloads.filter(
    (rule) => resource === undefined || all.some((connector) => isAbout(connector, rule)),
  );
  const connectors = all.filter((connector) => rules.some((rule) => isAbout(connector, rule)));
  const found = await Promise.all(
    connectors.map((connector) => rulesAbout(store, issuer, connector)),
  );
  return rules.map((rule) => {
    const group = found.find((each) => each.some((candidate) => candidate.rule === rule));
    const own = group?.find((candidate) => candidate.rule === rule);
    const unmatched = unmatchedClaims(rule, claims);
    if (!group || !own)
      return { rule, unmatched, error: 'its connector does not exist, or the rule was ended' };
    const link = connectLink(settings.resourceUrl, own.connector.id);
    const error = refusalIn(group, own, claims, now(), settings);
    return { rule, link, unmatched, ...(error === undefined ? {} : { error }) };
  });
}

function refusalIn(
  group: readonly FoundRule[],
  own: FoundRule,
  claims: Claims,
  now: number,
  settings: Settings,
): string | undefined {
  if (unmatchedClaims(own.rule, claims).length > 0) return 'a claim does not match';
  try {
    const reason = refusalOfRule(matchingRule(group, claims), now, settings);
    return reason && WORKLOAD_ERRORS[reason].description;
  } catch (error) {
    if (error instanceof WorkloadRefused) return error.message;
    throw error;
  }
}
