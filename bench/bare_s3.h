/* SPDX-License-Identifier: Apache-2.0 */
/* bare_s3.h: one libcurl handle that signs and sends S3 requests as the store does, with
 * nothing around it: the baseline that the s3 store is measured against. */
#ifndef BENCH_BARE_S3_H
#define BENCH_BARE_S3_H

#include "base/buffer.h"

#include <curl/curl.h>

struct bare {
    CURL *handle;
    const char *gateway;   /* host and port */
    unsigned char key[32]; /* for signing, of this day: */
    char day[9];
    struct view body;
    size_t sent;
    struct buffer reply;
};

/* `endpoint` is "http://HOST:PORT". */
void bare_open(struct bare *bare, const char *endpoint);
void bare_close(struct bare *bare);

/* Each dies of any status but 200. The query is sorted and encoded. */
void bare_put(struct bare *bare, const char *key, struct view body);
void bare_list(struct bare *bare, const char *query);

#endif
