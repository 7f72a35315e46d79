/* layout.h: every name that Holdfast itself gives to an object of a bucket, in one place. Each
 * is described, with an example, in docs/formats.md. */
#ifndef BASE_LAYOUT_H
#define BASE_LAYOUT_H

/* What this store can do, as the probe found it. */
#define LAYOUT_PROBE_FORMAT "holdfast.probe/1"
#define LAYOUT_PROBE_KEY    ".holdfast/probe.json"

/* The probe's scratch objects: LAYOUT_PROBE_SCRATCH <random>/<name>. */
#define LAYOUT_PROBE_SCRATCH ".holdfast/probe/"

/* Token epochs, one a namespace: LAYOUT_EPOCH_FOLDER <namespace>.json. */
#define LAYOUT_EPOCH_FORMAT "holdfast.epoch/1"
#define LAYOUT_EPOCH_FOLDER ".holdfast/epoch/"

/* Damaged documents, kept aside under their key and a random name. */
#define LAYOUT_KEPT_FOLDER ".holdfast/kept/"

/* Lease tables of a namespace: <ns>/meta/<name>.json, <ns>/inode/<id>.json, <ns>/paths.json; of
 * chunks: metadata/compaction-leases.json, or metadata/<partition>/compaction-leases.json. */
#define LAYOUT_NAMESPACE_DEFAULT "default"
#define LAYOUT_META_FOLDER       "/meta/"
#define LAYOUT_INODE_FOLDER      "/inode/"
#define LAYOUT_PATHS             "/paths.json"
#define LAYOUT_CHUNK_FOLDER      "metadata/"
#define LAYOUT_CHUNK_TABLE       "/compaction-leases.json"
#define LAYOUT_CHUNK_LEASES      "metadata/compaction-leases.json"

/* A fenced object: its fence stands under its key, larger bodies beside it under
 * <key> LAYOUT_BODY_FOLDER <token>-<seq>-<nonce>. */
#define LAYOUT_BODY_FOLDER ".hf/"

#endif
