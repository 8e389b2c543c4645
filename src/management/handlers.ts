// What the API and the console do for each operation. The keys are those of OPERATIONS.
import type { OperationName } from './api/operations.ts';
import { accessHandlers, refusalHandlers } from './access.ts';
import { exportedAccount } from './account-export.ts';
import { recordReading } from './audit-read.ts';
import { accountHandlers } from './accounts.ts';
import { attemptHandlers } from './attempts.ts';
import { deliveryHandlers } from './audit-delivery.ts';
import { applyHandlers } from './apply/apply.ts';
import { auditIntegrityHandlers } from './audit-integrity.ts';
import { auditHandlers } from './audit-log.ts';
import { auditReachHandlers } from './audit-reach.ts';
import { clientRuleHandlers } from './client-rules.ts';
import { clientHandlers } from './clients.ts';
import { connectorHandlers } from './connectors.ts';
import type { Handlers } from './context.ts';
import { grantHandlers } from './grants.ts';
import { machineHandlers } from './machines.ts';
import { credentialHandlers } from './credentials.ts';
import { tokenHandlers } from './minted-tokens.ts';
import { settingsHandlers } from './settings.ts';
import { keyHandlers } from './signing-keys.ts';
import { upstreamHandlers } from './upstreams.ts';
import { workloadHandlers } from './workloads.ts';

export const HANDLERS: Handlers<Exclude<OperationName, 'showOpenApi'>> = {
  ...connectorHandlers,
  ...grantHandlers,
  ...clientHandlers,
  ...machineHandlers,
  ...workloadHandlers,
  ...clientRuleHandlers,
  ...accountHandlers,
  async exportAccount(management, { id }) {
    const account = await accountHandlers.showAccount(management, { id });
    await recordReading(management, 'export', { account: id });
    return exportedAccount(management, account);
  },
  ...accessHandlers,
  ...refusalHandlers,
  ...attemptHandlers,
  ...tokenHandlers,
  ...credentialHandlers,
  ...keyHandlers,
  ...upstreamHandlers,
  ...auditHandlers,
  ...auditIntegrityHandlers,
  ...deliveryHandlers,
  ...auditReachHandlers,
  ...settingsHandlers,
  ...applyHandlers,
};
