// The operator's MCP server, asked as the resource server asks it: whether it answers, and whether it has the tools that the settings name.
import { DatabaseSync } from 'node:sqlite';
import manifest from '../../package.json' with { type: 'json' };
import { type SigningKey, signingKey, SIGNING_KEYS } from '../keys/signing-keys.ts';
import {
  compareTools,
  DiscoveryError,
  discoverTools,
  listOf,
  remedyFor,
} from '../resource-server/upstream/discovery.ts';
import type { Settings } from '../settings/settings.ts';
import type { UpstreamSettings } from '../settings/schema.ts';
import { readStored } from '../store/name-key.ts';
import { closeRedis, connectRedis } from '../store/redis-client.ts';
import { type Deployment, settingsOf } from './deployment.ts';
import { type Finding, orOk, type Words, wordsOf } from './finding.ts';

const TIMEOUT_MS = 10_000;

/** Without an upstream there is nothing to say. */
export async function upstreamFindings(deployment: Deployment): Promise<Finding[]> {
  const settings = settingsOf(deployment);
  const { upstream } = settings.resourceServer;
  if (!upstream) return [];
  const { origin, pathname } = new URL(upstream.url);
  const words = wordsOf('upstream', origin + pathname);
  const now = deployment.now() / 1000;
  const keys = await readSigningKeys(settings).catch(() => undefined);
  try {
    const { revision, tools } = await discoverTools({
      url: upstream.url,
      maxAnswerBytes: upstream.maxAnswerBytes,
      issuer: settings.authUrl,
      ...(keys ? { signingKey: () => signingKey(keys, now) } : {}),
      version: manifest.version,
      timeout: TIMEOUT_MS,
      signal: deployment.signal,
      now: () => now,
    });
    return [
      words.ok(`the MCP server answers (MCP ${revision}) and has ${tools.length} tools`),
      ...toolFindings(
        upstream,
        tools.map(({ name }) => name),
      ),
    ];
  } catch (error) {
    if (!(error instanceof DiscoveryError)) throw error;
    if (error.fault === 'rejected' && !keys) return [withoutKeys(words)];
    return [
      words.problem({
        what: `the MCP server ${error.message}`,
        why:
          error.fault === 'rejected'
            ? 'it does not accept the header that says who calls, so every call fails'
            : 'every call through a connect link fails',
        remedy: remedyFor(error.fault),
      }),
    ];
  }
}

function withoutKeys(words: Words): Finding {
  return words.warning({
    what: 'the MCP server wants the header that says who calls, which cannot be signed here: the signing keys cannot be read',
    why: 'what may be wrong there is not known',
    remedy:
      'see what the check of the store says, and start Gatehouse once, which makes the signing keys',
  });
}

function toolFindings(upstream: UpstreamSettings, names: readonly string[]): Finding[] {
  const words = wordsOf('tools', 'resourceServer.upstream.tools');
  const tools = names.map((name) => ({ name }));
  const { missing, undeclared, needed } = compareTools(upstream, tools);
  if (names.length === 0)
    return [
      words.warning({
        what: 'the MCP server lists no tools',
        why: 'apps that connect have nothing to call',
        remedy: 'check what the MCP server shows to the caller gatehouse with the highest level',
      }),
    ];
  const counts = [...needed].map(([level, count]) => `${level} ${count}`).join(', ');
  const lacking = words.warning({
    what: `the MCP server does not have ${listOf(missing)}`,
    why: 'the levels of these names apply to nothing, and a tool with another spelling needs defaultLevel',
    remedy: `correct the names; it has ${listOf(names)}`,
  });
  const byDefault = words.note({
    what: `${undeclared.length} tools that are not named need defaultLevel, ${upstream.defaultLevel}: ${listOf(undeclared)}`,
    why: 'calls below that level are refused, and lists leave them out where nobody can have it',
    remedy: 'name those that a lower level may call',
  });
  return [
    ...orOk(
      missing.length > 0 ? [lacking] : [],
      words.ok(`the MCP server has every tool that is named; needed levels: ${counts}`),
    ),
    ...(undeclared.length > 0 ? [byDefault] : []),
  ];
}

/** Read without opening the store, which would write to it. */
async function readSigningKeys(settings: Settings): Promise<readonly SigningKey[] | undefined> {
  const { store } = settings;
  if (store.kind === 'sqlite') {
    const db = new DatabaseSync(store.file, { readOnly: true, timeout: 1000 });
    try {
      const select = db.prepare('SELECT value FROM entry WHERE name = ?');
      const read = async (name: string) => {
        const value = select.get(name)?.['value'];
        return value instanceof Uint8Array ? Buffer.from(value) : null;
      };
      return await readStored<SigningKey[]>(read, SIGNING_KEYS, settings);
    } finally {
      db.close();
    }
  }
  const client = await connectRedis(store, undefined);
  try {
    return await readStored<SigningKey[]>((name) => client.getBuffer(name), SIGNING_KEYS, settings);
  } finally {
    await closeRedis(client);
  }
}
