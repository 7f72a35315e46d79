/* SPDX-License-Identifier: Apache-2.0 */
/* layout.h: every name that Holdfast itself gives to an object in a bucket. Each is described, with
 * an example, in docs/formats.md. */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

#include "base/limits.h"
#include "base/view.h"

/* The features that a bucket uses, and the probe's verdicts on its store. */
#define LAYOUT_BUCKET_FORMAT "holdfast.bucket/1"
#define LAYOUT_BUCKET_KEY    ".holdfast/format.json"

/* The probe's scratch objects: LAYOUT_PROBE_SCRATCH <random>/<name>. */
#define LAYOUT_PROBE_SCRATCH ".holdfast/probe/"

/* Clients that want to probe: LAYOUT_PROBE_TURNS <random>. */
#define LAYOUT_PROBE_TURNS ".holdfast/probe/turns/"

/* Token epochs, one per namespace: LAYOUT_EPOCH_FOLDER <namespace>.json, and a copy of each. */
#define LAYOUT_EPOCH_FORMATS     "holdfast.epoch/"
#define LAYOUT_EPOCH_FORMAT      LAYOUT_EPOCH_FORMATS "1"
#define LAYOUT_EPOCH_FOLDER      ".holdfast/epoch/"
#define LAYOUT_EPOCH_COPY_FOLDER ".holdfast/epoch-copy/"

/* Damaged documents, kept under their key and a random name. */
#define LAYOUT_KEPT_FOLDER ".holdfast/kept/"

/* Rows that a merge could not read: LAYOUT_KEPT_FOLDER <key of its output> LAYOUT_REJECTS. */
#define LAYOUT_REJECTS ".rejects"

/* Lease tables of a namespace: <ns>/meta/<name>.json, <ns>/inode/<id>.json, and <ns>/paths.json or
 * <ns>/paths/<page>.json; LAYOUT_PATHS_START finds both. Lease tables of chunks:
 * metadata/compaction-leases.json, or metadata/<partition>/compaction-leases.json for the partition
 * that is named in the chunk's key. */
#define LAYOUT_NAMESPACE_DEFAULT "default"
#define LAYOUT_META_FOLDER       "/meta/"
#define LAYOUT_INODE_FOLDER      "/inode/"
#define LAYOUT_PATHS             "/paths.json"
#define LAYOUT_PAGES_FOLDER      "/paths/"
#define LAYOUT_PATHS_START       "/paths"
#define LAYOUT_SCOPE_FOLDER      "/scope/" /* in leases of a server; no object has such a key */
#define LAYOUT_CHUNK_FOLDER      "metadata/"
#define LAYOUT_CHUNK_TABLE       "/compaction-leases.json"
#define LAYOUT_CHUNK_LEASES      "metadata/compaction-leases.json"

/* Whether this name is reserved: a top-level folder of the bucket has it, so a namespace must not.
 * Names that start with a dot are never valid. */
bool layout_namespace_reserved(struct view name);

/* Keys: large states are <ns> LAYOUT_STATE_FOLDER <key>/<token>-<etag>. The expiry index, by
 * the hour in which leases end, is <ns> LAYOUT_EXPIRY_FOLDER <YYYYMMDDHH>/<table>. */
#define LAYOUT_STATE_FOLDER  "/state/"
#define LAYOUT_EXPIRY_FOLDER "/.lease-index/"

/* Transactions: their records, and the index of records by the hour in which they may be
 * purged. */
#define LAYOUT_TXN_FORMAT        "holdfast.txn/1"
#define LAYOUT_TXN_FOLDER        ".txn-decisions/m/"
#define LAYOUT_TXN_EXPIRY_FOLDER ".txn-decisions/e/"

/* The sweeper's progress in one namespace: LAYOUT_SWEEP_FOLDER <ns>.json. Its progress over all
 * namespaces: LAYOUT_SWEEP_FOLDER LAYOUT_SWEEP_ALL .json, where LAYOUT_SWEEP_ALL is not a valid
 * namespace. */
#define LAYOUT_SWEEP_FORMAT "holdfast.sweep/1"
#define LAYOUT_SWEEP_FOLDER ".holdfast/sweep/"
#define LAYOUT_SWEEP_ALL    ".all"
#define LAYOUT_SWEEP_SCRUB \
    ".scrub" /* where its scrub continues; not a valid namespace either */

