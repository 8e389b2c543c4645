import type { ServerResponse } from 'node:http';
import { expect } from 'chai';
import { call } from '../../support/mcp.ts';
import {
  echo,
  event,
  resultFor,
  startScriptedUpstream,
  toolCall,
} from '../../support/upstream/scripted-upstream.ts';
import { useUpstream } from '../../support/upstream/system.ts';

const TOOL = 'whoami';
const CALL = toolCall(TOOL, 1);
const RELATED = 'io.modelcontextprotocol/related-task';
/** 2 MB, with numbers and escapes in another spelling than Gatehouse's. */
const CONTENT = JSON.stringify(
  Array.from({ length: 2000 }, (_, n) => ({ type: 'text', text: `é ${n} `.repeat(150) })),
).replaceAll('é', String.raw`\u00e9`);

type Send = (res: ServerResponse, text: string) => void;
const SENDING: Record<string, Send> = {
  'as JSON': (res, text) =>
    void res.writeHead(200, { 'content-type': 'application/json' }).end(text),
  'in an event': (res, text) =>
    void res.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${text}\n\n`),
};

describe('A large answer of a tool', () => {
  const behind = useUpstream(startScriptedUpstream);
  afterEach(() => behind().upstream.respondWith(echo));

  async function ask(send: Send, text: string) {
    const { link, token } = await behind().connected('full');
    behind().upstream.respondWith((_req, res) => send(res, text));
    return call(link, token, CALL);
  }

  for (const [how, send] of Object.entries(SENDING)) {
    it(`has the bytes of its content unchanged (${how})`, async () => {
      const text = `{"jsonrpc":"2.0","id":1,"result":{"content":${CONTENT},"isError":false}}`;
      const answer = await ask(send, text);
      expect(answer.status).to.equal(200);
      expect(answer.text.includes(CONTENT)).to.equal(true);
      expect(answer.text.includes(text)).to.equal(true);
    });

    it(`UPS-02 does not hide a bound id or the task of another caller behind its content (${how})`, async () => {
      const members = `"requestState":"plain","_meta":{"${RELATED}":{"taskId":"foreign"}}`;
      const bound = await ask(
        send,
        `{"jsonrpc":"2.0","id":1,"result":{"content":${CONTENT},"requestState":"plain"}}`,
      );
      expect(bound.text).to.match(/"requestState":"[\w-]{43}\.plain"/);
      const foreign = await ask(
        send,
        `{"jsonrpc":"2.0","id":1,"result":{"content":${CONTENT},${members}}}`,
      );
      expect(foreign.text).to.include('"error":').and.not.include('"text"');
      const twice = `{"jsonrpc":"2.0","id":1,"result":{"content":[]},"result":{"content":${CONTENT},${members}}}`;
      expect((await ask(send, twice)).text)
        .to.include('"error":')
        .and.not.include('"text"');
    });
  }

  it('is refused if its content is not JSON, and skipped in an event', async () => {
    const broken = CONTENT.replace(/\}\]$/, '},]');
    const text = `{"jsonrpc":"2.0","id":1,"result":{"content":${broken}}}`;
    expect((await ask(SENDING['as JSON'] as Send, text)).status).to.equal(502);
    const skipped = await ask(
      (res, data) =>
        SENDING['in an event']?.(res, `${data}\n\n${event(resultFor({ id: 1 })).trim()}`),
      text,
    );
    expect(skipped.text).to.include(event(resultFor({ id: 1 })));
    expect(skipped.text).to.not.include('"text"');
  });

  it('keeps its lines in an event', async () => {
    const value = { jsonrpc: '2.0', id: 1, result: { content: JSON.parse(CONTENT) } };
    const lines = JSON.stringify(value, undefined, 1).replaceAll('\n', '\ndata: ');
    const { text } = await ask(SENDING['in an event'] as Send, lines);
    const data = text
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => line.slice(6));
    expect(JSON.parse(data.join('\n'))).to.deep.equal(value);
  });

  it('with bytes that are not UTF-8 has characters that replace them', async () => {
    const { link, token } = await behind().connected('full');
    const [before = '', after = ''] = CONTENT.split(' 7 ', 2);
    behind().upstream.respondWith((_req, res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.write(`{"jsonrpc":"2.0","id":1,"result":{"content":${before}`);
      res.write(Buffer.from([0xe9]));
      res.end(`${after}"}]}}`);
    });
    const { status, text } = await call(link, token, CALL);
    expect(status).to.equal(200);
    expect(text).to.include('\uFFFD');
  });
});
