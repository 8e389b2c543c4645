import { expect } from 'chai';
import { openSystemStore } from '../../support/system-store.ts';
import { ALL_CLAIMS, learnedLine, useCallers } from '../../support/upstream/caller-system.ts';

const ADA = {
  name: 'Ada Lovelace',
  email: 'ada@example.com',
  email_verified: true,
  groups: ['staff', 'club, north'],
};

describe('What the server learns about the person who calls', () => {
  const { setup, connectAs, claimsFor, restartWith } = useCallers({
    name: 'Orders',
    caller: { claims: ALL_CLAIMS },
  });

  it('the caller header has every claim of the settings that the person has', async () => {
    const { issuer } = setup().providers.staff;
    expect(await claimsFor(await connectAs({ claims: ADA }))).to.deep.equal({
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      email_verified: true,
      groups: ['staff', 'club, north'],
      idp: issuer,
      idp_sub: 'subject-1',
      provider: 'staff',
    });
  });

  it('the consent page says in one line what the server learns, and the grant keeps the claims that it named', async () => {
    const { page, grantId } = await connectAs({ claims: { ...ADA, groups: [] } });
    expect(learnedLine(page)).to.equal(
      'Orders learns your name, email address, sign-in service, and user ID.',
    );
    const { store } = await openSystemStore(setup().system);
    const stored = await store.get<{ callerClaims: string[] }>(`grant:${grantId}`);
    await store.close();
    expect(stored?.value.callerClaims).to.deep.equal([
      'name',
      'email',
      'issuer',
      'subject',
      'provider',
    ]);
  });

  it('a claim that is added to the settings is given only of people who were told', async () => {
    await restartWith({ name: 'Orders', caller: { claims: ['name'] } });
    const earlier = await connectAs({ claims: ADA });
    expect(learnedLine(earlier.page)).to.equal('Orders learns your name.');
    await restartWith({ name: 'Orders', caller: { claims: ['name', 'email'] } });
    const later = await connectAs({ claims: ADA });
    expect(learnedLine(later.page)).to.equal('Orders learns your name and email address.');
    expect(await claimsFor(earlier)).to.deep.equal({ name: 'Ada Lovelace' });
    expect(await claimsFor(later)).to.deep.equal({
      name: 'Ada Lovelace',
      email: 'ada@example.com',
      email_verified: true,
    });
    await restartWith({ name: 'Orders', caller: { claims: ['email'] } });
    expect(await claimsFor(earlier)).to.deep.equal({});
    expect(await claimsFor(later)).to.not.have.property('name');
  });
});
