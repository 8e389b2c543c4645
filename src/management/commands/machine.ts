import { createPublicKey } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { machineCommand } from '../../connectors/app-instructions.ts';
import { ManagementError } from '../api/management-error.ts';
import type { MachineResource } from '../api/resources.ts';
import { expiryMembers, parseTime, type RelativeOrAbsoluteTime } from './option-values.ts';
import { CLIENT, CONNECTOR, resolveClient, resolveConnector } from './resolve.ts';
import { details, minute, plain, type Terminal } from './terminal.ts';

const EXAMPLES = `
Examples:
  $ gatehouse client create --name "CI" --connector <connector> --level operations
  $ gatehouse client create --name "CI" --connector <connector> --level operations --public-key ci.pub.pem
  $ gatehouse client key CI`;

const CREATE_HELP = `
A machine connects through one connector at one level (OAuth client credentials), and counts as one use of the connector.
Without a public key, it gets a secret, which is shown only once.
${EXAMPLES}`;

const KEY_HELP = `
Without a public key, the machine gets a new secret, which is shown only once.
${EXAMPLES}`;

const KEY_FILE = 'file with its public key: PEM, JWK or JWK set';
const KEY_ADDRESS = 'https address of its public keys (JWK set)';

type PublicJwk = { kty: 'EC' | 'OKP' | 'RSA' } & Record<string, unknown>;
type KeyOptions = { publicKey?: string; jwksUri?: string };
type CreateOptions = KeyOptions & {
  name: string;
  connector: string;
  level: string;
  expires?: RelativeOrAbsoluteTime;
};

/** Adds `create` and `key` to `gatehouse client`. */
export function addMachineCommands(client: Command, { openClient, print }: Terminal): void {
  client
    .command('create')
    .description('create a machine: a client that connects without a person')
    .requiredOption('--name <name>', 'name in lists and in the audit log')
    .requiredOption('--connector <connector>', CONNECTOR)
    .requiredOption('--level <level>', 'level of its calls, at most that of the connector')
    .option('--public-key <file>', KEY_FILE)
    .option('--jwks-uri <url>', KEY_ADDRESS)
    .option(
      '--expires <when>',
      'expires after 12h, 30d or 366d, or at an ISO 8601 time (default: 90d)',
      parseTime,
    )
    .addHelpText('after', CREATE_HELP)
    .action(async ({ expires, connector: text, publicKey, jwksUri, ...options }: CreateOptions) => {
      const key = await keyMembers({ publicKey, jwksUri });
      const api = openClient();
      const connector = await resolveConnector(api, text);
      const body = { ...options, connector, ...key, ...expiryMembers(expires) };
      print(await api.createMachine({ body }), (machine) => machineText('Created', machine));
    });
  client
    .command('key')
    .description('replace the secret or key of a machine and end its tokens immediately')
    .argument('<client>', CLIENT)
    .option('--public-key <file>', KEY_FILE)
    .option('--jwks-uri <url>', KEY_ADDRESS)
    .addHelpText('after', KEY_HELP)
    .action(async (text: string, options: KeyOptions) => {
      const key = await keyMembers(options);
      const api = openClient();
      const id = await resolveClient(api, text);
      print(await api.replaceMachineKey({ body: { id, ...key } }), (machine) =>
        machineText('Replaced the key of', machine),
      );
    });
}

async function keyMembers({
  publicKey,
  jwksUri,
}: { [Name in keyof KeyOptions]: string | undefined }) {
  if (publicKey === undefined) return jwksUri === undefined ? {} : { jwksUri };
  if (jwksUri !== undefined)
    throw new ManagementError('invalid_request', 'use either --public-key or --jwks-uri, not both');
  return { jwks: keySetIn(await readKeyFile(publicKey), publicKey) };
}

async function readKeyFile(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new ManagementError('invalid_request', `${file} cannot be read (${code})`);
  }
}

/** A private key never leaves this computer. */
function keySetIn(text: string, file: string): { keys: PublicJwk[] } {
  if (/PRIVATE KEY|"d"\s*:/.test(text))
    throw new ManagementError(
      'invalid_request',
      `${file} contains a private key. Export the public key: openssl pkey -in ${file} -pubout`,
    );
  try {
    const parsed = text.trimStart().startsWith('{')
      ? JSON.parse(text)
      : createPublicKey(text).export({ format: 'jwk' });
    return Array.isArray(parsed.keys) ? parsed : { keys: [parsed] };
  } catch {
    throw new ManagementError(
      'invalid_request',
      `${file} is not a public key in PEM, JWK or JWK set format`,
    );
  }
}

function machineText(did: string, machine: MachineResource): string {
  const { id, name, link, level, expiresAt, secret, authentication } = machine;
  return `${did} the machine ${plain(name)}.${secret === undefined ? '' : ' Its secret is shown only once.'}

${details({
  'client id': id,
  ...(secret === undefined ? { authentication } : { secret }),
  resource: link,
  level,
  expires: minute(expiresAt),
})}
${
  secret === undefined
    ? ''
    : `\nTo test (asks for the secret):\n  ${machineCommand({ id, link })}\n`
}
To revoke it:
  gatehouse client revoke ${id}
`;
}
