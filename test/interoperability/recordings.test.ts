import { describeClients } from './tested-clients.ts';

describe('Interoperability with recorded clients', function () {
  this.timeout(60_000);
  describeClients('recording');
});
