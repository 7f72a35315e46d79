/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_inside.h: the format document of a bucket, decoded, for the two files that write it:
 * bucket.c adds verdicts, and bucket_add.c adds features and placements. */
#ifndef STORE_BUCKET_INSIDE_H
#define STORE_BUCKET_INSIDE_H

#include "store/bucket.h"

#define FORMAT_BYTES_MAX ((size_t)256 * KIB)
#define FEATURE_MAX      64
#define RETRY_PAUSE      SPAN_MS(500)

enum feature_list { COMPATIBLE, READ_ONLY, INCOMPATIBLE, FEATURE_LISTS };
extern const char *const bucket_list_names[FEATURE_LISTS];

struct feature_row {
    enum feature_list list;
    const char *name;
};
extern const struct feature_row bucket_features[BUCKET_FEATURES];

struct format {
    struct buffer text;     /* as it was read */
    struct etag etag;       /* empty: there is no document */
    struct wall_time now;   /* the store's time if known, else this machine's */
    struct view verdicts;   /* the array, as it was read; may be empty */
    struct view features;   /* the object, as it was read, or NO_FEATURES */
    struct view placements; /* the object, as it was read; may be empty */
    bool uses[BUCKET_FEATURES];
    char unknown[FEATURE_LISTS][FEATURE_MAX]; /* the first unknown feature of each list */
};

/* A change to the document: a feature that is used from now on, and a placement unless `ns` is
 * empty. Or a feature that is dropped. */
struct addition {
    enum bucket_feature feature;
    struct view ns, placement;
    bool drops;    /* the feature is no longer used */
    bool switches; /* it is written even if the document has it: bucket_switch_feature */
};

/* bucket.c */

/* Reads the document. Without one, the result has no features and no ETag. UNSUPPORTED if this
 * version does not know a feature; blocks writes if it may only read. The caller releases
 * `format->text`, also after an error. */
enum hf_status bucket_read_known(struct store *store, struct format *format,
                                 struct hf_error *error);

/* Appends all members that none of our functions writes. */
void bucket_keep_members(const struct format *format, struct buffer *text);

/* Begins the document, with its features and, unless it is NULL, one more feature in the list
 * `to`. */
void bucket_begin_format(struct store *store, struct view features, enum feature_list to,
                         const char *more, struct buffer *text);

/* Ends the document and writes it, on condition that it is still the version that was read. */
enum hf_status bucket_put_format(struct store *store, const struct format *format,
                                 struct buffer *text, struct hf_error *error);

/* Whether a call that ended with this status may succeed if it is repeated. */
bool bucket_may_pass_later(enum hf_status status);

/* bucket_add.c */

/* Appends the lists of features and, unless it is NULL, one more feature in the list `to`. */
void bucket_write_features(struct view features, enum feature_list to, const char *more,
                           struct buffer *text);

/* Appends the placements, with that of the addition, which may be NULL. */
void bucket_write_placements(const struct format *format, const struct addition *added,
                             struct buffer *text);

#endif
