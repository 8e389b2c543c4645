import { describeClients } from './tested-clients.ts';

describe('Interoperability with programs', () => {
  describeClients('program');
});
