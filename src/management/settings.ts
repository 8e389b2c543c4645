import { affectedConnections, losesTools } from '../connections/affected.ts';
import { HttpError } from '../http/errors.ts';
import { isPaused } from '../links/connector.ts';
import { listMintedTokens, type MintedToken } from '../links/minted-tokens.ts';
import { isLevel } from '../permission-levels.ts';
import { type RefusalKind, ReloadRefused } from '../reload/reloads.ts';
import { reloadSettings } from '../reload/reload-settings.ts';
import type { Settings } from '../settings/settings.ts';
import { isServed } from '../settings/upstreams.ts';
import type { Handlers, ManagementContext } from './context.ts';
import { type Change, toolLosses, toolLossesOfTokens } from './lost-tools.ts';
import { affectedResources } from './resources/affected.ts';
import type { AffectedToken, Reload, settingsOperations } from './resources/settings.ts';

export const settingsHandlers: Handlers<keyof typeof settingsOperations> = {
  async reloadSettings(management, { body: { dryRun = false } }) {
    try {
      return dryRun
        ? await previewReload(management)
        : await reloadSettings(management.services, management.by);
    } catch (error) {
      throw error instanceof ReloadRefused ? refusal(error) : error;
    }
  },
};

/** As long as an administrator waits. */
const MAX_AFFECTED_READ = 20_000;

async function previewReload({ settings, services }: ManagementContext): Promise<Reload> {
  const reloads = services.reloads();
  const report = await reloads.run({ dryRun: true });
  if (report.changed.length === 0)
    return { ...report, ...affectedResources({ items: [], isAll: true }), affectedTokens: [] };
  const next = await reloads.read();
  const lostClients = lostBetween(settings.clients, next.clients);
  const change = { before: { settings }, after: { settings: next, lostClients } };
  const found = await affectedConnections(services, {
    ...change,
    limit: MAX_AFFECTED_READ,
    toolLosses: toolLosses(services, change),
  });
  return {
    ...report,
    ...affectedResources(found),
    affectedTokens: await affectedTokens(services, change),
  };
}

function lostBetween(before: Settings['clients'], after: Settings['clients']): Set<string> {
  const left = new Set(after.preRegistered.map(({ id }) => id));
  return new Set(before.preRegistered.map(({ id }) => id).filter((id) => !left.has(id)));
}

/** The minted tokens that would stop or lose tools. */
async function affectedTokens(
  services: ManagementContext['services'],
  change: Change,
): Promise<AffectedToken[]> {
  const losses = toolLossesOfTokens(services, change);
  const found: AffectedToken[] = [];
  for (const token of await listMintedTokens(services.store, services.now())) {
    const { id, name } = token;
    const [before, reason] = [change.before, change.after].map(({ settings }) =>
      tokenFault(token, settings),
    );
    if (reason !== undefined && reason !== before) found.push({ id, name, reason });
    if (reason !== undefined) continue;
    const loss = await losses(token);
    if (losesTools(loss)) found.push({ id, name, ...loss });
  }
  return found;
}

/** Why calls with the token are refused, as far as the settings say it. */
function tokenFault(token: MintedToken, settings: Settings): AffectedToken['reason'] {
  if (!isServed(settings.upstreams, token) || !isLevel(settings.levels, token.level))
    return 'unconfigured';
  return isPaused(token, settings) ? 'paused' : undefined;
}

const REFUSALS: Record<RefusalKind, [status: number, code: string]> = {
  invalid: [400, 'invalid_settings'],
  restart: [409, 'restart_required'],
  busy: [409, 'reload_in_progress'],
  secrets: [409, 'secrets_differ'],
  unavailable: [503, 'temporarily_unavailable'],
};

function refusal({ kind, message, processes }: ReloadRefused): HttpError {
  const [status, code] = REFUSALS[kind];
  return new HttpError(status, code, message, {
    members: processes.length > 0 ? { processes } : {},
  });
}
