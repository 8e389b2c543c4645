// The guard of metadata documents, tried from here: a name that leads to this computer has to be refused.
import { requireAddressGuard } from '../authorization-server/engine/guarded-fetch.ts';
import type { Deployment } from './deployment.ts';
import { type Finding, wordsOf } from './finding.ts';

export async function guardFindings({ network }: Deployment): Promise<Finding[]> {
  const words = wordsOf('document-guard', 'client metadata documents');
  try {
    await requireAddressGuard(network);
    return [words.ok('addresses inside are refused')];
  } catch {
    return [
      words.problem({
        what: 'a client metadata document would be fetched from this computer itself',
        why: 'anybody could have Gatehouse send requests to machines that only it reaches',
        remedy:
          'run the source as it was released; until then take no documents (clients.metadataDocumentHosts: [])',
      }),
    ];
  }
}
