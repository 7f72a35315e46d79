/* SPDX-License-Identifier: Apache-2.0 */
/* encode.h: how names and values are written into URLs and headers. The services sign paths and
 * queries as they are sent, so each is encoded once, here. No network, no clock. */
#ifndef STORE_REMOTE_ENCODE_H
#define STORE_REMOTE_ENCODE_H

#include "base/buffer.h"
#include "base/view.h"

#define HTTP_QUERY_PARAMETERS_MAX 16

/* A parameter of the query, or a header, whose name is lower-case. */
struct http_pair {
    struct view name;
    struct view value;
};

/* Percent-encodes every byte except letters, digits, "-", ".", "_", "~" and, on request, "/". */
bool http_encode(struct buffer *to, struct view text, bool keep_slash);

/* Undoes percent-encoding in place. False if a "%" is not followed by two digits. */
bool http_decode(struct view *text, bool plus_is_space);

/* By name, then by value. `sorted` has room for all pairs. */
void http_sort_pairs(const struct http_pair *pairs, size_t count, struct http_pair *sorted);

/* The query, encoded and sorted, without "?". False if memory runs out or there are too many
 * parameters. */
bool http_query(struct buffer *to, const struct http_pair *parameters, size_t count);

/* The value of Content-MD5. False if the system policy has disabled MD5. */
#define HTTP_MD5_TEXT_SIZE 25
bool http_content_md5(struct view body, char text[HTTP_MD5_TEXT_SIZE]);

#endif
