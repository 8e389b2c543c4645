import { expect } from 'chai';
import { advanceClock, restoreClock } from '../support/clock.ts';
import { readAllAudit } from '../support/management-api.ts';
import {
  type Connected,
  openAddress,
  textOf,
  usePersonalUpstream,
} from '../support/credentials/system.ts';

const HTML = { type: 'text/html', body: '<h1>Bad gateway</h1>' };

describe('A call with the own account of the person', () => {
  const { system, service, connectAs } = usePersonalUpstream();
  let ada: Connected;

  beforeEach(async () => {
    service().user = 'ada';
    service().expiresIn = 3600;
    ada = await connectAs('ada');
    // The account may be connected from an earlier test.
    if (textOf(await ada.call()) !== 'ada') await reconnect(ada);
    service().tokenRequests.length = 0;
  });
  afterEach(() => {
    restoreClock();
    service().tokenAnswers.length = 0;
  });

  async function reconnect({ call, browser }: Connected) {
    const page = await openAddress(await call(), browser);
    await browser.submit(page, { credential: 'now' });
    expect(textOf(await call())).to.equal('ada');
  }

  it('the server sees the account that the person connected there', async () => {
    expect(textOf(await ada.call())).to.equal('ada');
  });

  it('after 401 of the server the token is refreshed once, and the request is repeated once', async () => {
    service().expire();
    service().calls.length = 0;
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().tokenRequests.map((form) => form.get('grant_type'))).to.deep.equal([
      'refresh_token',
    ]);
    expect(service().calls.map(({ status }) => status)).to.deep.equal([401, 200]);
  });

  it('concurrent calls share one refresh, and none of them fails', async () => {
    service().expire();
    const answers = await Promise.all(Array.from({ length: 16 }, () => ada.call()));
    expect(new Set(answers.map(textOf))).to.deep.equal(new Set(['ada']));
    expect(service().tokenRequests).to.have.length(1);
    expect(service().hasReplay).to.equal(false);
  });

  it('the token is refreshed before it expires', async () => {
    service().expire();
    service().expiresIn = 300;
    await ada.call();
    service().tokenRequests.length = 0;
    advanceClock(250);
    service().calls.length = 0;
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().tokenRequests).to.have.length(1);
    expect(service().calls.map(({ status }) => status)).to.deep.equal([200]);
  });

  for (const [title, answer] of Object.entries({
    'because the service is down': { status: 502, ...HTML },
    'because the service wants the person': {
      status: 400,
      body: '{"error":"invalid_grant","suberror":"basic_action","claims":"{}"}',
    },
  }))
    it(`a refresh that fails early, ${title}, withholds no valid token`, async () => {
      service().expire();
      service().expiresIn = 300;
      await ada.call();
      advanceClock(250);
      service().tokenRequests.length = 0;
      service().tokenAnswers = [answer];
      expect(textOf(await ada.call())).to.equal('ada');
      // The next attempt is made some seconds later.
      expect(textOf(await ada.call())).to.equal('ada');
      expect(service().tokenRequests).to.have.length(1);
    });

  it('the end of a credential is one item, however many calls wait for the refresh', async () => {
    const count = async () =>
      (await readAllAudit(system())).filter(({ event }) => event === 'credential_ended').length;
    const before = await count();
    service().expire();
    service().tokenAnswers = [{ status: 400, body: '{"error":"invalid_grant"}' }];
    await Promise.all(Array.from({ length: 8 }, () => ada.call()));
    expect(await count()).to.equal(before + 1);
  });

  for (const [title, answers] of Object.entries({
    'an error page with 502': [{ status: 502, ...HTML }],
    // Read as a lost answer, and asked for once more.
    'two error pages with 200': [
      { status: 200, ...HTML },
      { status: 200, ...HTML },
    ],
    'a limit': [{ status: 429, body: '{}' }],
    'a limit with the words of a refusal': [{ status: 429, body: '{"error":"invalid_grant"}' }],
    'a time limit with the words of a refusal': [
      { status: 408, body: '{"error":"bad_refresh_token"}' },
    ],
    'a fault with the words of a refusal': [{ status: 503, body: '{"error":"invalid_grant"}' }],
    'a refusal without a reason about the token': [
      { status: 400, body: '{"error":"access_denied"}' },
    ],
  }))
    it(`the credential does not end at ${title}`, async () => {
      service().expire();
      service().tokenAnswers = [...answers];
      const failed = await ada.call();
      expect(failed.rpc?.result?.isError).to.equal(true);
      expect(textOf(failed)).to.not.contain('/credentials/');
      expect(textOf(await ada.call())).to.equal('ada');
    });

  it('a limit is no second doubt about the refresh token', async () => {
    service().expire();
    service().tokenAnswers = [
      { status: 400, body: '{"error":"invalid_request"}' },
      { status: 429, body: '{"error":"invalid_request"}' },
    ];
    for (let n = 0; n < 2; n += 1) expect(textOf(await ada.call())).to.not.contain('/credentials/');
    expect(textOf(await ada.call())).to.equal('ada');
  });

  for (const [title, answer] of Object.entries({
    'the refusal of the refresh token': { status: 400, body: '{"error":"invalid_grant"}' },
    'the refusal with status 200 of GitHub': { body: '{"error":"bad_refresh_token"}' },
    'the refusal of Slack': { body: '{"ok":false,"error":"invalid_refresh_token"}' },
    'the refusal with status 403 of Atlassian': {
      status: 403,
      body: '{"error":"invalid_grant","error_description":"Unknown or invalid refresh token"}',
    },
  }))
    it(`the credential ends at ${title}, and the person is asked to connect the account`, async () => {
      service().expire();
      service().tokenAnswers = [answer];
      const refused = await ada.call();
      expect(textOf(refused)).to.contain('/credentials/tools?for=');
      await ada.call();
      expect(service().tokenRequests).to.have.length(1);
      const ended = (await readAllAudit(system())).filter(
        ({ event }) => event === 'credential_ended',
      );
      expect(ended.at(-1)?.arguments).to.deep.equal({ cause: 'refused_by_service' });
    });

  it('the same refresh token that is twice an invalid request ends the credential', async () => {
    const doubt = { status: 400, body: '{"error":"invalid_request"}' };
    service().expire();
    service().tokenAnswers = [doubt, doubt];
    expect(textOf(await ada.call())).to.not.contain('/credentials/');
    expect(textOf(await ada.call())).to.contain('/credentials/');
  });

  it('a refresh whose answer was lost is repeated once', async () => {
    service().expire();
    service().tokenAnswers = ['hang up'];
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().tokenRequests).to.have.length(2);
  });

  it('a rotated refresh token counts also if the access token beside it cannot be used', async () => {
    service().expire();
    service().refreshMembers = { access_token: 'two words' };
    expect(textOf(await ada.call())).to.contain('Try again in a minute');
    service().refreshMembers = {};
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().hasReplay).to.equal(false);
    expect(service().tokenRequests).to.have.length(2);
  });

  it('a form as answer, without a refresh token and an end, leaves the old refresh token in force', async () => {
    service().expire();
    service().tokenAnswers = [
      {
        type: 'application/x-www-form-urlencoded',
        body: 'access_token=a2&scope=repo%2Cgist&token_type=bearer',
      },
    ];
    await ada.call();
    const sent = service().tokenRequests.at(-1)?.get('refresh_token');
    expect(service().calls.at(-1)?.token).to.equal('a2');
    // The server does not know a2, so it is asked again with the same refresh token.
    expect(textOf(await ada.call())).to.equal('ada');
    expect(service().tokenRequests.at(-1)?.get('refresh_token')).to.equal(sent);
  });
});
