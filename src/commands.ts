// The commands of `gatehouse`, and the client of the management API that most of them call.
import type { Command } from 'commander';
import { addDoctorCommand } from './doctor/command.ts';
import { addInitCommand } from './init/command.ts';
import { managementClient, type ManagementClient } from './management/api/client.ts';
import { addApplyCommands } from './management/commands/apply.ts';
import { addAttemptsCommand } from './management/commands/attempts.ts';
import { addAuditCommand } from './management/commands/audit.ts';
import { addResourceCommands } from './management/commands/resource.ts';
import { addReloadCommand } from './management/commands/reload.ts';
import { addWhyCommand } from './management/commands/why.ts';
import { addCompletionCommand } from './management/commands/completion.ts';
import type { Terminal } from './management/commands/terminal.ts';
import { accessCommands } from './management/resources/access.ts';
import { accountCommands } from './management/resources/account.ts';
import { clientCommands } from './management/resources/client.ts';
import { connectorCommands } from './management/resources/connector.ts';
import { credentialCommands } from './management/resources/credential.ts';
import { grantCommands } from './management/resources/grant.ts';
import { keyCommands } from './management/resources/key.ts';
import { tokenCommands } from './management/resources/token.ts';
import { upstreamCommands } from './management/resources/upstream.ts';
import { workloadCommands } from './management/resources/workload.ts';
import type { CommandLineSettings, Environment } from './settings/environment.ts';
import { findManagementAccess } from './settings/management-access.ts';
import { addRestoreCommand } from './restore/command.ts';
import { addSettingsCommand } from './settings-command.ts';
import { addStartCommand } from './start-command.ts';

export function addCommands(program: Command, terminal: Terminal): void {
  addStartCommand(program, terminal);
  for (const commands of [
    connectorCommands,
    accountCommands,
    accessCommands,
    grantCommands,
    clientCommands,
    workloadCommands,
    tokenCommands,
    credentialCommands,
    upstreamCommands,
    keyCommands,
  ])
    addResourceCommands(program, terminal, commands);
  addAuditCommand(program, terminal);
  addAttemptsCommand(program, terminal);
  addWhyCommand(program, terminal);
  addApplyCommands(program, terminal);
  addReloadCommand(program, terminal);
  addRestoreCommand(program, terminal);
  addSettingsCommand(program, terminal);
  addDoctorCommand(program, terminal);
  addInitCommand(program, terminal);
  addCompletionCommand(program, terminal);
}

/** Throws SettingsError if the address or the key of the management API is not known. */
export function openClient(
  environment: Environment | undefined,
  options: CommandLineSettings,
): ManagementClient {
  return managementClient(findManagementAccess(environment, options));
}
