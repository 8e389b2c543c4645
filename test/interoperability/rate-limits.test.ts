import { expect } from 'chai';
import { callStep } from './recorded-connection.ts';
import { documentOf, RECORDED_CLIENTS, registrationOf } from './recorded-clients.ts';
import { authorizeStep, discoverStep, identifyStep, tokenStep } from './recorded-steps.ts';
import { useTestSystems } from './systems.ts';

/** More than the limits on registrations per address and on document fetches per host and minute. */
const PEOPLE = 40;

const CROWDS: [client: string, where: string, way: 'registration' | 'document'][] = [
  ['Claude (web, desktop, mobile)', 'one address of the hosted app', 'registration'],
  ['Claude Code', 'one office', 'document'],
];

describe(`${PEOPLE} people with one app`, () => {
  const systems = useTestSystems('sqlite');

  for (const [name, where, way] of CROWDS)
    it(`nobody with ${name} from ${where} is rate limited, and the last person connects`, async () => {
      const recorded = RECORDED_CLIENTS.find((client) => client.name === name);
      if (!recorded) throw new Error('there is no such recording');
      const registration = registrationOf(recorded);
      const document = documentOf(recorded);
      if (!registration || !document) throw new Error('it has only one way');
      const identity = way === 'document' ? { document } : { registration };
      const run = await discoverStep(systems().system, recorded, identity);
      const ids = new Set<string | undefined>();
      for (let person = 0; person < PEOPLE; person += 1) {
        await identifyStep(run);
        ids.add(run.client?.id);
      }
      expect(ids.size).to.equal(way === 'document' ? 1 : PEOPLE);
      for (const step of [authorizeStep, tokenStep, callStep]) await step(run);
    });
});
