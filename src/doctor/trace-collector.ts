// The collector of traces, asked as Gatehouse asks it: a delivery with nothing in it (OTLP over HTTP).
import { NoAnswer } from './ask.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, wordsOf } from './finding.ts';

const NOTHING = JSON.stringify({ resourceSpans: [] });
const WHY = 'traces are dropped; requests are answered all the same';

/** Where traces are off there is nothing to say. The answer is not repeated: it may hold the headers, which are secrets. */
export async function collectorFindings(deployment: Deployment): Promise<Finding[]> {
  const { traces } = settingsOf(deployment);
  if (!traces) return [];
  const words = wordsOf('traces', new URL(traces.url).origin);
  const headers = { ...traces.headers, 'content-type': 'application/json' };
  try {
    const question = { method: 'POST', headers, body: NOTHING } as const;
    const { status } = await deployment.askTrusted(traces.url, question);
    if (status >= 200 && status < 300) return [words.ok('it takes traces')];
    const what = `it answers ${status} to traces`;
    return [words.warning({ what, why: WHY, remedy: remedyFor(status) })];
  } catch (error) {
    if (!(error instanceof NoAnswer)) throw error;
    const remedy =
      'check OTEL_EXPORTER_OTLP_ENDPOINT, which has to be set for this command as well';
    return [words.warning({ what: `it takes no traces: ${error.message}`, why: WHY, remedy })];
  }
}

function remedyFor(status: number): string {
  if (status === 401 || status === 403)
    return 'check OTEL_EXPORTER_OTLP_HEADERS, which has to be set for this command as well';
  if (status === 415) return 'have the collector take OTLP over HTTP in JSON';
  return 'check the address: that for everything ends before /v1/traces, and is not the one for gRPC';
}
