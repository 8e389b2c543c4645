import { statSync } from 'node:fs';
import { type Level, levelIds, type Levels } from '../permission-levels.ts';
import type { Administrator, Entitlement } from '../settings/entitlements.ts';
import { proxyFor, shownProxy } from '../settings/forward-proxy.ts';
import { refusedPrograms } from '../links/app-instructions.ts';
import type { Settings } from '../settings/settings.ts';
import { writeDuration } from '../settings/value-types.ts';
import type { ConfiguredDeployment } from './deployment.ts';
import { findingAbout, type Findings, okIfNone } from './report.ts';

/** Reports settings that are valid but may be unintended. */
export function checkSettings({ settings }: ConfiguredDeployment): Findings {
  const { entitlements, levels, management } = settings;
  return [
    okIfNone(
      entitlements.map((rule, n) => publicEntitlement(levels, rule, n)),
      findingAbout('settings', 'entitlements').ok('no rule admits strangers'),
    ),
    registrationFinding(settings),
    lifetimeFindings(settings),
    logLevelFinding(settings),
    management.administrators.map(broadAdministrators),
    secretFileFindings(settings),
    forwardProxyFinding(settings),
    limitFindings(settings),
    audienceFindings(settings),
  ];
}

/** Limits that are valid each for itself, and of which one has no effect beside the other. */
function limitFindings({
  resourceServer: { heartbeat, heldBytes },
  upstreams,
  limits: { calls },
}: Settings): Findings {
  const limits = [
    ['resourceServer.heldBytes', heldBytes] as const,
    ...upstreams.map(({ setting, openCalls }) => [`${setting}.openCalls`, openCalls] as const),
  ];
  return [
    hasUnusedCallLimit(calls) &&
      findingAbout('settings', 'limits.calls.perConnection').warning({
        what: 'limits.calls.perPerson refuses calls before perConnection does',
        why: 'perConnection has no effect on people',
        remedy: 'set perConnection to a part of perPerson',
      }),
    limits.map(
      ([setting, { perCaller, inAll }]) =>
        perCaller > inAll &&
        findingAbout('settings', setting).warning({
          what: `perCaller (${perCaller}) is larger than inAll (${inAll})`,
          why: 'perCaller has no effect, so one caller can take the share of all others',
          remedy: 'set perCaller to a part of inAll',
        }),
    ),
    upstreams.map(
      ({ setting, silence }) =>
        heartbeat >= silence &&
        findingAbout('settings', 'resourceServer.heartbeat').warning({
          what: `heartbeat (${heartbeat} s) is not shorter than ${setting}.silence (${silence} s)`,
          why: 'an idle stream is closed before its first comment, so heartbeat has no effect',
          remedy: 'set heartbeat to a part of silence, such as 25s',
        }),
    ),
  ];
}

/** No window of a connection allows more calls than the rest of the person's window. */
function hasUnusedCallLimit({ perPerson, perConnection }: Settings['limits']['calls']): boolean {
  if (!perPerson || !perConnection) return false;
  return perPerson.count <= perConnection.count && perPerson.seconds >= perConnection.seconds;
}

/** The other audience can present the JWTs that it receives here too. */
function audienceFindings({ authorization }: Settings): Findings {
  return authorization.trustedIssuers.map(
    ({ audiences }, n) =>
      audiences.length > 0 &&
      findingAbout('settings', `authorization.trustedIssuers[${n}].audiences`).warning({
        what: `JWTs for ${audiences.join(', ')} are accepted from workloads`,
        why: 'others that receive such a JWT can use it here',
        remedy:
          'let the platform name this authorization server as the audience, if it can, and remove audiences',
      }),
  );
}

/** Says which servers are reached through the proxy of the network. */
function forwardProxyFinding({ forwardProxy, identityProviders, upstreams }: Settings): Findings {
  if (forwardProxy.http === undefined && forwardProxy.https === undefined) return undefined;
  const urls = [
    ...identityProviders.map(({ issuer }) => issuer),
    ...upstreams.map(({ url }) => url),
    'https://metadata-documents-of-apps',
  ];
  const ways = Map.groupBy(urls, (url) => {
    const proxy = proxyFor(url, forwardProxy);
    return proxy === undefined ? 'directly' : `through ${shownProxy(proxy)}`;
  });
  const shown = [...ways].map(
    ([way, of]) => `${way}: ${of.map((url) => new URL(url).host).join(', ')}`,
  );
  return findingAbout('forward-proxy', 'HTTPS_PROXY').ok(
    `Gatehouse sends requests ${shown.join('; ')}`,
  );
}

/** Reports modes in which nobody can connect a new app, or nobody signs in to allow one. */
function registrationFinding({ clients, management }: Settings): Findings {
  const finding = findingAbout('settings', 'clients.registration');
  const { registration, preRegistered, metadataDocuments, metadataDocumentHosts = [] } = clients;
  const listed = [...preRegistered, ...metadataDocuments, ...metadataDocumentHosts];
  if (registration === 'closed' && listed.length === 0)
    return finding.warning({
      what: 'registration is closed, and the settings list no app',
      why: 'nobody can connect an app that is not connected already',
      remedy:
        'add apps to clients.preRegistered, clients.metadataDocuments or clients.metadataDocumentHosts, or set clients.registration to approval',
    });
  if (registration === 'approval' && management.administrators.length === 0)
    return finding.note({
      what: 'new apps wait for an administrator, and the console has none',
      why: 'only the command line and the API can allow them, so people may wait long',
      remedy:
        'add management.administrators, or look at gatehouse client list --state waiting regularly',
    });
  const refused = refusedPrograms(clients);
  const omitted =
    refused.length > 0 ? `; connect pages leave out ${refused.join(', ')}, which it refuses` : '';
  return finding.ok(`registration is ${registration}${omitted}`);
}

