// The commands of `gatehouse`, and the client of the management API that most of them call.
import type { Command } from 'commander';
import { addDoctorCommand } from './doctor/command.ts';
import { addInitCommand } from './init/command.ts';
import { managementClient, type ManagementClient } from './management/api/client.ts';
import { addAccountCommands } from './management/commands/account.ts';
import { addAuditCommand } from './management/commands/audit.ts';
import { addClientCommands } from './management/commands/client.ts';
import { addCompletionCommand } from './management/commands/completion.ts';
import { addConnectorCommands } from './management/commands/connector.ts';
import { addGrantCommands } from './management/commands/grant.ts';
import { addKeysCommands } from './management/commands/keys.ts';
import type { Terminal } from './management/commands/terminal.ts';
import { addTokenCommands } from './management/commands/token.ts';
import { addUpstreamCommands } from './management/commands/upstream.ts';
import type { CommandLineSettings, Environment } from './settings/environment.ts';
import { findManagementAccess } from './settings/management-access.ts';
import { addStartCommand } from './start-command.ts';

export function addCommands(program: Command, terminal: Terminal): void {
  addStartCommand(program, terminal);
  addConnectorCommands(program, terminal);
  addAccountCommands(program, terminal);
  addGrantCommands(program, terminal);
  addClientCommands(program, terminal);
  addTokenCommands(program, terminal);
  addUpstreamCommands(program, terminal);
  addKeysCommands(program, terminal);
  addAuditCommand(program, terminal);
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
