import { expect } from 'chai';
import { useSystem } from '../../support/system.ts';
import { addressOf, mint } from './minting.ts';

describe('Limits on messages to the MCP server', () => {
  const system = useSystem();
  let token: string;
  before(async () => {
    ({ token } = await mint(system(), { level: 'admin' }));
  });

  async function send(body: string): Promise<{ status: number; text: string }> {
    const response = await fetch(addressOf(system()), {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        authorization: `Bearer ${token}`,
      },
      body,
    });
    return { status: response.status, text: await response.text() };
  }

  const callOf = (given: object, id = 1, name = 'find_members') => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: given },
  });

  function expectRefused({ status, text }: { status: number; text: string }, words: string): void {
    expect(status).to.equal(400);
    const { error, ...rest } = JSON.parse(text);
    expect(rest).to.deep.equal({ jsonrpc: '2.0' });
    expect(error.data).to.deep.equal({ error: 'invalid_request' });
    expect(error.message).to.include(words);
  }

  it('a message that is nested more than a hundred levels deep is refused before any other check', async () => {
    const most = 'nested more than 100 levels';
    expectRefused(await send('['.repeat(1_000_000)), most);
    expectRefused(await send('{"a":'.repeat(150_000)), most);
    expectRefused(await send('['.repeat(101) + ']'.repeat(101)), most);
    const params = '['.repeat(100) + ']'.repeat(100);
    expectRefused(await send(`{"jsonrpc":"2.0","id":1,"method":"x","params":${params}}`), most);
  });

  it('brackets in strings do not count as nesting', async () => {
    const name = String.raw`"\[{`.repeat(15);
    const { status, text } = await send(JSON.stringify(callOf({ name })));
    expect(status).to.equal(200);
    expect(text).to.include('"matches":0');
  });

  it('a batch has at most twenty messages', async () => {
    const batch = (size: number) =>
      JSON.stringify(Array.from({ length: size }, (_, id) => callOf({}, id)));
    expect((await send(batch(20))).status).to.equal(200);
    expectRefused(await send(batch(21)), 'more than 20 messages');
  });

  const LONG = 'x'.repeat(100_000);
  const REPEATED: Record<string, object> = {
    'an unknown argument with a long name': callOf({ [LONG]: 1 }),
    'many unknown arguments': callOf(
      Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`argument${index}`, 1])),
    ),
    'an invalid long value': callOf({ plan: LONG }),
    'an unknown tool with a long name': callOf({}, 1, LONG),
  };
  for (const [what, message] of Object.entries(REPEATED)) {
    it(`the response is short if the request has ${what}`, async () => {
      const { text } = await send(JSON.stringify(message));
      expect(text).to.match(/"isError":true|"error":/);
      expect(text.length).to.be.below(2000);
    });
  }
});
