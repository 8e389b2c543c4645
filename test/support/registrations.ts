// What real MCP clients register with dynamic registration (RFC 7591), and what is peculiar about how each goes on.
import type { AuthMethod } from './oauth.ts';

/** Where a real client departs from the plain flow; `scope` says what it asks for, `none` meaning no such parameter. */
export type ClientHabits = {
  name: string;
  /** The address it listens on when it authorizes; not always one it registered. */
  redirectUri: string;
  method: AuthMethod;
  scope: 'none' | 'challenge' | 'all advertised' | { exactly: string };
  prompt?: 'consent';
  /** How the connect link goes into the authorization request. */
  resource: 'once' | 'twice' | 'with a slash';
  /** What it repeats when it refreshes. */
  refreshes: { resource: boolean; scope: 'none' | 'granted' };
};

export type Registration = ClientHabits & { metadata: Record<string, unknown> };

const BOTH = ['authorization_code', 'refresh_token'];
const CODE = { grant_types: BOTH, response_types: ['code'] };
const PUBLIC = { ...CODE, token_endpoint_auth_method: 'none' };

const USUAL = {
  method: 'none',
  scope: 'challenge',
  resource: 'once',
  refreshes: { resource: true, scope: 'none' },
} as const;

export const REGISTRATIONS: Registration[] = [
  {
    // modelcontextprotocol/modelcontextprotocol#653: the scope is nobody's, and is sent to authorize when none is advertised.
    ...USUAL,
    name: 'claude.ai',
    redirectUri: 'https://claude.ai/api/mcp/auth_callback',
    scope: { exactly: 'claudeai' },
    metadata: {
      ...PUBLIC,
      client_name: 'claudeai',
      scope: 'claudeai',
      redirect_uris: ['https://claude.ai/api/mcp/auth_callback'],
    },
  },
  {
    // anthropics/claude-code#8001 and #41610: no scope when it registers, offline_access when it authorizes.
    ...USUAL,
    name: 'Claude Code',
    redirectUri: 'http://localhost:54212/callback',
    scope: { exactly: 'operations offline_access' },
    prompt: 'consent',
    metadata: {
      ...PUBLIC,
      client_name: 'Claude Code (gatehouse)',
      redirect_uris: ['http://localhost:54212/callback'],
    },
  },
  {
    // modelcontextprotocol/inspector 2.3, core/auth/providers.ts: an empty scope when nothing was advertised yet.
    ...USUAL,
    name: 'Inspector v2',
    redirectUri: 'http://127.0.0.1:6276/oauth/callback',
    metadata: {
      ...PUBLIC,
      client_name: 'MCP Inspector',
      client_uri: 'https://github.com/modelcontextprotocol/inspector',
      redirect_uris: ['http://127.0.0.1:6274/oauth/callback'],
      application_type: 'native',
      scope: '',
    },
  },
  {
    // microsoft/vscode, src/vs/base/common/oauth.ts, and #278512: another loopback port when 33418 is busy.
    ...USUAL,
    name: 'VS Code',
    redirectUri: 'http://127.0.0.1:51763/',
    metadata: {
      client_name: 'Visual Studio Code',
      client_uri: 'https://code.visualstudio.com',
      grant_types: [...BOTH, 'urn:ietf:params:oauth:grant-type:device_code'],
      response_types: ['code'],
      redirect_uris: [
        'https://insiders.vscode.dev/redirect',
        'https://vscode.dev/redirect',
        'http://127.0.0.1/',
        'http://127.0.0.1:33418/',
      ],
      scope: 'analytics operations',
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
  },
  {
    // better-auth/better-auth#10946 and forum.cursor.com/t/165019: a scheme of its own, a web page and loopback, all "web".
    ...USUAL,
    name: 'Cursor',
    redirectUri: 'http://localhost:8787/callback',
    scope: 'all advertised',
    metadata: {
      ...PUBLIC,
      client_name: 'Cursor',
      application_type: 'web',
      redirect_uris: [
        'cursor://anysphere.cursor-mcp/oauth/callback',
        'https://www.cursor.com/agents/mcp/oauth/callback',
        'http://localhost:8787/callback',
      ],
    },
  },
  {
    // modelcontextprotocol/python-sdk, src/mcp/client/auth/oauth2.py: no auth method, so it gets a secret and uses Basic.
    ...USUAL,
    name: 'Python SDK',
    redirectUri: 'http://localhost:3030/callback',
    method: 'client_secret_basic',
    scope: { exactly: 'analytics operations offline_access' },
    prompt: 'consent',
    metadata: {
      ...CODE,
      client_name: 'Simple Auth Client',
      redirect_uris: ['http://localhost:3030/callback'],
      scope: 'analytics operations',
    },
  },
  {
    // punkpeye/mcp-remote 0.15.1, dist/proxy.js.
    ...USUAL,
    name: 'mcp-remote',
    redirectUri: 'http://localhost:3335/oauth/callback',
    metadata: {
      ...PUBLIC,
      client_name: 'MCP CLI Proxy',
      client_uri: 'https://github.com/modelcontextprotocol/mcp-cli',
      software_id: '2e6dc280-f3c3-4e01-99a7-8181dbd1d23d',
      software_version: '0.15.1',
      redirect_uris: ['http://localhost:3335/oauth/callback'],
      scope: 'operations',
    },
  },
  {
    // block/goose, crates/goose/src/oauth/mod.rs, with modelcontextprotocol/rust-sdk, transport/auth.rs: no prompt, scope at refresh.
    ...USUAL,
    name: 'Goose',
    redirectUri: 'http://127.0.0.1:49880/oauth_callback',
    scope: { exactly: 'analytics operations offline_access' },
    refreshes: { resource: true, scope: 'granted' },
    metadata: {
      ...PUBLIC,
      client_name: 'goose',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1:49880/oauth_callback'],
      scope: 'analytics operations offline_access',
    },
  },
  {
    // openai/codex, codex-rs/rmcp-client/src/perform_oauth_login.rs; #15643 all scopes, #33403 no resource at refresh.
    ...USUAL,
    name: 'Codex',
    redirectUri: 'http://127.0.0.1:5555/callback/7f3a',
    scope: 'all advertised',
    resource: 'twice',
    refreshes: { resource: false, scope: 'granted' },
    metadata: {
      ...PUBLIC,
      client_name: 'Codex',
      application_type: 'native',
      redirect_uris: ['http://127.0.0.1:5555/callback/7f3a'],
      scope: 'analytics operations admin full offline_access',
    },
  },
  {
    // google-gemini/gemini-cli, packages/core/src/mcp/oauth-provider.ts: an empty scope, then every advertised one.
    ...USUAL,
    name: 'Gemini CLI',
    redirectUri: 'http://localhost:7777/oauth/callback',
    scope: 'all advertised',
    refreshes: { resource: true, scope: 'granted' },
    metadata: {
      ...PUBLIC,
      client_name: 'Gemini CLI MCP Client',
      redirect_uris: ['http://localhost:7777/oauth/callback'],
      scope: '',
    },
  },
  {
    // danny-avila/LibreChat, packages/api/src/mcp/oauth/handler.ts, self-hosted on this computer: prefers Basic, more response types.
    ...USUAL,
    name: 'LibreChat',
    redirectUri: 'http://localhost:3080/api/mcp/club/oauth/callback',
    method: 'client_secret_basic',
    metadata: {
      client_name: 'LibreChat MCP Client',
      client_uri: 'http://localhost:3080',
      logo_uri: '',
      grant_types: BOTH,
      response_types: ['code', 'id_token', 'code id_token'],
      redirect_uris: ['http://localhost:3080/api/mcp/club/oauth/callback'],
      token_endpoint_auth_method: 'client_secret_basic',
      scope: 'analytics operations',
    },
  },
  {
    // The manner of LM Studio: little is sent, and arrays are expected back.
    ...USUAL,
    name: 'LM Studio',
    redirectUri: 'http://127.0.0.1:33389/callback',
    scope: 'none',
    metadata: {
      client_name: 'LM Studio',
      redirect_uris: ['http://127.0.0.1:33389/callback'],
      token_endpoint_auth_method: 'none',
    },
  },
  {
    // anthropics/claude-code#13685: serializers that keep empty members; client_secret_post as older Python SDKs registered.
    ...USUAL,
    name: 'a client that sends empty members',
    redirectUri: 'http://127.0.0.1:8090/callback',
    method: 'client_secret_post',
    resource: 'with a slash',
    scope: 'none',
    metadata: {
      client_name: 'Empty Members',
      client_uri: null,
      logo_uri: '',
      tos_uri: null,
      policy_uri: null,
      jwks_uri: null,
      contacts: null,
      scope: null,
      software_id: null,
      redirect_uris: ['http://127.0.0.1:8090/callback'],
      grant_types: BOTH,
      response_types: ['code'],
      token_endpoint_auth_method: 'client_secret_post',
    },
  },
];
