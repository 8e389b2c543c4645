// Whether a file is on another machine, where SQLite cannot rely on locks and on writes that reached the disk.
import { statfs } from 'node:fs/promises';

/** `f_type` in statfs(2) on Linux. */
const NAMES: Readonly<Record<number, string>> = {
  0x564c: 'NCP',
  0x517b: 'SMB',
  0x6969: 'NFS',
  0xff534d42: 'CIFS',
  0xfe534d42: 'SMB 2',
  0x65735546: 'FUSE',
  0x01021997: '9P',
  0x5346414f: 'AFS',
  0x6b414653: 'AFS',
  0x00c36400: 'Ceph',
  0x0bd00bd0: 'Lustre',
};

/** Undefined for the types of local disks. Types above 31 bits arrive with or without a sign. */
export function networkFileSystem(type: number): string | undefined {
  return NAMES[type >>> 0];
}

/** A warning about the folder of a SQLite file. Undefined also on systems where types have other numbers. */
export async function networkNotice(folder: string): Promise<string | undefined> {
  if (process.platform !== 'linux') return undefined;
  const name = networkFileSystem((await statfs(folder)).type);
  return (
    name &&
    `${folder} is on a file system of the type ${name}, which is mostly on another machine, where SQLite can lose data: move the data directory to a local disk, or use Redis`
  );
}