/* When a sweeper first saw an object that nothing refers to: LAYOUT_SIGHT_FOLDER <its key>. */
#define LAYOUT_SIGHT_FORMAT "holdfast.sight/1"
#define LAYOUT_SIGHT_FOLDER ".holdfast/sight/"

/* A fenced object: its fence is stored under its key, and larger bodies are stored under <key>
 * LAYOUT_BODY_FOLDER <token>-<seq>-<nonce>. */
#define LAYOUT_BODY_FOLDER ".hf/"

/* Members of a group: LAYOUT_ROSTER_FOLDER <group>/<fingerprint>. */
#define LAYOUT_ROSTER_FORMAT "holdfast.member/1"
#define LAYOUT_ROSTER_FOLDER "roster/"

/* Compaction. The documents of a partition are in metadata/<partition>/, and the documents of the
 * default partition are in metadata/. Chunks are
 * data/<partition>/L<level>/<yyyy>/<mm>/<id>.<format>. */
#define LAYOUT_PARTITION_DEFAULT "default"
#define LAYOUT_CATALOG_FORMAT    "holdfast.catalog/1"
#define LAYOUT_CATALOG_FORMAT_2  "holdfast.catalog/2" /* see docs/formats.md */
#define LAYOUT_CATALOG           "catalog.json"
#define LAYOUT_JOBS_FORMAT       "holdfast.jobs/1"
#define LAYOUT_JOBS              "compaction-jobs.json"
#define LAYOUT_LEASES            "compaction-leases.json"
#define LAYOUT_PAUSE_FORMAT      "holdfast.pause/1"
#define LAYOUT_PAUSE             "pause"
#define LAYOUT_DATA_FOLDER       "data/"

/* Which partition may adopt which objects. */
#define LAYOUT_ADOPTED_FORMAT "holdfast.adopted/1"
#define LAYOUT_ADOPTED_KEY    "metadata/adopted.json"

/* The bytes that a name may contain. */
static inline bool layout_is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* Whether the text is a valid name for one segment of a key: not empty, and not starting with a
 * dot. */
bool layout_name_valid(struct view text, size_t bytes_max);

/* A partition name is such a segment. */
#define PARTITION_BYTES_MAX 64
bool layout_partition_valid(struct view partition);

/* The partition that a chunk permanently belongs to, according to its key:
 * data/<partition>/L<digits>/...; the default partition for all other keys. */
struct view layout_home(struct view chunk_key);

/* The key of a partition's document, such as LAYOUT_CATALOG. Returns false if the key is too
 * long. */
bool layout_partition_key(struct view partition, const char *leaf,
                          char ret_key[KEY_BYTES_MAX + 1]);

/* An index: LAYOUT_INDEX_FOLDER <name>/ and below it index.json, inbox/<xx>/..., shards/<xx>.usv,
 * shards/<xx>.lock, shards/<xx>.json beside a plain shard, aside/<id>.usv and .json,
 * manifest.json. */
#define LAYOUT_INDEX_FOLDER "indexes/"
#define LAYOUT_INDEX        "index.json"
#define LAYOUT_MANIFEST     "manifest.json"
#define LAYOUT_INBOX_FOLDER "inbox/"
#define LAYOUT_SHARD_FOLDER "shards/"
#define LAYOUT_SHARD        ".usv"
#define LAYOUT_SHARD_LOCK   ".lock"
#define LAYOUT_SIDECAR      ".json"
#define LAYOUT_ASIDE_FOLDER "aside/"

/* An index name follows the rules for partition names. */
#define INDEX_NAME_MAX 64
bool layout_index_valid(struct view name);

/* The name of a shard: 1 to 4 lower-case hexadecimal digits. */
#define SHARD_NAME_MAX 4
bool layout_shard_valid(struct view shard);

/* Whether the key is in a folder at the top of the bucket that only Holdfast uses. */
bool layout_in_own_folder(struct view key);

/* Whether an object with this key belongs to Holdfast, judged by the key alone: documents, chunks,
 * states, and bodies of fenced objects. table_key_is_ours checks the lease tables of namespaces.
 * Entries in an index's inbox do not count, because anybody may write them. Fences do not count,
 * because users choose their keys. */
bool layout_is_own(struct view key);

#endif
