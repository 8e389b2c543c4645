// Many people with the same app behind one address come in the same minutes, with the limits of production: none of them is told to wait.
import { expect } from 'chai';
import { callStep } from './recorded-connection.ts';
import { documentOf, RECORDED_CLIENTS, registrationOf } from './recorded-clients.ts';
import { authorizeStep, discoverStep, identifyStep, tokenStep } from './recorded-journey.ts';
import { useStage } from './stage.ts';

/** More than may register from an address that nobody shares, or documents be fetched from one host in a minute. */
const PEOPLE = 40;

const CROWDS: [client: string, where: string, way: 'registration' | 'document'][] = [
  ['Claude (web, desktop, mobile)', 'one address of the hosted app', 'registration'],
  ['Claude Code', 'one office', 'document'],
];

describe(`${PEOPLE} people come`, function () {
  this.timeout(60_000);
  const stage = useStage('sqlite');

  for (const [name, where, way] of CROWDS)
    it(`with ${name} from ${where}, and the last of them connects`, async () => {
      const recorded = RECORDED_CLIENTS.find((client) => client.name === name);
      if (!recorded) throw new Error('there is no such recording');
      const registration = registrationOf(recorded);
      const document = documentOf(recorded);
      if (!registration || !document) throw new Error('it has only one way');
      const identity = way === 'document' ? { document } : { registration };
      const journey = await discoverStep(stage().system, recorded, identity);
      const ids = new Set<string | undefined>();
      for (let person = 0; person < PEOPLE; person += 1) {
        await identifyStep(journey);
        ids.add(journey.client?.id);
      }
      expect(ids.size).to.equal(way === 'document' ? 1 : PEOPLE);
      for (const step of [authorizeStep, tokenStep, callStep]) await step(journey);
    });
});
