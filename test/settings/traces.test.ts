import { expect } from 'chai';
import {
  DEVELOPMENT,
  load,
  loadInProduction,
  issuesIn,
  PRODUCTION,
  refusal,
} from './settings-file.ts';

const ON = { ...DEVELOPMENT, observability: { traces: true } };
const COLLECTOR = 'https://collector.example.com:4318';
const CANARY = 'canary-7f3a';

type Variables = Record<string, string>;

const tracesWith = (variables: Variables) => load(ON, variables).traces;

describe('observability.traces', () => {
  it('traces are off by default, whatever the OpenTelemetry variables say', () => {
    const variables = { OTEL_EXPORTER_OTLP_ENDPOINT: 'nonsense', OTEL_TRACES_SAMPLER: 'nonsense' };
    expect(load(DEVELOPMENT, variables).traces).to.equal(undefined);
    expect(load(ON, { GATEHOUSE_TRACES: 'false', ...variables }).traces).to.equal(undefined);
  });

  it('traces need no other setting', () => {
    const expected = {
      url: 'http://localhost:4318/v1/traces',
      headers: {},
      attributes: { 'service.name': 'gatehouse' },
      ratio: 1,
      timeout: 10_000,
      delay: 5000,
      queue: 2048,
      batch: 256,
    };
    expect(load(ON).traces).to.deep.equal(expected);
    expect(load(DEVELOPMENT, { GATEHOUSE_TRACES: 'true' }).traces).to.deep.equal(expected);
  });

  it('the variables that turn OpenTelemetry off turn traces off', () => {
    for (const [name, value] of Object.entries({
      OTEL_SDK_DISABLED: 'true',
      OTEL_TRACES_EXPORTER: 'none',
    }))
      expect(tracesWith({ [name]: value, OTEL_TRACES_SAMPLER: 'nonsense' }), name).to.equal(
        undefined,
      );
    expect(tracesWith({ OTEL_SDK_DISABLED: 'false' })).to.be.an('object');
  });

  it('the general endpoint variable gets the traces path appended, and the one for traces is used as it is', () => {
    const general = (endpoint: string) =>
      tracesWith({ OTEL_EXPORTER_OTLP_ENDPOINT: endpoint })?.url;
    expect(general(COLLECTOR)).to.equal(`${COLLECTOR}/v1/traces`);
    expect(general(`${COLLECTOR}/otlp/?tenant=a`)).to.equal(`${COLLECTOR}/otlp/v1/traces?tenant=a`);
    const own = {
      OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `${COLLECTOR}/mine`,
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://other:4318',
    };
    expect(tracesWith(own)?.url).to.equal(`${COLLECTOR}/mine`);
  });

  it('headers and resource attributes are percent-decoded', () => {
    const traces = tracesWith({
      OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Basic%20a%3D%3D, x-tenant=one',
      OTEL_EXPORTER_OTLP_TRACES_HEADERS: 'x-tenant=two',
      OTEL_RESOURCE_ATTRIBUTES: 'service.name=a,service.namespace=b%2Cc',
    });
    expect(traces?.headers).to.deep.equal({ authorization: 'Basic a==', 'x-tenant': 'two' });
    expect(traces?.attributes).to.deep.equal({ 'service.name': 'a', 'service.namespace': 'b,c' });
    const named = tracesWith({
      OTEL_SERVICE_NAME: 'mine',
      OTEL_RESOURCE_ATTRIBUTES: 'service.name=a',
    });
    expect(named?.attributes).to.deep.equal({ 'service.name': 'mine' });
  });

  const SAMPLERS: [sampler: string, argument: string, ratio: number][] = [
    ['always_on', '0.1', 1],
    ['always_off', '', 0],
    ['parentbased_always_on', '', 1],
    ['parentbased_always_off', '', 0],
    ['traceidratio', '0.25', 0.25],
    ['parentbased_traceidratio', '.5', 0.5],
    ['traceidratio', '0', 0],
    ['traceidratio', '1.0', 1],
    ['traceidratio', '', 1],
  ];
  for (const [sampler, argument, ratio] of SAMPLERS) {
    it(`the sample ratio is ${ratio} with ${sampler} ${argument}`, () => {
      const variables = { OTEL_TRACES_SAMPLER: sampler, OTEL_TRACES_SAMPLER_ARG: argument };
      expect(tracesWith(variables)?.ratio).to.equal(ratio);
    });
  }

  const ISSUES: [what: string, variables: Variables, expected: RegExp][] = [
    [
      'an endpoint that is not a URL',
      { OTEL_EXPORTER_OTLP_ENDPOINT: 'collector:4318' },
      /an address/,
    ],
    [
      'an address with a password',
      { OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: `https://me:${CANARY}@collector.example.com` },
      /OTLP_HEADERS/,
    ],
    ['malformed headers', { OTEL_EXPORTER_OTLP_HEADERS: `Bearer ${CANARY}` }, /name=value/],
    ['a line break', { OTEL_EXPORTER_OTLP_HEADERS: `a=${CANARY}%0D%0Ab` }, /name=value/],
    ['a broken escape', { OTEL_EXPORTER_OTLP_TRACES_HEADERS: `a=${CANARY}%zz` }, /name=value/],
    ['malformed resource attributes', { OTEL_RESOURCE_ATTRIBUTES: CANARY }, /name=value/],
    ['an unsupported protocol', { OTEL_EXPORTER_OTLP_PROTOCOL: 'grpc' }, /http\/json/],
    ['an unsupported exporter', { OTEL_TRACES_EXPORTER: 'zipkin' }, /otlp or none/],
    ['an unknown sampler', { OTEL_TRACES_SAMPLER: 'xray' }, /always_on/],
    [
      'a share above one',
      { OTEL_TRACES_SAMPLER_ARG: '2', OTEL_TRACES_SAMPLER: 'traceidratio' },
      /0 to 1/,
    ],
    ['a timeout of zero', { OTEL_EXPORTER_OTLP_TIMEOUT: '0' }, /milliseconds/],
    ['too many spans', { OTEL_BSP_MAX_QUEUE_SIZE: '9999999' }, /a whole number/],
  ];
  for (const [what, variables, expected] of ISSUES) {
    it(`TRC-07 traces with ${what} are an issue that does not show the value`, () => {
      const [issue, ...more] = issuesIn(ON, variables);
      expect(more).to.deep.equal([]);
      expect(issue?.setting).to.equal(Object.keys(variables)[0]);
      expect(issue?.expected).to.match(expected);
      expect(JSON.stringify(issue)).to.not.include(CANARY);
    });
  }

  it('a value other than true and false is an issue', () => {
    const [issue] = issuesIn(DEVELOPMENT, { GATEHOUSE_TRACES: 'yes' });
    expect(issue).to.deep.equal({
      setting: 'GATEHOUSE_TRACES',
      given: '"yes"',
      expected: 'true or false',
    });
  });

  it('TRC-07 production requires https, except on loopback and on a declared private network', () => {
    const inProduction = (endpoint: string, privateNetwork = false) =>
      loadInProduction(
        { ...PRODUCTION, observability: { traces: true, privateNetwork } },
        { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint },
      ).traces?.url;
    const { issues } = refusal(() => inProduction('http://collector:4318/?key=canary'));
    expect(issues).to.have.length(1);
    expect(issues[0]).to.include({
      setting: 'OTEL_EXPORTER_OTLP_ENDPOINT',
      given: '"http://collector:4318"',
    });
    expect(issues[0]?.expected).to.include('privateNetwork: true');
    expect(inProduction('http://collector:4318', true)).to.include('http://collector');
    expect(inProduction('http://127.0.0.1:4318')).to.include('127.0.0.1');
    expect(inProduction('')).to.include('localhost');
    expect(inProduction(COLLECTOR)).to.include(COLLECTOR);
  });
});
