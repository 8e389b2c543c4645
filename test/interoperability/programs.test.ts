import { describeClients } from './tested-clients.ts';

describe('Interoperability with programs', function () {
  this.timeout(60_000);
  describeClients('program');
});
