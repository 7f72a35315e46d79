/* SPDX-License-Identifier: Apache-2.0 */
/* adopt_manifest.h: a local file that describes objects to be adopted, one JSON object per line, so
 * that they need not be read. Its claims are not trusted any further than those of a catalog: a
 * merge compares the size, checksum and rows of each object with them. */
#ifndef COMPACT_WORK_ADOPT_MANIFEST_H
#define COMPACT_WORK_ADOPT_MANIFEST_H

#include "compact/work/adopt.h"

#define MANIFEST_BYTES_MAX   ((uint64_t)1024 * 1024 * 1024)
#define MANIFEST_LINE_MAX    ((size_t)16 * 1024)
#define MANIFEST_OBJECTS_MAX 1000000

struct adopt_manifest;

/* INVALID: a line is malformed, or describes an object twice; the error names the line. NOT_FOUND:
 * there is no such file. */
enum hf_status adopt_manifest_read(const char *path, struct adopt_manifest **ret_manifest,
                                   struct hf_error *error);
void adopt_manifest_free(struct adopt_manifest *manifest);

/* What the manifest says about an object, for adopt_options.describe; false: nothing. */
bool adopt_manifest_describe(const struct adopt_manifest *manifest, struct view key,
                             struct adopt_facts *ret_facts);

/* Notes that the object is in the bucket. */
void adopt_manifest_listed(struct adopt_manifest *manifest, struct view key);

/* How many objects of the manifest were not listed; if there are any, the first of them. */
uint64_t adopt_manifest_unlisted(const struct adopt_manifest *manifest, struct view *ret_first);

#endif
