// Items of the audit log as sentences that name people, apps and connectors, each with a link to its page.
import { ACCOUNT_ID } from '../../people/account.ts';
import type { AuditItem } from '../../audit/audit.ts';
import type { AuditName } from '../../audit/search-cache.ts';
import { isMachineSubject } from '../../connections/machine-subject.ts';
import type { ViewValues } from '../../pages/pages.ts';
import {
  accountIdIn,
  type AuditNames,
  detailsOf,
  findAuditNames,
  isAccount,
} from '../audit-names.ts';
import type { ManagementContext } from '../context.ts';
import { CONSOLE_PATH, recordPath } from './address.ts';
import { findUpstream } from '../../settings/upstreams.ts';
import { isWorkloadSubject } from '../../settings/workloads.ts';
import { codeField, epochSeconds, translatedField } from '../resources/fields.ts';

export type ConsoleEvent = ViewValues['console/record']['history'][number];
type Field = ConsoleEvent['fields'][number];
type Name = Exclude<ConsoleEvent['values'][string], string>;

/** Names by id, with the address of the page of each. */
type Names = Map<string, AuditName & { href?: string }>;
type AllNames = Record<keyof AuditNames, Names>;

/** Ended connections are kept for 30 days, so that all with a later event have a page. */
const CONNECTION_PAGE_SECONDS = 29 * 86_400;
const KEY = 'key:';

/** `found` are the names of the items, if they are known. */
export async function describeAudit(
  management: ManagementContext,
  items: readonly AuditItem[],
  found?: AuditNames,
): Promise<ConsoleEvent[]> {
  const names = withPages(found ?? (await findAuditNames(management, items)));
  const pagesSince = management.services.now() - CONNECTION_PAGE_SECONDS;
  return items.map((item) => {
    const details = detailsOf(item);
    const { level } = details;
    const said = saidOutcome(item);
    const isDoubtful = DOUBTFUL.includes(item.outcome);
    return {
      time: epochSeconds(item.time),
      event: item.event,
      textKey: `console.sentences.${sentenceOf(item)}`,
      by: manager(item, names),
      values: {
        ...owners(item, names),
        ...program(item, names),
        tool: code(item.tool ?? item.method),
        server: serverOf(management, item),
        change: details.change ?? 'none',
        token: named(details.name),
        host: code(details.host),
        target: code(details.target),
        effect: details.effect ?? 'none',
        read: details.read ?? 'none',
        reason: item.reason ?? 'none',
        outcome: item.outcome,
      },
      ...(level === undefined ? {} : { level }),
      ...(item.reason === undefined
        ? {}
        : { causeKey: `${textsOfReason(item).causes}.${item.reason}` }),
      ...(said && !isDoubtful
        ? {}
        : { outcome: translatedField('outcome', item.outcome, OUTCOMES) }),
      isDoubtful,
      fields: fieldsOf(item, names, pagesSince),
    };
  });
}

const OUTCOMES = 'console.outcomes';
const REASONS = 'console.reasons';

/** The sentence of each event says that it succeeded, and of these also that it was refused. */
const SAID = [
  'allowed',
  'answered',
  'denied',
  'dropped',
  'trimmed',
  'done',
  'granted',
  'grant_ended',
];
/** Shown as a badge, even if the sentence says it. */
const DOUBTFUL = ['refused', 'failed'];
const SAID_REFUSALS = [
  'workload_refused',
  'access_refused',
  'console_sign_in',
  'signed_in',
  'step_up_failed',
];

function saidOutcome({ event, outcome }: AuditItem): boolean {
  return SAID.includes(outcome) || (outcome === 'refused' && SAID_REFUSALS.includes(event));
}

/** Sentences about the connection of a machine name no person. */
function sentenceOf({ event, account = '' }: AuditItem): string {
  if (event === 'grant_ended' && isMachineSubject(account)) return 'machine_ended';
  return event === 'grant_vouched' && isWorkloadSubject(account) ? 'workload_connected' : event;
}

/** The reasons of workloads are about JWTs, and the same words have other meanings for people. */
function textsOfReason({ event }: AuditItem): { causes: string; reasons: string } {
  return event === 'workload_refused'
    ? { causes: 'console.workloads.causes', reasons: 'console.workloads.causes' }
    : { causes: 'console.causes', reasons: REASONS };
}

function withPages({ people, apps, connectors, tokens }: AuditNames): AllNames {
  const linked = (names: AuditNames['people'], hrefOf: (id: string) => string): Names =>
    new Map(
      [...names].map(([id, name]) => [id, name.isKnown ? { ...name, href: hrefOf(id) } : name]),
    );
  return {
    people: linked(people, (id) => recordPath('accounts', id)),
    apps: linked(apps, (id) => recordPath('clients', id)),
    connectors: linked(connectors, (id) => recordPath('connectors', id)),
    tokens: linked(tokens, () => `${CONSOLE_PATH}/tokens`),
  };
}

