import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { runServer } from '../support/main-process.ts';
import { createDeployment, type Deployment } from '../support/system.ts';
import {
  startTraceCollector,
  traceSettings,
  type TraceCollector,
} from '../support/trace-collector.ts';

const MARK = 'loaded from OpenTelemetry';
/** Reports every OpenTelemetry module that is loaded, except the API, which prom-client always loads. */
const WATCH = `import { registerHooks } from 'node:module';
  registerHooks({ load(url, context, next) {
    if (/@opentelemetry\\/(?!api\\/)/.test(url)) process.stderr.write('${MARK}\\n');
    return next(url, context);
  } });`;

const WATCHING = `--import=data:text/javascript,${encodeURIComponent(WATCH)}`;
const execFileAsync = promisify(execFile);

describe('TRC-06 Loading of OpenTelemetry', () => {
  let place: Deployment;
  let collector: TraceCollector;
  beforeEach(async () => {
    place = await createDeployment();
    collector = await startTraceCollector();
  });
  afterEach(async () => {
    await collector.stop();
    await place.release();
  });

  async function run(settings: Record<string, string>): Promise<string> {
    const environment = { ...place.environment, ...settings, NODE_OPTIONS: WATCHING };
    const { stdout, stderr } = await runServer(environment, /Ctrl-C/);
    expect(stdout).to.include('is running');
    return stderr;
  }

  it('no OpenTelemetry module is loaded while traces are off', async () => {
    const settings = { ...traceSettings(collector), GATEHOUSE_TRACES: '' };
    expect(await run(settings)).to.not.include(MARK);
    expect(collector.requests).to.deep.equal([]);
  });

  it('the modules that traces need are reported', async () => {
    const module = fileURLToPath(import.meta.resolve('../../src/observability/opentelemetry.ts'));
    const { stderr } = await execFileAsync(process.execPath, [WATCHING, module]);
    expect(stderr).to.include(MARK);
  });
});
