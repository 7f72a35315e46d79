/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h: removes a whole partition with its chunks.
 *
 *     struct hf_compact_drop_report report = HF_COMPACT_DROP_REPORT;
 *     hf_compact_drop(compact, NULL, &report, &error);    mark it, and delete what may be deleted
 *     ... once the grace period and the late bound have passed ...
 *     hf_compact_drop(compact, NULL, &report, &error);    delete the rest; report.gone says if all
 *
 * The first call marks the partition. From then on, ingest, merges and new readers return
 * HF_NOT_FOUND, and the mark is never removed. Chunks are deleted after the grace period, and
 * never while a reader has pinned them. Names and catalogs are removed after the late bound (D) of
 * the settings, when no abandoned request can take effect any more. Workers of the partition and
 * sweeps also do this work, so a drop may be interrupted at any point, and finishes even if
 * hf_compact_drop is never called again. Objects of other partitions are not touched. Adopted
 * objects (adopt.h) stay where they are, unless the partition owns them; those are deleted like
 * chunks. At the end, twice the late bound after the mark, the paths that the partition has
 * registered are released, so that any partition may adopt their objects.
 *
 * On a store without conditional delete, the lease table and a short catalog document remain. The
 * partition counts as absent, and may be created again. */
#ifndef HOLDFAST_DROP_H
#define HOLDFAST_DROP_H

#include "holdfast/compact.h"

#ifdef __cplusplus
extern "C" {
#endif

struct hf_compact_drop_options {
    size_t struct_size;
    bool dry_run; /* only report what would be dropped */
    /* Optional. Called between two steps. Return false to stop with HF_CANCELLED; call again to
     * continue. */
    bool (*progress)(void *argument);
    void *argument;
};
#define HF_COMPACT_DROP_OPTIONS                                                             \
    HF_VALUE_(hf_compact_drop_options, sizeof(struct hf_compact_drop_options), false, NULL, \
              NULL)

struct hf_compact_drop_report {
    size_t struct_size;
    bool marked;                          /* the drop has begun */
    bool gone;                            /* nothing is left of the partition */
    uint64_t catalogs;                    /* catalogs that are left */
    uint64_t chunks, bytes;               /* live before this call */
    uint64_t tombstones, tombstone_bytes; /* not yet past their grace period */
    uint64_t deleting;                    /* names not yet past the late bound */
    uint64_t deleted;                     /* objects that this call deleted */
    uint64_t pinned;                      /* objects kept because of a pin */
    int64_t wait_ms; /* at least this long until nothing is left; longer if chunks are pinned */
};
#define HF_COMPACT_DROP_REPORT                                                                \
    HF_VALUE_(hf_compact_drop_report, sizeof(struct hf_compact_drop_report), false, false, 0, \
              0, 0, 0, 0, 0, 0, 0, 0)

/* Drops the partition: does everything that can be done now. `options` and `report` may be NULL;
 * the report is set regardless of the status.
 *
 * Returns HF_OK if the partition is marked; report.gone tells whether anything is left. Returns
 * HF_NOT_FOUND if the partition does not exist, HF_CANCELLED if `progress` stopped the call, and
 * HF_CORRUPT or HF_UNSUPPORTED if a catalog cannot be read: then nothing of that catalog is
 * deleted. */
HF_API enum hf_status hf_compact_drop(struct hf_compact *compact,
                                      const struct hf_compact_drop_options *options,
                                      struct hf_compact_drop_report *report,
                                      struct hf_error *error);

#ifdef __cplusplus
}
#endif

#endif