function owners(item: AuditItem, names: AllNames): ConsoleEvent['values'] {
  const { account, clientId, connector } = item;
  const { name, client = name } = detailsOf(item);
  const app = link(names.apps.get(clientId ?? ''), 'claim');
  const missing = item.event === 'call' && connector === undefined ? 'none' : 'deleted';
  return {
    person: link(names.people.get(account ?? ''), 'name') ?? 'deleted',
    app: app ? { ...app, text: client ?? app.text } : named(client, 'claim', 'deleted'),
    connector: link(names.connectors.get(connector ?? ''), 'name') ?? missing,
  };
}

/** Who called a tool: an app for a person, or a program with a token or a client of its own. */
function program({ account = '', clientId = '' }: AuditItem, names: AllNames) {
  const own = names.tokens.get(account) ?? names.apps.get(clientId);
  return {
    caller: ACCOUNT_ID.test(account) ? 'person' : 'program',
    program: link(own, 'name') ?? 'deleted',
  };
}

/** Earlier items have the account id alone, or nothing for the key. */
function manager({ by }: AuditItem, { people }: AllNames): ConsoleEvent['by'] {
  if (by === undefined) return { kind: 'unnamed' };
  if (by.startsWith(KEY)) return { kind: 'key', text: by.slice(KEY.length) };
  const person = people.get(accountIdIn(by));
  if (!person) return { kind: 'deleted' };
  const { text, href } = person;
  return { kind: 'person', text, ...(href === undefined ? {} : { href }) };
}

function link(found: ReturnType<Names['get']>, tag: Name['tag']): Name | undefined {
  if (!found) return undefined;
  const { text, href } = found;
  return { tag, text, ...(href === undefined ? {} : { href }) };
}

/** The name of the server, as a link to the review of its changes. The id alone if the settings no longer have it. */
function serverOf({ settings }: ManagementContext, { upstream: id }: AuditItem): Name | 'none' {
  if (id === undefined) return 'none';
  const upstream = findUpstream(settings.upstreams, { upstream: id });
  if (!upstream) return { tag: 'code', text: id };
  const href = `${CONSOLE_PATH}/servers/${encodeURIComponent(id)}/review`;
  return { tag: 'name', text: upstream.name, href };
}

function named(text: string | undefined, tag: Name['tag'] = 'name', missing = 'none') {
  return text === undefined ? missing : { tag, text };
}

function code(text: string | undefined) {
  return named(text, 'code');
}

const CALL_FIELDS = [
  'tool',
  'method',
  'target',
  'upstream',
  'level',
  'toolError',
  'count',
  'ms',
  'bytesIn',
  'bytesOut',
  'address',
  'userAgent',
  'clientName',
  'subject',
  'traceId',
] as const;

function fieldsOf(item: AuditItem, names: AllNames, pagesSince: number): Field[] {
  const { event, time, outcome, reason, by, account, clientId, connector, grantId } = item;
  const { people, apps, connectors, tokens } = names;
  // A connection that was denied at once has no page.
  const hasPage = epochSeconds(time) > pagesSince && event !== 'consent_denied';
  const grant = hasPage && grantId !== undefined ? { href: recordPath('grants', grantId) } : {};
  return [
    codeField('event', event),
    codeField('time', time),
    ...(outcome === event ? [] : [translatedField('outcome', outcome, OUTCOMES)]),
    ...(reason === undefined
      ? []
      : [translatedField('reason', reason, textsOfReason(item).reasons)]),
    ...namedField('by', by, people.get(accountIdIn(by ?? ''))),
    ...(isAccount(account) ? namedField('person', account, people.get(account)) : []),
    ...namedField('client', clientId, apps.get(clientId ?? '') ?? tokens.get(clientId ?? '')),
    ...namedField('connector', connector, connectors.get(connector ?? '')),
    ...(grantId === undefined ? [] : [{ ...codeField('grant', grantId), ...grant }]),
    ...CALL_FIELDS.flatMap((name) =>
      item[name] === undefined ? [] : [codeField(name, String(item[name]))],
    ),
    ...argumentsField(item),
  ];
}

/** Earlier calls have their arguments as a value. */
function argumentsField({ arguments: given, argumentsJson }: AuditItem): Field[] {
  const text = argumentsJson ?? (given === undefined ? undefined : JSON.stringify(given));
  return text === undefined ? [] : [codeField('arguments', text)];
}

function namedField(
  label: string,
  id: string | undefined,
  found: ReturnType<Names['get']>,
): Field[] {
  if (id === undefined) return [];
  return [{ label, code: id, name: found?.detail ?? found?.text, href: found?.href }];
}
