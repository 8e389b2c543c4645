// Apps that an administrator keeps away from a person.
import { findKeptOut, keepOut } from '../../connections/kept-out.ts';
import { detailsOf, type Subject, timeOf } from './subject.ts';

/** Ends also what the app has that was connected before. */
export const keptOut: Subject = {
  idIn: ({ grantId }) => grantId,
  async plan({ settings, services }, id, items) {
    const last = items.at(-1);
    if (last?.event !== 'kept_out' || (await findKeptOut(services.store, id))) return undefined;
    const { account = '', clientId = '', by } = last;
    const { name, destinations } = detailsOf(last);
    const app = {
      id,
      account,
      clientId,
      name: typeof name === 'string' ? name : clientId,
      destinations: Array.isArray(destinations) ? destinations.map(String) : [],
      since: timeOf(last),
      by,
    };
    return () => keepOut(settings, services, app);
  },
};
