import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
} from './settings-file.ts';

const URL = 'https://tools.example.com/mcp';

function withUpstream<File extends object>(file: File, upstream: unknown): object {
  return { ...file, resourceServer: { upstream } };
}

describe('resourceServer.upstream', () => {
  it('the upstream is unset by default, and the sample serves calls', () => {
    expect(load(DEVELOPMENT).resourceServer.upstream).to.equal(undefined);
  });

  it('the upstream requires a URL, and the defaults are restrictive', () => {
    expect(load(withUpstream(DEVELOPMENT, { url: URL })).resourceServer.upstream).to.deep.equal({
      url: URL,
      privateNetwork: false,
      timeout: 60,
      silence: 300,
      maxAnswerBytes: 16_777_216,
      openCalls: { perCaller: 100, inAll: 5000 },
      defaultLevel: 'full',
      tools: [],
    });
  });

  const ISSUES: Record<string, [change: object, setting: string, expected: RegExp]> = {
    'no URL': [{ url: undefined }, 'url', /text|address/],
    'a URL with another scheme': [{ url: 'ftp://tools.example.com' }, 'url', /MCP server/],
    'text that is not a URL': [{ url: 'tools' }, 'url', /MCP server/],
    'a password in the URL': [{ url: 'https://a:b@tools.example.com' }, 'url', /password/],
    'a fragment': [{ url: `${URL}#tools` }, 'url', /#/],
    'our own address': [
      { url: `${DEVELOPMENT.resourceUrl}/mcp` },
      'url',
      /not an address of Gatehouse itself/,
    ],
    'a misspelt setting': [{ timeOut: '5s' }, 'timeOut', /did you mean timeout/],
    'a timeout without a unit': [{ timeout: 30 }, 'timeout', /a duration such as/],
    'a timeout that is too long': [{ timeout: '2d' }, 'timeout', /at most 1h/],
    'an unknown level': [{ defaultLevel: 'owner' }, 'defaultLevel', /analytics, operations/],
    'a tool without a level': [{ tools: [{ name: 'a' }] }, 'tools[0].level', /analytics/],
    'a tool with an unknown setting': [
      { tools: [{ name: 'a', level: 'full', scope: 'x' }] },
      'tools[0].scope',
      /name, level/,
    ],
    'a duplicate tool': [
      { tools: [1, 2].map(() => ({ name: 'a', level: 'full' })) },
      'tools',
      /a unique name/,
    ],
  };
  for (const [name, [change, setting, expected]] of Object.entries(ISSUES)) {
    it(`an upstream with ${name} is an issue`, () => {
      const [issue, ...more] = issuesIn(withUpstream(DEVELOPMENT, { url: URL, ...change }));
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal(`resourceServer.upstream.${setting}`);
      expect(issue?.expected).to.match(expected);
    });
  }

  it('production requires https for the upstream, except on loopback and on a declared private network', () => {
    const plain = (upstream: object) =>
      loadInProduction(withUpstream(PRODUCTION, { url: 'http://tools.internal/mcp', ...upstream }));
    const { issues } = refusal(() => plain({}));
    expect(issues.map(({ setting }) => setting)).to.deep.equal(['resourceServer.upstream.url']);
    expect(issues[0]?.expected).to.include('privateNetwork: true');
    expect(plain({ privateNetwork: true }).production).to.equal(true);
    expect(plain({ url: 'http://127.0.0.1:9000/mcp' }).production).to.equal(true);
    expect(plain({ url: URL }).production).to.equal(true);
  });
});
