import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
  settingsFile,
} from './settings-file.ts';

const URL = 'https://tools.example.com/mcp';

function withUpstream<File extends object>(file: File, upstream: unknown): object {
  return { ...file, resourceServer: { upstream } };
}

describe('resourceServer.upstream', () => {
  it('the upstream is unset by default, and the sample serves calls', () => {
    expect(load(DEVELOPMENT).upstreams).to.deep.equal([]);
  });

  it('the upstream requires a URL, and the defaults are restrictive', () => {
    expect(load(withUpstream(DEVELOPMENT, { url: URL })).upstreams).to.deep.equal([
      {
        id: 'default',
        name: 'tools.example.com',
        setting: 'resourceServer.upstream',
        headers: {},
        toolLevels: 'declared',
        toolChanges: 'follow',
        url: URL,
        privateNetwork: false,
        timeout: 60,
        silence: 300,
        maxAnswerBytes: 16_777_216,
        openCalls: { perCaller: 100, inAll: 5000 },
        defaultLevel: 'full',
        tools: [],
        resources: [],
        prompts: [],
        isNamed: false,
        paused: false,
        caller: { claims: [], headers: {} },
      },
    ]);
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
    'a tool without a level': [{ tools: [{ name: 'a' }] }, 'tools[0].level', /id of a level/],
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

describe('resourceServer.upstreams', () => {
  const listed = (...upstreams: object[]) => ({ ...DEVELOPMENT, resourceServer: { upstreams } });
  const one = { id: 'orders', url: URL };

  it('each upstream has an id, and its name is the host unless it is set', () => {
    const { upstreams } = load(listed(one, { id: 'tickets', url: URL, name: 'Tickets' }));
    expect(
      upstreams.map(({ id, name, setting, timeout }) => ({ id, name, setting, timeout })),
    ).to.deep.equal([
      {
        id: 'orders',
        name: 'tools.example.com',
        setting: 'resourceServer.upstreams[0]',
        timeout: 60,
      },
      { id: 'tickets', name: 'Tickets', setting: 'resourceServer.upstreams[1]', timeout: 60 },
    ]);
  });

  const ISSUES: Record<string, [resourceServer: object, setting: string, expected: RegExp]> = {
    'a list beside one upstream': [
      { upstream: { url: URL }, upstreams: [one] },
      'upstreams',
      /only one of.*with the id default/,
    ],
    'an empty list': [{ upstreams: [] }, 'upstreams', /at least 1/],
    'a repeated id': [{ upstreams: [one, one] }, 'upstreams', /a unique id/],
    'an upstream without an id': [{ upstreams: [{ url: URL }] }, 'upstreams[0].id', /text|letter/],
    'an id in upper case': [
      { upstreams: [{ ...one, id: 'Orders' }] },
      'upstreams[0].id',
      /lower-case/,
    ],
    'our own address in the list': [
      { upstreams: [one, { id: 'own', url: `${DEVELOPMENT.resourceUrl}/mcp` }] },
      'upstreams[1].url',
      /not an address of Gatehouse itself/,
    ],
  };
  for (const [name, [resourceServer, setting, expected]] of Object.entries(ISSUES)) {
    it(`${name} is an issue`, () => {
      const [issue, ...more] = issuesIn({ ...DEVELOPMENT, resourceServer });
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal(`resourceServer.${setting}`);
      expect(issue?.expected).to.match(expected);
    });
  }

  it('production requires https for each upstream', () => {
    const { issues } = refusal(() =>
      loadInProduction({
        ...PRODUCTION,
        resourceServer: {
          upstreams: ['a', 'b'].map((id) => ({ id, url: `http://${id}.internal/mcp` })),
        },
      }),
    );
    expect(issues.map(({ setting }) => setting)).to.deep.equal([
      'resourceServer.upstreams[0].url',
      'resourceServer.upstreams[1].url',
    ]);
    expect(issues[1]?.expected).to.include('resourceServer.upstreams[1].privateNetwork: true');
  });
});

describe('The headers of an upstream', () => {
  const withHeaders = (headers: object) => withUpstream(DEVELOPMENT, { url: URL, headers });

  it('a header comes from the settings, a variable or a file', () => {
    const file = settingsFile('Bearer from-a-file\n');
    const headers = { Authorization: { env: 'TOOLS_KEY' }, 'X-File': { file }, 'X-Text': 'text' };
    const [upstream] = load(withHeaders(headers), {
      TOOLS_KEY: 'Bearer from-a-variable',
    }).upstreams;
    expect(upstream?.headers).to.deep.equal({
      authorization: 'Bearer from-a-variable',
      'x-file': 'Bearer from-a-file',
      'x-text': 'text',
    });
  });

  const REFUSED = [
    'Gatehouse-Caller',
    'Mcp-Session-Id',
    'mcp-method',
    'Host',
    'Connection',
    'Transfer-Encoding',
    'Content-Type',
    'traceparent',
  ];
  it('headers that Gatehouse or the connection sets are refused, all at once, with the list of them', () => {
    const issues = issuesIn(withHeaders(Object.fromEntries(REFUSED.map((name) => [name, 'x']))));
    expect(issues.map(({ setting }) => setting)).to.deep.equal(
      REFUSED.map((name) => `resourceServer.upstream.headers.${name}`),
    );
    for (const { expected } of issues)
      expect(expected).to.include('gatehouse-caller').and.include('host').and.include('mcp-…');
  });

  const SECRET_VALUE = 'hunter2-hunter2';
  const ISSUES: Record<string, [header: unknown, setting: string, expected: RegExp]> = {
    'a variable that is not set': [{ env: 'MISSING_KEY' }, '.env', /with a value/],
    'the name of what every object has': [{ env: 'constructor' }, '.env', /with a value/],
    'a variable of Gatehouse': [{ env: 'GATEHOUSE_SECRET' }, '.env', /of your own/],
    'a value in place of a variable': [{ env: `Bearer ${SECRET_VALUE}` }, '.env', /the name of/],
    'a file that does not exist': [{ file: `/nowhere/x` }, '.file', /a readable file \(ENOENT\)/],
    'a value in place of a file': [{ file: SECRET_VALUE }, '.file', /a readable file/],
    'several lines': [`${SECRET_VALUE}\nX-Other: 1`, '', /on one line/],
    'an empty value': ['', '', /1 to 8192/],
    'a list': [[SECRET_VALUE], '', /a text, \{env/],
    'an unknown source': [{ vault: SECRET_VALUE }, '', /a text, \{env/],
  };
  for (const [name, [header, setting, expected]] of Object.entries(ISSUES)) {
    it(`a header with ${name} is an issue that does not show it`, () => {
      const error = refusal(() => load(withHeaders({ Authorization: header })));
      const [issue, ...more] = error.issues;
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal(`resourceServer.upstream.headers.Authorization${setting}`);
      expect(issue?.expected).to.match(expected);
      expect(`${error.stack} ${JSON.stringify(error.issues)}`).to.not.include(SECRET_VALUE);
    });
  }

  it('a header that is given twice and a name with a space are issues', () => {
    const { issues } = refusal(() => load(withHeaders({ 'X-A': '1', 'x-a': '2', 'x b': '3' })));
    expect(issues.map(({ expected }) => expected)).to.deep.equal([
      'each header once, whatever its case',
      'a valid header name',
    ]);
  });

  it('only a process that calls upstreams needs the credentials', () => {
    const settings = {
      ...withHeaders({ Authorization: { env: 'MISSING_KEY' } }),
      roles: ['authorization-server', 'management'],
      store: 'redis://localhost:6379',
    };
    expect(load(settings).upstreams[0]?.headers).to.deep.equal({});
  });
});

describe('What the settings say about the caller', () => {
  const issuesWith = (caller: object, more: object = {}) =>
    issuesIn(withUpstream(DEVELOPMENT, { url: URL, caller, ...more }));
  const withHeader = (name: string) => ({ claims: ['email'], headers: { [name]: 'email' } });
  const SETTING = 'resourceServer.upstream.caller';

  it('claims and plain headers are read, and names of headers are in lower case', () => {
    const caller = {
      claims: ['email', 'name'],
      headers: { 'X-User-Email': 'email', X_User: 'sub' },
    };
    const [upstream] = load(withUpstream(DEVELOPMENT, { url: URL, caller })).upstreams;
    expect(upstream?.caller).to.deep.equal({
      claims: ['email', 'name'],
      headers: { 'x-user-email': 'email', x_user: 'sub' },
    });
  });

  const RESERVED = [
    'Gatehouse-Caller',
    'gatehouse_caller',
    'Gatehouse-Anything',
    'Mcp-Session-Id',
    'mcp_name',
    'Mcp-Param-User',
    'Host',
    'Connection',
    'CONTENT_LENGTH',
    'Transfer-Encoding',
    'Authorization',
    'Cookie',
    'Origin',
    'traceparent',
    'DPoP',
  ];
  for (const name of RESERVED)
    it(`UPS-26 the header ${name} cannot have a claim, because it has another meaning`, () => {
      const [issue, ...more] = issuesWith(withHeader(name));
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal(`${SETTING}.headers.${name}`);
      expect(issue?.expected).to.include('gatehouse-…').and.include('mcp-…');
    });

  const ISSUES: Record<string, [caller: object, setting: string, expected: RegExp, more?: object]> =
    {
      'an unknown claim': [{ claims: ['phone'] }, '.claims[0]', /name, email, groups/],
      'a repeated claim': [{ claims: ['name', 'name'] }, '.claims', /each claim once/],
      'a header with an unknown claim': [{ headers: { 'X-User': 'id' } }, '.headers.X-User', /sub/],
      'a header with a claim that is not in claims': [
        { claims: ['name'], headers: { 'X-User-Email': 'email' } },
        '.headers.X-User-Email',
        /add email to them/,
      ],
      'a header with a space in its name': [
        { headers: { 'X User': 'sub' } },
        '.headers.X User',
        /valid header name/,
      ],
      'two headers that servers could read as the same': [
        { headers: { 'X-User': 'sub', x_user: 'sub' } },
        '.headers.x_user',
        /each header once/,
      ],
      'a header that is also in headers': [
        { headers: { 'X-User': 'sub' } },
        '.headers.X-User',
        /another name/,
        { headers: { X_User: 'robot' } },
      ],
    };
  for (const [what, [caller, setting, expected, more]] of Object.entries(ISSUES))
    it(`${what} is an issue`, () => {
      const [issue, ...others] = issuesWith(caller, more);
      expect(others).to.deep.equal([]);
      expect(issue?.setting).to.equal(SETTING + setting);
      expect(issue?.expected).to.match(expected);
    });

  for (const [list, entry] of [
    ['resources', { uri: 'docs://*' }],
    ['prompts', { name: 'summarize' }],
  ] as const)
    it(`an entry of ${list} that is repeated, or has an unknown level, is an issue`, () => {
      const withEntries = (...levels: string[]) =>
        issuesIn(
          withUpstream(DEVELOPMENT, {
            url: URL,
            [list]: levels.map((level) => ({ ...entry, level })),
          }),
        ).map(({ setting }) => setting);
      expect(withEntries('full', 'admin')).to.deep.equal([`resourceServer.upstream.${list}`]);
      expect(withEntries('owner')).to.deep.equal([`resourceServer.upstream.${list}[0].level`]);
    });
});
