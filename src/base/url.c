/* SPDX-License-Identifier: Apache-2.0 */
/* url.c: parses a store URL into scheme, host, path and parameters, and refuses unknown or repeated
 * parameters, which would otherwise be silently ignored. */
#include "base/url.h"

#include "base/nearest.h"
#include "base/parse.h"

#include <stdio.h>

static bool is_scheme_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '-';
}

/* Decodes %XX in place; the text never grows. False for a "%" without two digits, and for %00,
 * because a path would end there. */
static bool percent_decode(struct view *view)
{
    char *to = (char *)(size_t)view->data;
    size_t size = 0;
    for (size_t i = 0; i < view->size; i++, size++) {
        if (view->data[i] != '%') {
            to[size] = view->data[i];
            continue;
        }
        int high = i + 2 < view->size ? hex_digit(view->data[i + 1]) : -1;
        int low = i + 2 < view->size ? hex_digit(view->data[i + 2]) : -1;
        if (high < 0 || low < 0 || (high | low) == 0)
            return false;
        to[size] = (char)(high * 16 + low);
        i += 2;
    }
    view->size = size;
    return true;
}

static struct view find_parameter(const struct url *url, struct view name)
{
    for (size_t i = 0; i < url->parameter_count; i++)
        if (view_equal(url->parameters[i].name, name))
            return url->parameters[i].value;
    return (struct view){ NULL, 0 };
}

static enum hf_status parse_parameters(struct url *url, struct view query,
                                       struct hf_error *error)
{
    while (query.size > 0) {
        struct view value = view_cut(&query, '&');
        struct view name = view_cut(&value, '=');
        if (name.size == 0)
            return error_set(error, HF_INVALID, "the URL has a parameter without a name");
        if (url->parameter_count == URL_PARAMETERS_MAX)
            return error_set(error, HF_INVALID, "the URL has more than %d parameters",
                             URL_PARAMETERS_MAX);
        if (find_parameter(url, name).data)
            return error_set(error, HF_INVALID, "the URL parameter '%.*s' appears twice",
                             VIEW_ARGS(view_first(name, 60)));
        if (!percent_decode(&value))
            return error_set(error, HF_INVALID, "invalid %%-escape in URL parameter '%.*s'",
                             VIEW_ARGS(view_first(name, 60)));
        url->parameters[url->parameter_count++] = (struct url_parameter){ name, value };
    }
    return HF_OK;
}

enum hf_status url_parse(struct view text, struct url *ret_url, struct hf_error *error)
{
    struct url *url = ret_url;
    if (text.size > URL_BYTES_MAX || view_find(text, '\0') < text.size)
        return error_set(error, HF_INVALID, "a URL must have at most %d bytes and no NUL byte",
                         URL_BYTES_MAX);
    if (text.size)
        memcpy(url->space, text.data, text.size);
    url->space[text.size] = '\0';
    url->parameter_count = 0;
    struct view rest = { url->space, text.size };

    size_t colon = view_find(rest, ':');
    url->scheme = view_first(rest, colon);
    bool good = colon > 0 && colon < rest.size;
    for (size_t i = 0; i < colon; i++)
        good = good && is_scheme_byte(rest.data[i]);
    if (!good)
        return error_set(error, HF_INVALID,
                         "'%.*s' is not the URL of a store: it must start with a kind, such as "
                         "dir:PATH or s3://BUCKET",
                         VIEW_ARGS(view_first(text, 60)));

    struct view query = view_from(rest, colon + 1);
    url->path = view_cut(&query, '?');
    url->host = (struct view){ "", 0 };
    if (view_starts_with(url->path, VIEW("//"))) {
        struct view behind = view_from(url->path, 2);
        url->host = view_first(behind, view_find(behind, '/'));
        url->path = view_from(behind, url->host.size);
    }
    if (!percent_decode(&url->host) || !percent_decode(&url->path))
        return error_set(error, HF_INVALID,
                         "invalid %%-escape in '%.*s'; write a percent sign as %%25",
                         VIEW_ARGS(view_first(text, 60)));
    return parse_parameters(url, query, error);
}

struct view url_parameter(const struct url *url, const char *name)
{
    return find_parameter(url, view_of(name));
}

static enum hf_status unknown_parameter(const struct url *url, struct view name,
                                        const char *const *names, struct hf_error *error)
{
    struct nearest nearest = { .wanted = name };
    char list[100] = "", guess[40] = "";
    size_t used = 0;
    while (*names && used < sizeof list) {
        nearest_offer(&nearest, view_of(*names));
        const char *between = used == 0 ? "" : names[1] ? ", " : " and ";
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", between, *names++);
    }
    if (nearest.best.data)
        snprintf(guess, sizeof guess, "did you mean '%.*s'? ", VIEW_ARGS(nearest.best));
    return error_set(error, HF_INVALID,
                     "unknown parameter '%.*s' in the store's URL; %s%.*s: takes %s",
                     VIEW_ARGS(view_first(name, 40)), guess, VIEW_ARGS(url->scheme), list);
}

enum hf_status url_only_parameters(const struct url *url, const char *const *names,
                                   struct hf_error *error)
{
    for (size_t i = 0; i < url->parameter_count; i++) {
        struct view name = url->parameters[i].name;
        const char *const *known = names;
        while (*known && !view_equal(name, view_of(*known)))
            known++;
        if (!*known)
            return unknown_parameter(url, name, names, error);
    }
    return HF_OK;
}
