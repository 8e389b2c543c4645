import { describeClients } from './tested-clients.ts';

describe('Interoperability with recorded clients', () => {
  describeClients('recording');
});
