// An MCP client that is a workload: `node workload-client.ts <url>`. Like the clients of the conformance suite, it finds its JWT in
// MCP_CONFORMANCE_CONTEXT. Prints the tools as JSON, or the error of the token endpoint.
import {
  Client,
  type OAuthClientProvider,
  OAuthError,
  type OAuthTokens,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';

type Context = { client_id: string; valid_jwt: string };

const [url = ''] = process.argv.slice(2);
const context: Context = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
let tokens: OAuthTokens | undefined;

const refuse = (): never => {
  throw new Error('a workload has no browser');
};

const provider: OAuthClientProvider = {
  redirectUrl: undefined,
  clientMetadata: { redirect_uris: [], token_endpoint_auth_method: 'none' },
  clientInformation: () => ({ client_id: context.client_id }),
  tokens: () => tokens,
  saveTokens: (saved) => void (tokens = saved),
  redirectToAuthorization: refuse,
  saveCodeVerifier: () => undefined,
  codeVerifier: refuse,
  prepareTokenRequest(scope) {
    const parameters = new URLSearchParams({
      grant_type: 'urn:ietf:params:oauth:grant-type:jwt-bearer',
      assertion: context.valid_jwt,
    });
    if (scope) parameters.set('scope', scope);
    return parameters;
  },
};

const client = new Client({ name: 'workload', version: '1.0.0' });
try {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
  await client.connect(transport);
  const { tools } = await client.listTools();
  console.log(JSON.stringify({ tools: tools.map(({ name }) => name) }));
  await client.close();
} catch (error) {
  const code = error instanceof OAuthError ? error.code : String(error);
  console.log(JSON.stringify({ error: code }));
  process.exitCode = 1;
}
