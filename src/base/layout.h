/* layout.h: every name that Holdfast itself gives to an object of a bucket, in one place. Each
 * is described, with an example, in docs/formats.md. */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

#include "base/limits.h"
#include "base/view.h"

/* Which features a bucket uses, and what its store can do, as the probe found it. */
#define LAYOUT_BUCKET_FORMAT "holdfast.bucket/1"
#define LAYOUT_BUCKET_KEY    ".holdfast/format.json"

/* The probe's scratch objects: LAYOUT_PROBE_SCRATCH <random>/<name>. */
#define LAYOUT_PROBE_SCRATCH ".holdfast/probe/"

/* Token epochs, one a namespace: LAYOUT_EPOCH_FOLDER <namespace>.json, and a copy of each. */
#define LAYOUT_EPOCH_FORMATS     "holdfast.epoch/"
#define LAYOUT_EPOCH_FORMAT      LAYOUT_EPOCH_FORMATS "1"
#define LAYOUT_EPOCH_FOLDER      ".holdfast/epoch/"
#define LAYOUT_EPOCH_COPY_FOLDER ".holdfast/epoch-copy/"

/* Damaged documents, kept aside under their key and a random name. */
#define LAYOUT_KEPT_FOLDER ".holdfast/kept/"

/* Rows that a merge could not read: LAYOUT_KEPT_FOLDER <key of its output> LAYOUT_REJECTS. */
#define LAYOUT_REJECTS ".rejects"

/* Lease tables of a namespace: <ns>/meta/<name>.json, <ns>/inode/<id>.json, <ns>/paths.json; of
 * chunks: metadata/compaction-leases.json, or metadata/<partition>/compaction-leases.json by the
 * partition that the chunk's key names. */
#define LAYOUT_NAMESPACE_DEFAULT "default"
#define LAYOUT_META_FOLDER       "/meta/"
#define LAYOUT_INODE_FOLDER      "/inode/"
#define LAYOUT_PATHS             "/paths.json"
#define LAYOUT_CHUNK_FOLDER      "metadata/"
#define LAYOUT_CHUNK_TABLE       "/compaction-leases.json"
#define LAYOUT_CHUNK_LEASES      "metadata/compaction-leases.json"

/* Whether a namespace cannot have this name: folders at the top of a bucket that are something
 * else. Names that start with a dot are none anyway. */
bool layout_namespace_reserved(struct view name);

/* Keys: their larger states are <ns> LAYOUT_STATE_FOLDER <key>/<token>-<etag>; which tables have
 * leases that end in an hour is <ns> LAYOUT_EXPIRY_FOLDER <YYYYMMDDHH>/<table>. */
#define LAYOUT_STATE_FOLDER  "/state/"
#define LAYOUT_EXPIRY_FOLDER "/.lease-index/"

/* Transactions: their records, and which may be purged in an hour. */
#define LAYOUT_TXN_FORMAT        "holdfast.txn/1"
#define LAYOUT_TXN_FOLDER        ".txn-decisions/m/"
#define LAYOUT_TXN_EXPIRY_FOLDER ".txn-decisions/e/"

/* How far the sweeper of a namespace has come: LAYOUT_SWEEP_FOLDER <ns>.json, and that of all
 * namespaces: LAYOUT_SWEEP_FOLDER LAYOUT_SWEEP_ALL .json, which no namespace can be called. */
#define LAYOUT_SWEEP_FORMAT "holdfast.sweep/1"
#define LAYOUT_SWEEP_FOLDER ".holdfast/sweep/"
#define LAYOUT_SWEEP_ALL    ".all"

/* Since when a sweeper has seen an object that nothing names: LAYOUT_SIGHT_FOLDER <its key>. */
#define LAYOUT_SIGHT_FORMAT "holdfast.sight/1"
#define LAYOUT_SIGHT_FOLDER ".holdfast/sight/"

/* A fenced object: its fence stands under its key, larger bodies beside it under
 * <key> LAYOUT_BODY_FOLDER <token>-<seq>-<nonce>. */
#define LAYOUT_BODY_FOLDER ".hf/"

/* Members of a group: LAYOUT_ROSTER_FOLDER <group>/<fingerprint>. */
#define LAYOUT_ROSTER_FORMAT "holdfast.member/1"
#define LAYOUT_ROSTER_FOLDER "roster/"

/* Compaction. A partition has its documents in metadata/<partition>/, the default one in metadata/;
 * its chunks are data/<partition>/L<level>/<yyyy>/<mm>/<id>.<format>. */
#define LAYOUT_PARTITION_DEFAULT "default"
#define LAYOUT_CATALOG_FORMAT    "holdfast.catalog/1"
#define LAYOUT_CATALOG           "catalog.json"
#define LAYOUT_JOBS_FORMAT       "holdfast.jobs/1"
#define LAYOUT_JOBS              "compaction-jobs.json"
#define LAYOUT_LEASES            "compaction-leases.json"
#define LAYOUT_PAUSE_FORMAT      "holdfast.pause/1"
#define LAYOUT_PAUSE             "pause"
#define LAYOUT_DATA_FOLDER       "data/"

/* What names are made of. */
static inline bool layout_is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

/* Whether it is a name that is one segment of a key: not empty, and not starting with a dot. */
bool layout_name_valid(struct view text, size_t bytes_max);

/* A partition's name is such a segment. */
#define PARTITION_BYTES_MAX 64
bool layout_partition_valid(struct view partition);

/* The partition that a chunk belongs to for ever, by its key: of data/<partition>/L<digits>/...;
 * the default one for all other keys. */
struct view layout_home(struct view chunk_key);

/* The key of a document of a partition: LAYOUT_CATALOG and so on. False when it is too long. */
bool layout_partition_key(struct view partition, const char *leaf,
                          char ret_key[KEY_BYTES_MAX + 1]);

/* An index: LAYOUT_INDEX_FOLDER <name>/ and below it index.json, inbox/<xx>/..., shards/<xx>.usv,
 * shards/<xx>.lock, aside/<id>.usv and .json, manifest.json. */
#define LAYOUT_INDEX_FOLDER "indexes/"
#define LAYOUT_INDEX        "index.json"
#define LAYOUT_MANIFEST     "manifest.json"
#define LAYOUT_INBOX_FOLDER "inbox/"
#define LAYOUT_SHARD_FOLDER "shards/"
#define LAYOUT_SHARD        ".usv"
#define LAYOUT_SHARD_LOCK   ".lock"
#define LAYOUT_ASIDE_FOLDER "aside/"

/* The name of an index: as that of a partition. */
#define INDEX_NAME_MAX 64
bool layout_index_valid(struct view name);

/* The name of a shard: 1 to 4 lower-case hexadecimal digits. */
#define SHARD_NAME_MAX 4
bool layout_shard_valid(struct view shard);

/* Whether an object of this key is Holdfast's own, by its name alone: documents, chunks, states,
 * bodies of fenced objects. Lease tables of namespaces are left to table_key_is_ours; entries in
 * the inbox of an index, which anybody may put, are not, nor are fences, which have their users'
 * names. */
bool layout_is_own(struct view key);

#endif
