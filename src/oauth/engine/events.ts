// Follow-ups of grant changes (uses, client records, security events), and log details of the engine's errors.
import type { KoaContextWithOIDC, Provider } from 'oidc-provider';
import type { Logger } from 'pino';
import { type AuditServices, recordAudit } from '../../audit/audit.ts';
import { redeemerOf } from '../../links/connector.ts';
import { commitReservedUse } from '../../links/connectors.ts';
import type { UseRecorder } from '../../links/use-recorder.ts';
import { rootMessage } from '../../error-causes.ts';
import { wasExchanged } from '../../connections/grant-lifetime.ts';
import type { Clients } from './clients.ts';
import { engineRequest, noteAttempt } from './engine-request.ts';
import type { GrantModelOptions } from './models/options.ts';
import { grantedLevel, type GrantRecord } from '../../connections/grant-record.ts';
import type { AttemptRecorder } from '../../connections/attempt-recorder.ts';
import { auditMembers } from '../../connections/connections.ts';
import type { Settings } from '../../settings/settings.ts';
import { clientSubnet, recordedAddress } from '../../http/client-subnet.ts';
import { requestContext } from '../../http/request-context.ts';

export type GrantEventOptions = AuditServices & {
  logger: Logger;
  clients: Clients;
  uses: UseRecorder;
  addresses: Settings['audit']['addresses'];
  attempts: AttemptRecorder;
};

/**
 * Except in `onApproved`, errors are logged and do not fail the request: the code or refresh token is already consumed, and the client needs
 * the response.
 */
export function grantEvents({
  logger,
  clients,
  uses,
  addresses,
  attempts,
  ...services
}: GrantEventOptions): Pick<
  GrantModelOptions,
  'onApproved' | 'onEnded' | 'onExchanged' | 'onLowered' | 'onRefreshed'
> {
  const attempt = async (what: string, work: Promise<unknown>) => {
    await work.catch((error: unknown) =>
      logger.error({ err: error, what }, 'a task after the token response failed'),
    );
  };
  return {
    async onApproved(grantId, record) {
      const { name, redirectHost } = record.client;
      await recordAudit(services, {
        event: 'consent_approved',
        ...auditMembers(grantId, record),
        arguments: {
          level: grantedLevel(record),
          client: name,
          redirectHost,
          ...deviceOf(record, addresses),
        },
        outcome: 'granted',
      });
    },
    async onEnded(grantId, record, reason) {
      const event = reason.endsWith('_replay') ? reason : 'grant_ended';
      const item = { event, ...auditMembers(grantId, record) };
      // Only the audit log, which is encrypted, names the account.
      logger[event === 'grant_ended' ? 'info' : 'warn']({ event, reason }, 'a grant ended');
      await Promise.all([
        attempt('audit', recordAudit(services, { ...item, outcome: 'grant_ended', reason })),
        wasExchanged(record) &&
          attempt('use', commitReservedUse(services.store, record.connector, grantId)),
      ]);
    },
    onExchanged(grantId, { grant, connector }) {
      attempts.note({ grant: grantId }, { step: 'token' });
      uses.record(connector, { holder: redeemerOf(grant.accountId, grant.clientId), grantId });
    },
    onLowered(grantId, record) {
      const item = { event: 'level_lowered', ...auditMembers(grantId, record) };
      const level = { level: grantedLevel(record) };
      const reason = 'dpop_required';
      void attempt(
        'audit',
        recordAudit(services, { ...item, arguments: level, outcome: 'done', reason }),
      );
    },
    async onRefreshed(_grantId, { grant }) {
      await attempt('client', clients.touch(grant.clientId));
    },
  };
}

/** The network of the device that asked (RFC 8628), which may be another than the person's. */
function deviceOf(
  { code }: GrantRecord,
  addresses: Settings['audit']['addresses'],
): { network?: string } {
  const info = code?.payload.deviceInfo as { address?: string } | undefined;
  if (info?.address === undefined || addresses === 'none') return {};
  return {
    network:
      addresses === 'full'
        ? clientSubnet(info.address)
        : (recordedAddress(info.address, addresses) ?? 'unknown'),
  };
}

const REFUSALS = [
  'authorization.error',
  'device_authorization.error',
  'device_resume.error',
  'grant.error',
  'registration_create.error',
  'revocation.error',
  'server_error',
];

type Refusal = Error & { error?: string; error_detail?: string; error_description?: string };

const ATTEMPT_EVENTS = [
  'interaction.started',
  'interaction.ended',
  'authorization.success',
  'authorization.error',
];

/** The `cid` of interactions stays when the next prompt starts another one. */
function noteAuthorization(ctx: Pick<KoaContextWithOIDC, 'state' | 'oidc'>): void {
  const { Interaction: interaction, Client: client } = ctx.oidc?.entities ?? {};
  noteAttempt(ctx, {
    ...(interaction?.cid === undefined ? {} : { id: interaction.cid }),
    ...(client ? { client: client.clientId, clientName: client.clientName } : {}),
  });
}

function noteUnknownClient(ctx: Pick<KoaContextWithOIDC, 'state' | 'oidc'>, error: Refusal): void {
  const { client_id: id } = ctx.oidc?.params ?? {};
  if (error.error === 'invalid_client' && !ctx.oidc?.client && typeof id === 'string')
    engineRequest(ctx).unknownClient = id;
}

function noteRefusedRegistration(ctx: Pick<KoaContextWithOIDC, 'state' | 'oidc'>): void {
  const { client_name: name, redirect_uris: redirectUris } = ctx.oidc?.body ?? {};
  engineRequest(ctx).refusedRegistration = { name, redirectUris };
}

/** For the metrics. */
function recordGrantType(ctx: Pick<KoaContextWithOIDC, 'state' | 'oidc'>): void {
  engineRequest(ctx).grantType = ctx.oidc?.params?.grant_type;
}

/** The response has a code and a safe description; the request's log line also has the detail. */
export function logRefusals(provider: Provider, logger: Logger): void {
  const emitter = provider as unknown as NodeJS.EventEmitter;
  for (const name of REFUSALS) {
    emitter.on(name, (ctx: Pick<KoaContextWithOIDC, 'state' | 'oidc'>, error: Refusal) => {
      const isFault = name === 'server_error' || error.error === 'temporarily_unavailable';
      requestContext(ctx).clientId = ctx.oidc?.client?.clientId;
      requestContext(ctx).failure = {
        code: error.error ?? 'server_error',
        ...(error.cause instanceof Error ? { remoteCode: rootMessage(error.cause) } : {}),
        detail: detailOf(error),
        ...(isFault ? { cause: error.cause ?? error } : {}),
      };
      recordGrantType(ctx);
      if (name === 'grant.error') noteUnknownClient(ctx, error);
      if (name === 'registration_create.error' && error.error === 'invalid_redirect_uri')
        noteRefusedRegistration(ctx);
    });
  }
  emitter.on('grant.success', recordGrantType);
  for (const name of ATTEMPT_EVENTS) emitter.on(name, noteAuthorization);
  emitter.on('error', (error: Error) => logger.error({ err: error }, 'engine error'));
}

/** With the innermost cause, which the client does not learn. */
function detailOf({ error_detail, error_description, cause }: Refusal): string | undefined {
  const said = error_detail ?? error_description;
  const root = cause instanceof Error ? rootMessage(cause) : said;
  return root === said ? said : `${said} (${root})`;
}
