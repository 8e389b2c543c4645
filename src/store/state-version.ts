// Which versions of Gatehouse can use a store. Processes of adjacent versions use one store during a rolling update.

/** The oldest version that loses nothing of what this one stores. Raise it when an older one would lose or misread something. */
const OLDEST_WITHOUT_LOSS = '0.2.0';

type Versions = { version: string; needs: string };

/** Of a store that a process of this version creates. */
export function versionsOfNewStore(version: string): Versions {
  return { version, needs: OLDEST_WITHOUT_LOSS };
}

/** Of a store that a process of this version opens. An older process leaves them as they are. */
export function versionsAfterOpening(stored: Versions, version: string): Versions {
  return {
    version: newest(stored.version, version),
    needs: newest(stored.needs, OLDEST_WITHOUT_LOSS),
  };
}

/** Why a process of this version must not use the store. Undefined if it can. */
export function refusalOf(stored: Versions, version: string): string | undefined {
  if (!isNewer(stored.needs, version)) return undefined;
  return `the store was written by version ${stored.version} of Gatehouse, and this is ${version}, which would lose something in it: start version ${stored.needs} or later, or restore the backup from before the upgrade`;
}

function newest(first: string, second: string): string {
  return isNewer(second, first) ? second : first;
}

/** A prerelease counts as its release, because it stores the same. */
function isNewer(version: string, than: string): boolean {
  const [a = '', b = ''] = [version, than].map((each) => each.split(/[-+]/)[0]);
  return a.localeCompare(b, 'en', { numeric: true }) > 0;
}
