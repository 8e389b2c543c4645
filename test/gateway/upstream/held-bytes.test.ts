import { once } from 'node:events';
import { type ClientRequest, type IncomingMessage, request } from 'node:http';
import { expect } from 'chai';
import { isLimited, postBody, readResponse, type RpcResponse } from '../../support/mcp.ts';
import { until } from '../../support/until.ts';
import {
  echo,
  json,
  PING,
  resultFor,
  startScriptedUpstream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const MEGABYTE = 1024 * 1024;
/** More than the buffers of a connection on loopback. */
const LARGE = 'x'.repeat(14_000_000);

/** Begins a request, and sends all but the last byte of its body. */
function beginUpload(link: string, token: string, body: string): ClientRequest {
  const headers = {
    authorization: `Bearer ${token}`,
    'content-type': 'application/json',
    'content-length': body.length,
  };
  const sent = request(link, { method: 'POST', headers, agent: false });
  sent.on('error', () => undefined);
  sent.write(body.slice(0, -1));
  return sent;
}

describe('Large messages of one caller', () => {
  const behind = useUpstream(startScriptedUpstream, {
    resourceServer: { heldBytes: { perCaller: MEGABYTE, inAll: 4 * MEGABYTE } },
  });
  const uploads: ClientRequest[] = [];
  afterEach(() => {
    behind().upstream.respondWith(echo);
    uploads.splice(0).forEach((upload) => upload.destroy());
  });

  /** The ids are at the end, as official SDKs write them. */
  const largeBody = (method: string, params: object) =>
    JSON.stringify({
      method,
      params: { ...params, filler: 'x'.repeat(600_000) },
      id: 7,
      jsonrpc: '2.0',
    });

  it('DOS-09 a body waits unread while others of the caller are in progress, and is then refused with its id', async () => {
    const { link, token } = await behind().connected('analytics');
    const other = await behind().connected('operations');
    const body = largeBody('ping', {});
    uploads.push(beginUpload(link, token, body));
    const refused = async (method: string) => {
      let response: RpcResponse | undefined;
      // The upload may arrive later.
      await until('a refusal', async () => {
        response = await readResponse(
          await postBody(link, token, largeBody(method, { name: 'whoami' })),
        );
        return isLimited(response);
      });
      return response?.rpc;
    };
    const [call, ping] = await Promise.all([refused('tools/call'), refused('ping')]);
    expect(call).to.have.nested.property('result.isError', true);
    expect(ping).to.have.nested.property('error.data.retryAfter', 5);
    for (const response of [call, ping]) expect(response).to.have.property('id', 7);
    expect((await postBody(link, token, JSON.stringify(PING))).status).to.equal(200);
    expect((await postBody(other.link, other.token, body)).status).to.equal(200);
  });

  it('DOS-09 a response waits at the upstream until the client has read the one before', async () => {
    const { upstream, connected } = behind();
    const { link, token } = await connected('analytics');
    let isSent = 0;
    upstream.respondWith((_req, res) => {
      json(res, resultFor(PING, { text: LARGE }));
      res.once('finish', () => (isSent += 1));
    });
    const unread = await sendWithoutReading(link, token);
    await until('the first response to be sent', () => isSent === 1);
    const second = postBody(link, token, JSON.stringify(PING));
    await until('the second call', () => upstream.received.length > 1);
    expect(await lengthOf(unread)).to.be.above(LARGE.length);
    expect((await (await second).text()).length).to.be.above(LARGE.length);
    expect(isSent).to.equal(2);
  });

  it('DOS-09 a response is refused if the client does not read the one before', async () => {
    const { upstream, connected } = behind();
    const { link, token } = await connected('analytics');
    upstream.respondWith((_req, res) => json(res, resultFor(PING, { text: LARGE })));
    const unread = await sendWithoutReading(link, token);
    const message = JSON.stringify(toolCall('whoami'));
    const refused = await readResponse(await postBody(link, token, message));
    expect(isLimited(refused), refused.text.slice(0, 200)).to.equal(true);
    unread.destroy();
    await until('a response', async () => {
      const response = await readResponse(await postBody(link, token, message));
      return response.text.length > LARGE.length;
    });
  });

  async function sendWithoutReading(link: string, token: string): Promise<IncomingMessage> {
    const sent = beginUpload(link, token, JSON.stringify(PING));
    sent.end('}');
    const [response] = await once(sent, 'response');
    return response;
  }
});

describe('Responses that expand when they are parsed', () => {
  const behind = useUpstream(startScriptedUpstream);
  after(() => void behind().upstream.respondWith(echo));

  const VALUES = `{"jsonrpc":"2.0","id":1,"result":{"list":[${'{},'.repeat(600_000)}{}]}}`;
  const NESTED = `{"jsonrpc":"2.0","id":1,"result":${'['.repeat(40_000)}${']'.repeat(40_000)}}`;
  for (const [what, text, words] of [
    ['has a million values', VALUES, 'has more than 1000000 values'],
    ['is nested deeply', NESTED, 'is nested more than 1000 levels deep'],
  ] as const)
    for (const type of ['application/json', 'text/event-stream'])
      it(`DOS-09 a response that ${what} is not parsed, and the call gets a tool error that says so (${type})`, async () => {
        const { link, token } = await behind().connected('analytics');
        behind().upstream.respondWith((_req, res) => {
          res.writeHead(200, { 'content-type': type });
          res.end(type === 'application/json' ? text : `data: ${text}\n\n`);
        });
        const answer = await postBody(link, token, JSON.stringify(toolCall('whoami')));
        const rpc = JSON.parse((await answer.text()).replace(/^[^]*data: /, ''));
        expect(rpc).to.have.nested.property('result.isError', true);
        expect(JSON.stringify(rpc)).to.include(words);
      });
});

async function lengthOf(response: IncomingMessage): Promise<number> {
  let length = 0;
  for await (const chunk of response) length += chunk.length;
  return length;
}
