// The commands of `gatehouse audit` about the receivers of the audit log.
import { type Command, InvalidArgumentError } from 'commander';
import { listText } from '../resources/fields.ts';
import { deliveryColumns, deliveryFields } from '../resources/audit-delivery.ts';
import { absoluteTime, type RelativeOrAbsoluteTime } from './options.ts';
import type { Terminal } from './terminal.ts';

const RESEND_HELP = `
Goes back in the log and sends the items since then as new batches, and after them those that the receiver does not have yet.
Items keep their ids, so that receivers can recognize them. The times are those of the items.

Examples:
  $ gatehouse audit delivery
  $ gatehouse audit resend --target siem --since 24h
  $ gatehouse audit resend --target siem --since 2030-01-31T00:00:00Z`;

export function addDeliveryCommands(audit: Command, { openClient, print, now }: Terminal): void {
  audit
    .command('delivery')
    .description('show how far each receiver has the audit log')
    .action(async () => {
      const { items } = await openClient().listAuditDelivery();
      print({ items }, () =>
        items.length === 0
          ? 'The settings have no receiver of the audit log (audit.delivery).'
          : listText(deliveryFields, deliveryColumns, items),
      );
    });
  audit
    .command('resend')
    .description('send items again to a receiver of the audit log')
    .requiredOption('--target <target>', 'id of the receiver, see gatehouse audit delivery')
    .option('--since <when>', 'items of the last 15m, 24h or 7d, or since an ISO 8601 time')
    .addHelpText('after', RESEND_HELP)
    .action(async ({ target }: { target: string }, command: Command) => {
      // `gatehouse audit` has this option too, and reads it first.
      const { since } = command.optsWithGlobals<{ since?: RelativeOrAbsoluteTime }>();
      if (!since) throw new InvalidArgumentError("required option '--since <when>' not specified");
      const request = { id: target, body: { since: absoluteTime(since, now()) } };
      const delivery = await openClient().resendAudit(request);
      print(
        delivery,
        ({ id, backlog }) => `${id} gets ${backlog} items again or for the first time.`,
      );
    });
}
