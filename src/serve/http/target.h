/* SPDX-License-Identifier: Apache-2.0 */
/* target.h: the path and the query of a request, decoded. Pure.
 *
 * A path is decoded segment by segment, so "%2F" is a slash within a segment and never
 * divides two. Refused: characters that RFC 3986 does not allow there, "%" without two
 * digits, "%00", what is not UTF-8 when decoded, the segments "." and ".." in any spelling,
 * and more than HTTP_SEGMENTS_MAX segments or HTTP_PARAMETERS_MAX parameters. */
#ifndef SERVE_HTTP_TARGET_H
#define SERVE_HTTP_TARGET_H

#include "serve/http/server.h"

struct target {
    struct view path; /* as it was sent */
    struct view *segments;
    size_t segment_count;
    struct http_pair *parameters;
    size_t parameter_count;
    size_t bytes; /* of the block that holds all of it, which begins with the segments */
};

/* `path` begins with a slash; `query` is what follows the question mark. Returns 0, or the
 * status of a refusal and its reason, a constant. The target keeps `path` as a view. */
int target_parse(struct view path, struct view query, struct target *ret_target,
                 const char **ret_why);

void target_release(struct target *target);

#endif
