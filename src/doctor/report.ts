/** The names of findings, each with the question of an operator that it answers. */
export const QUESTIONS = {
  'audit-delivery': 'Do receivers get the audit log, and accept its signatures?',
  'audit-integrity': 'Is the audit log as it was written?',
  'audit-reach': 'How far back does the audit log have calls?',
  audiences: 'Do the rules about who may use a connector still match people?',
  'caller-headers': 'Does the MCP server know that Gatehouse says who calls?',
  callback: 'Will the identity provider send people back to Gatehouse?',
  certificate: 'Do apps and browsers trust the certificates, and for how long?',
  challenge: 'Does an app learn from a connect link where to sign in?',
  'client-keys': 'Can apps of the settings authenticate with the keys at their address?',
  'client-secret': 'Does the identity provider accept the client secret?',
  clock: 'Do the clocks agree?',
  commands: 'May Gatehouse use every command of Redis that it needs?',
  cookies: 'Do browsers keep the cookies?',
  cors: 'May apps that run on web pages call Gatehouse?',
  credential: 'Can people connect their own accounts at the MCP server?',
  discovery: 'Do apps find the metadata documents?',
  'document-guard': 'Are internal servers safe from requests for metadata documents?',
  ends: 'What ends within 14 days?',
  edge: 'Do hosted apps get the same answers as others?',
  entitlements: 'Do rules match the people who are meant?',
  eviction: 'Does Redis keep every record?',
  'forward-proxy': 'Which servers are reached through the proxy of the network?',
  forwarded: 'Do proxies pass the addresses of clients on?',
  headers: 'Do proxies pass security headers on?',
  host: 'Do proxies keep the Host header?',
  'identity-provider': 'Can people sign in?',
  'identity-provider-issuer': 'Is this the identity provider of the settings?',
  issuer: 'Do the documents name the addresses of the settings?',
  'issuer-keys': 'Can the assertions of trusted issuers be verified?',
  latency: 'Is Redis fast enough?',
  levels: 'Does every link have a level, and every level a text?',
  management: 'Is the management API kept off the internet?',
  memory: 'Has Redis enough memory?',
  persistence: 'Does Redis keep its records over a crash?',
  reach: 'Do the public addresses reach Gatehouse?',
  ready: 'Can the process serve requests?',
  recheck: 'Does Gatehouse notice that a person has left?',
  'redis-version': 'Is Redis new enough?',
  replicas: 'Does a failover keep every write?',
  replication: 'Does a failover keep revocations?',
  secret: 'Is this the root secret of the store?',
  'secret-file': 'May other users read files with secrets?',
  'app-documents': 'Can the metadata documents of the apps be fetched?',
  settings: 'Do the settings do what is meant?',
  'step-up': 'Do all providers require the same sign-in for high levels?',
  store: 'Can Gatehouse use its store?',
  streams: 'Do streams arrive while they are made?',
  tools: 'Has every tool of the MCP server the level that is meant?',
  traces: 'Do traces arrive?',
  upstream: 'Does the MCP server answer Gatehouse?',
} as const;

export type CheckName = keyof typeof QUESTIONS;

/** `unknown`: could not be checked. `note`: may be intended. `warning`: may cause failures later. `problem`: causes failures now. */
export const OUTCOMES = ['ok', 'unknown', 'note', 'warning', 'problem'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export type Finding = {
  check: CheckName;
  /** What was checked: an address or the name of a setting. */
  about: string;
  outcome: Outcome;
  what: string;
  why?: string;
  remedy?: string;
};

/** Clauses without a capital letter at the start and without a full stop. */
type Explanation = { what: string; why: string; remedy: string };

/** What a check returns. The values between findings stand for rows that do not apply. */
export type Findings = Finding | false | undefined | readonly Findings[];

/** Creates findings of one check about one subject. */
export type FindingFactory = ReturnType<typeof findingAbout>;

export function findingAbout(check: CheckName, about: string) {
  const explained =
    (outcome: Outcome) =>
    (explanation: Explanation): Finding => ({ check, about, outcome, ...explanation });
  return {
    ok: (what: string): Finding => ({ check, about, outcome: 'ok', what }),
    unknown: (what: string): Finding => ({ check, about, outcome: 'unknown', what }),
    note: explained('note'),
    warning: explained('warning'),
    problem: explained('problem'),
  };
}

export function flatten(findings: Findings): Finding[] {
  if (!findings) return [];
  return 'check' in findings ? [findings] : findings.flatMap(flatten);
}

const SHOWN = 5;

/** Lists the first few items, and the number of the others. */
export function someOf(items: readonly string[]): string {
  const more = items.length - SHOWN;
  return items.slice(0, SHOWN).join(', ') + (more > 0 ? ` and ${more} more` : '');
}

export function okIfNone(findings: Findings, ok: Finding): Finding[] {
  const found = flatten(findings);
  return found.length > 0 ? found : [ok];
}

/** Such as `1 connector` and `2 connectors`. */
export function counted(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}

export type Report = {
  outcome: 'ok' | 'found';
  authUrl?: string;
  resourceUrl?: string;
  counts: Record<Outcome, number>;
  findings: Finding[];
};

type Addresses = { authUrl?: string; resourceUrl?: string };

/** The outcome is `found` if there is a problem or a warning. */
export function createReport(addresses: Addresses, findings: Finding[]): Report {
  const count = (outcome: Outcome) =>
    findings.filter((finding) => finding.outcome === outcome).length;
  const counts = Object.fromEntries(OUTCOMES.map((outcome) => [outcome, count(outcome)])) as Record<
    Outcome,
    number
  >;
  const outcome = counts.problem + counts.warning > 0 ? 'found' : 'ok';
  return { outcome, ...addresses, counts, findings };
}

/** Leaves out passed checks unless `showPassed` is true. */
export function reportText({ counts, findings }: Report, showPassed: boolean): string {
  const shown = findings.filter(({ outcome }) => showPassed || outcome !== 'ok');
  return [...shown.map(findingText), summary(counts)].join('\n\n');
}

const TITLES: Record<Outcome, string> = {
  ok: 'OK',
  unknown: 'NOT CHECKED',
  note: 'NOTE',
  warning: 'WARNING',
  problem: 'PROBLEM',
};

function findingText({ check, about, outcome, what, why, remedy }: Finding): string {
  const lines = [
    `${TITLES[outcome]}  ${check}, ${about}`,
    `  ${sentence(what)}`,
    ...(why === undefined ? [] : [`  Why it matters: ${why}.`]),
    ...(remedy === undefined ? [] : [`  What to do: ${remedy}.`]),
  ];
  return lines.map(printable).join('\n');
}

/** Findings quote other servers, whose text must not move the cursor or start a new line. */
function printable(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ');
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function summary({ ok, unknown, note, warning, problem }: Report['counts']): string {
  const others = Object.entries({ problem, warning, note });
  return `${[
    `${ok} of ${ok + unknown + note + warning + problem} checks passed`,
    ...others.flatMap(([word, count]) => (count > 0 ? counted(count, word) : [])),
    ...(unknown > 0 ? [`${unknown} not checked`] : []),
  ].join(', ')}.`;
}
