/* s3.h: what the probe and the program ask of an s3 store beyond the common interface. */
#ifndef STORE_S3_H
#define STORE_S3_H

#include "store/store.h"

/* How a store wants the ETag in If-Match of a put: AWS takes it quoted, Ceph bare only. */
enum s3_etag_form { S3_ETAG_UNKNOWN, S3_ETAG_QUOTED, S3_ETAG_BARE };

/* Is this one of ours? Wrappers are not. */
bool s3_is(const struct store *store);

/* Where requests go if anybody on the way there can read and change them: over http, to another
 * machine than this one. Else NULL, also when it is none of ours. */
const char *s3_exposed_to(const struct store *store);

/* Finds out the form with one scratch object, which it deletes again, unless it is known. The
 * first put with if-match does so by itself. UNSUPPORTED when neither form works. */
enum hf_status s3_probe_etag_form(struct store *store, struct mono_time deadline,
                                  struct hf_error *error);

/* What was found, or what an earlier probe has written down. */
enum s3_etag_form s3_etag_form(struct store *store);

#endif
