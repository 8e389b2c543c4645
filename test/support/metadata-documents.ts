// Client ID Metadata Documents that real MCP clients publish, and how each client goes on; pinned by a setting, so nothing is fetched.
import type { ClientHabits } from './registrations.ts';

export type MetadataDocument = ClientHabits & {
  /** Where the document lives, and so the client_id. */
  url: string;
  document: Record<string, unknown>;
};

const CODE = { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] };
const USUAL = {
  method: 'none',
  scope: 'challenge',
  resource: 'once',
  refreshes: { resource: true, scope: 'none' },
} as const;

export const METADATA_DOCUMENTS: MetadataDocument[] = [
  {
    // As published in September 2026; anthropics/claude-code#64705: no application_type and no port, yet any port is used.
    ...USUAL,
    name: 'Claude Code',
    url: 'https://claude.ai/oauth/claude-code-client-metadata',
    redirectUri: 'http://localhost:58135/callback',
    document: {
      ...CODE,
      client_id: 'https://claude.ai/oauth/claude-code-client-metadata',
      client_name: 'Claude Code',
      client_uri: 'https://claude.ai',
      redirect_uris: ['http://localhost/callback', 'http://127.0.0.1/callback'],
      token_endpoint_auth_method: 'none',
    },
  },
  {
    // anthropics/claude-ai-mcp#650: the hosted client, with a grant type of enterprise-managed authorization.
    ...USUAL,
    name: 'claude.ai',
    url: 'https://claude.ai/oauth/mcp-oauth-client-metadata',
    redirectUri: 'https://claude.ai/api/mcp/auth_callback',
    document: {
      client_id: 'https://claude.ai/oauth/mcp-oauth-client-metadata',
      client_name: 'Claude',
      client_uri: 'https://claude.ai',
      redirect_uris: ['https://claude.ai/api/mcp/auth_callback'],
      grant_types: [...CODE.grant_types, 'urn:ietf:params:oauth:grant-type:jwt-bearer'],
      response_types: ['code'],
      token_endpoint_auth_method: 'none',
    },
  },
  {
    // As published in September 2026: a grant type we do not have, and a web page beside the loopback address.
    ...USUAL,
    name: 'VS Code',
    url: 'https://vscode.dev/oauth/client-metadata.json',
    redirectUri: 'http://127.0.0.1:60211/',
    document: {
      client_id: 'https://vscode.dev/oauth/client-metadata.json',
      client_name: 'Visual Studio Code',
      client_uri: 'https://vscode.dev/product',
      logo_uri: 'https://code.visualstudio.com/assets/branding/code-stable.png',
      grant_types: [...CODE.grant_types, 'urn:ietf:params:oauth:grant-type:device_code'],
      response_types: ['code'],
      redirect_uris: ['http://127.0.0.1:33418/', 'https://vscode.dev/redirect'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
  },
  {
    // block/goose, crates/goose/src/oauth/mod.rs.
    ...USUAL,
    name: 'Goose',
    url: 'https://goose-docs.ai/oauth/client-metadata.json',
    redirectUri: 'http://127.0.0.1:49882/oauth_callback',
    scope: { exactly: 'analytics operations offline_access' },
    refreshes: { resource: true, scope: 'granted' },
    document: {
      ...CODE,
      client_id: 'https://goose-docs.ai/oauth/client-metadata.json',
      client_name: 'goose',
      redirect_uris: ['http://127.0.0.1/oauth_callback', 'http://localhost/oauth_callback'],
      token_endpoint_auth_method: 'none',
      application_type: 'native',
    },
  },
  {
    // openai/codex, codex-rs/rmcp-client; chatgpt.com's documents list the methods beside the one.
    ...USUAL,
    name: 'Codex',
    url: 'https://chatgpt.com/oauth/codex/client.json',
    redirectUri: 'http://127.0.0.1:57585/callback',
    scope: 'all advertised',
    resource: 'twice',
    refreshes: { resource: false, scope: 'granted' },
    document: {
      ...CODE,
      client_id: 'https://chatgpt.com/oauth/codex/client.json',
      client_name: 'Codex',
      client_uri: 'https://chatgpt.com/',
      redirect_uris: ['http://127.0.0.1/callback', 'http://localhost/callback'],
      token_endpoint_auth_method: 'none',
      token_endpoint_auth_methods_supported: ['none'],
      application_type: 'native',
    },
  },
];
