/* SPDX-License-Identifier: Apache-2.0 */
/* url.h: store URLs: "mem:", "dir:PATH?sync=off", "s3://BUCKET/PREFIX?endpoint=...&region=...".
 *
 * In the part before "?", only "?" and "%" need escaping (as %3F and %25). Parameter values are
 * percent-decoded. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include "base/error.h"
#include "base/limits.h"
#include "base/view.h"

struct url_parameter {
    struct view name;
    struct view value;
};

struct url {
    struct view scheme;
    struct view host; /* empty unless "//" follows the scheme */
    struct view path; /* from the "/" after the host; without "//", all of the rest */
    struct url_parameter parameters[URL_PARAMETERS_MAX];
    size_t parameter_count;
    char space[URL_BYTES_MAX + 1]; /* the views point here */
};

enum hf_status url_parse(struct view text, struct url *ret_url, struct hf_error *error);

/* The value of a parameter, or a view with data NULL. */
struct view url_parameter(const struct url *url, const char *name);

/* Returns INVALID, and names the first parameter that is not in the NULL-terminated list. */
enum hf_status url_only_parameters(const struct url *url, const char *const *names,
                                   struct hf_error *error);

#endif