const OTHER_USERS = 0o007;
/** Every process of a container may read them. */
const CONTAINER_SECRETS = /^\/(var\/)?run\/secrets\//;

function secretFileFindings({ secretFile, managementKeys }: Settings): Findings {
  const warning = (setting: string, file: string | undefined, may: string) =>
    file !== undefined &&
    mayOthersUse(file) &&
    findingAbout('secret-file', setting).warning({
      what: `other users of this computer may use ${file}`,
      why: `a user who reads it ${may}`,
      remedy: `chmod 600 ${file}`,
    });
  return okIfNone(
    [
      warning('secretFile', secretFile, 'can read the store and manage Gatehouse'),
      managementKeys.map(({ file, setting, name, role }) =>
        warning(setting, file, `has the role ${role} as key:${name}`),
      ),
    ],
    findingAbout('secret-file', 'secretFile').ok('no other user may use a file with secrets'),
  );
}

/** On Windows, the mode says nothing about other users. */
function mayOthersUse(file: string): boolean {
  const isChecked = process.platform !== 'win32' && !CONTAINER_SECRETS.test(file);
  return isChecked && (statSync(file).mode & OTHER_USERS) !== 0;
}

const PUBLIC_MAIL =
  /^(gmail|googlemail|outlook|hotmail|live|yahoo|icloud|proton|protonmail|gmx|aol)\./i;

function publicEntitlement(
  levels: Levels,
  { match: { anyone, emailDomain }, level }: Entitlement,
  index: number,
): Findings {
  const finding = findingAbout('settings', `entitlements[${index}]`);
  const isPublicDomain = PUBLIC_MAIL.test(emailDomain ?? '');
  if (!anyone && !isPublicDomain) return undefined;
  const isHigh = isPublicDomain || isInUpperHalf(levels, level);
  return finding[isHigh ? 'warning' : 'note']({
    what: `everybody ${anyone ? 'who can sign in at the identity provider' : `with an address at ${emailDomain}`} may have ${level}`,
    why: 'strangers and guests at the identity provider have this level too',
    remedy: 'if this is not intended, match groups, your own domains or people instead',
  });
}

/** A whole company should not manage Gatehouse, and strangers should not even read there. */
function broadAdministrators({ emailDomain, role }: Administrator, index: number): Findings {
  return (
    emailDomain !== undefined &&
    (role !== 'viewer' || PUBLIC_MAIL.test(emailDomain)) &&
    findingAbout('settings', `management.administrators[${index}]`).warning({
      what: `everybody with an address at ${emailDomain} has the role ${role} in the console`,
      why:
        role === 'viewer'
          ? 'they read who connected what, and the audit log'
          : 'each of them can create connectors and minted tokens, and disconnect people',
      remedy: 'match a group or people instead, or set role: viewer for colleagues who only read',
    })
  );
}

function isInUpperHalf(levels: Levels, level: Level): boolean {
  return levelIds(levels).indexOf(level) >= levels.length / 2;
}

const HOUR_SECONDS = 3600;
const DAY_SECONDS = 86_400;
const LONG_LIFETIMES = {
  accessToken: 4 * HOUR_SECONDS,
  refreshTokenIdle: 90 * DAY_SECONDS,
  refreshTokenAbsolute: 366 * DAY_SECONDS,
};

function lifetimeFindings({ lifetimes, raisedUsedClient }: Settings): Findings {
  const names = Object.keys(LONG_LIFETIMES) as (keyof typeof LONG_LIFETIMES)[];
  const found = names.map(
    (name) =>
      lifetimes[name] > LONG_LIFETIMES[name] &&
      findingAbout('settings', `lifetimes.${name}`).note({
        what: `the lifetime is ${writeDuration(lifetimes[name])}`,
        why: 'leaked and forgotten tokens work for this long',
        remedy: 'use the default (1h, 30d, 90d), unless you need it',
      }),
  );
  const raised =
    raisedUsedClient !== undefined &&
    findingAbout('settings', 'lifetimes.usedClient').warning({
      what: `it is ${writeDuration(raisedUsedClient)}, shorter than refreshTokenIdle, which applies to it`,
      why: 'an app would go on with a registration that is no longer known, and people would have to remove it and add it again',
      remedy: `set it to ${writeDuration(lifetimes.refreshTokenIdle)} or more`,
    });
  const all = names.map((name) => `${name} ${writeDuration(lifetimes[name])}`).join(', ');
  return okIfNone([...found, raised], findingAbout('settings', 'lifetimes').ok(all));
}

function logLevelFinding({ production, logLevel }: Settings): Findings {
  return (
    production &&
    /^(trace|debug|silent)$/.test(logLevel) &&
    findingAbout('settings', 'logLevel').note({
      what: `the log level is ${logLevel}`,
      why:
        logLevel === 'silent'
          ? 'the log does not show why something fails'
          : 'the log fills with details',
      remedy: 'set logLevel to info',
    })
  );
}
