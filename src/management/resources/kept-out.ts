// Apps that are kept out: refused to one person.
import * as z from 'zod';
import { recordPath } from '../console/address.ts';
import type { Fields } from './fields.ts';
import type { ConsoleList } from './resource.ts';
import * as schemas from './schemas.ts';

export const keptOutSchema = z
  .strictObject({
    id: z.string().describe('The grant that was ended with it.'),
    account: z.string(),
    clientId: z.string(),
    clientName: z.string(),
    destinations: z
      .array(z.string())
      .describe('Redirect hosts; `loopback` for this computer and `device` for devices.'),
    since: schemas.time,
    by: z.string().optional().describe('Who decided it, as in the audit log.'),
  })
  .meta({ id: 'KeptOut' });

export type KeptOut = z.output<typeof keptOutSchema>;

const fields: Fields<KeptOut> = {
  since: { time: 'since' },
  destinations: {
    label: 'redirectHost',
    text: ({ destinations }) => destinations.join(', ') || undefined,
  },
  clientId: { code: 'clientId', label: 'id' },
};

/** On the page of the person. */
export const keptOutList: ConsoleList<KeptOut> = {
  section: 'grants',
  operation: 'listGrants',
  limit: 50,
  fields,
  title: ({ clientName }) => clientName,
  href: ({ clientId }) => recordPath('clients', clientId),
  state: () => 'blocked',
  isOk: () => false,
  facts: 'since destinations clientId',
  actions: [
    {
      path: 'allow',
      operation: 'allowGrant',
      done: 'kept-out-ended',
      button: () => 'endKeptOut',
    },
  ],
};
