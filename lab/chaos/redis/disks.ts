// A disk for each server, so that one can be full while the others have room.

import { FillableDisk } from '../../servers/fillable-disk.js'

/** As many disks as are wanted; none where disks can't be filled. */
export async function openDisks(count: number): Promise<FillableDisk[]> {
  const disks: FillableDisk[] = []
  for (let index = 0; index < count; index++) {
    const disk = await FillableDisk.open()
    if (disk === null) break
    disks.push(disk)
  }
  if (disks.length === count) return disks
  for (const disk of disks) await disk.close()
  return []
}
