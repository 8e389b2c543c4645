import { expect } from 'chai';
import {
  issuesIn,
  load,
  PRODUCTION,
  loadInProduction,
  DEVELOPMENT,
  settingsFile,
} from './settings-file.ts';

const SECRET = `whsec_${Buffer.alloc(24, 'a').toString('base64')}`;
const OTHER = `whsec_${Buffer.alloc(64, 'b').toString('base64')}`;
const WEBHOOK = {
  id: 'siem',
  kind: 'webhook',
  url: 'https://siem.example.com/x?y=1',
  secretEnv: 'SIEM_SECRET',
};
const OTLP = { id: 'otel', kind: 'otlp', url: 'https://otel.example.com/v1/logs' };

describe('the settings of the delivery of the audit log', () => {
  const withTargets = (...delivery: object[]) => ({ ...DEVELOPMENT, audit: { delivery } });
  const environment = { SIEM_SECRET: SECRET };

  it('a webhook and a collector get their defaults', () => {
    const { audit } = load(withTargets(WEBHOOK, OTLP), environment);
    const common = { privateNetwork: false, events: undefined, headers: {} };
    expect(audit.delivery).to.deep.equal([
      {
        ...common,
        id: 'siem',
        kind: 'webhook',
        url: WEBHOOK.url,
        format: 'standard',
        secrets: [SECRET],
      },
      { ...common, ...OTLP, maxAge: 43_200 },
    ]);
    expect(load(DEVELOPMENT).audit).to.deep.include({ delivery: [], keepUndelivered: 2_000_000 });
  });

  const two: Record<string, [target: object, environment: Record<string, string>]> = {
    'a list of variables': [{ secretEnv: ['ONE', 'TWO'] }, { ONE: SECRET, TWO: OTHER }],
    'two lines of a variable': [{ secretEnv: 'BOTH' }, { BOTH: `${SECRET}\n${OTHER}\n` }],
    'two lines of a file': [
      { secretEnv: undefined, secretFile: settingsFile(`${SECRET}\n\n${OTHER}\n`) },
      {},
    ],
    'a list of files': [
      { secretEnv: undefined, secretFile: [settingsFile(SECRET), settingsFile(OTHER)] },
      {},
    ],
    'a variable and a file': [
      { secretEnv: 'ONE', secretFile: settingsFile(OTHER) },
      { ONE: SECRET },
    ],
  };
  for (const [title, [target, given]] of Object.entries(two))
    it(`two signing secrets can be ${title}`, () => {
      const [read] = load(withTargets({ ...WEBHOOK, ...target }), given).audit.delivery;
      expect(read).to.deep.include({ secrets: [SECRET, OTHER] });
    });

  it('headers come from texts, variables and files', () => {
    const headers = {
      Authorization: { env: 'SIEM_AUTHORIZATION' },
      'X-Tenant': 'acme',
      'Api-Key': { file: settingsFile('key-of-the-file\n') },
    };
    const [read] = load(withTargets({ ...OTLP, headers }), {
      SIEM_AUTHORIZATION: 'Splunk abc',
    }).audit.delivery;
    expect(read?.headers).to.deep.equal({
      authorization: 'Splunk abc',
      'x-tenant': 'acme',
      'api-key': 'key-of-the-file',
    });
  });

  it('DLV-07 plain http, addresses and this computer need privateNetwork, in development too', () => {
    const urls = [
      'http://siem.example.com/x',
      'https://10.0.0.1/x',
      'https://93.184.215.14/x',
      'https://[::1]/x',
      'https://localhost:8443/x',
    ];
    for (const url of urls) {
      const [issue, ...more] = issuesIn(withTargets({ ...OTLP, url }));
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal('audit.delivery[0].url');
      expect(issue?.expected).to.include('audit.delivery[0].privateNetwork: true');
      const target = { ...OTLP, url, privateNetwork: true };
      expect(
        loadInProduction({ ...PRODUCTION, audit: { delivery: [target] } }).audit.delivery[0]?.url,
      ).to.equal(url);
    }
  });

  it('DLV-08 all issues are reported at once, without secrets', () => {
    const secrets = {
      SHORT: `whsec_${Buffer.alloc(23, 'a').toString('base64')}`,
      LONG: `whsec_${Buffer.alloc(65, 'a').toString('base64')}`,
      PHRASE: 'correct horse battery staple',
      PASTED: `v1,${SECRET}`,
    };
    const issues = issuesIn(
      withTargets(
        ...Object.keys(secrets).map((secretEnv, n) => ({ ...WEBHOOK, id: `w${n}`, secretEnv })),
        { ...WEBHOOK, id: 'none', secretEnv: undefined },
        { ...WEBHOOK, id: 'missing', secretEnv: 'NOT_SET' },
        { ...WEBHOOK, id: 'many', secretEnv: ['ONE', 'TWO'], secretFile: settingsFile(SECRET) },
        { ...WEBHOOK, id: 'age', maxAge: '1h' },
        { ...OTLP, secretEnv: 'ONE', secretFile: '/x', format: 'array' },
        { ...OTLP, id: 'signed', headers: { 'Webhook-Signature': 'x', Host: 'y' } },
      ),
      { ...secrets, ...environment, ONE: SECRET, TWO: OTHER },
    );
    expect(issues.map(({ setting }) => setting.replace('audit.delivery', ''))).to.deep.equal([
      '[0].secretEnv',
      '[1].secretEnv',
      '[2].secretEnv',
      '[3].secretEnv',
      '[4]',
      '[5].secretEnv',
      '[6]',
      '[7].maxAge',
      '[8].secretEnv',
      '[8].secretFile',
      '[8].format',
      '[9].headers.Webhook-Signature',
      '[9].headers.Host',
    ]);
    for (const secret of [...Object.values(secrets), SECRET])
      expect(JSON.stringify(issues)).to.not.include(secret);
  });

  const WRONG: Record<string, [targets: object[], setting: string, expected: RegExp]> = {
    'an unknown kind': [[{ ...OTLP, kind: 'syslog' }], 'audit.delivery[0].kind', /webhook or otlp/],
    'an id twice': [[OTLP, OTLP], 'audit.delivery', /a unique id for each/],
    'an unknown event': [
      [{ ...OTLP, events: ['calls'] }],
      'audit.delivery[0].events[0]',
      /the name of an event/,
    ],
    'no events': [[{ ...OTLP, events: [] }], 'audit.delivery[0].events', /at least 1/],
    'a password in the address': [
      [{ ...OTLP, url: 'https://a:hunter2@example.com' }],
      'audit.delivery[0].url',
      /the whole address/,
    ],
    'an unknown member': [
      [{ ...OTLP, secret: SECRET }],
      'audit.delivery[0].secret',
      /known|one of/,
    ],
    'too many targets': [
      Array.from({ length: 11 }, (_, n) => ({ ...OTLP, id: `t${n}` })),
      'audit.delivery',
      /at most 10 targets/,
    ],
  };
  for (const [title, [targets, setting, expected]] of Object.entries(WRONG))
    it(`${title} is refused`, () => {
      const [issue, ...more] = issuesIn(withTargets(...targets), environment);
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal(setting);
      expect(issue?.expected).to.match(expected);
      expect(JSON.stringify(issue)).to.not.include('hunter2');
    });
});
