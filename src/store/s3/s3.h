/* SPDX-License-Identifier: Apache-2.0 */
/* s3.h: functions of an s3 store, beyond the common interface, for the probe and the program. */
#ifndef STORE_S3_H
#define STORE_S3_H

#include "store/store.h"

/* The form in which a store accepts an ETag in a put's If-Match: AWS accepts it quoted, Ceph only
 * bare. */
enum s3_etag_form { S3_ETAG_UNKNOWN, S3_ETAG_QUOTED, S3_ETAG_BARE };

/* Whether this store itself is an s3 store. False for a wrapper around one. */
bool s3_is(const struct store *store);

/* Determines the form, unless it is known, with one scratch object, which it then deletes. The
 * first put with if-match does this automatically. UNSUPPORTED if neither form works. */
enum hf_status s3_probe_etag_form(struct store *store, struct mono_time deadline,
                                  struct hf_error *error);

/* The form that was found, or that an earlier probe has recorded. */
enum s3_etag_form s3_etag_form(struct store *store);

#endif
