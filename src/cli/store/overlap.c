/* SPDX-License-Identifier: Apache-2.0 */
/* overlap.c: determines whether objects of two stores are the same objects. The URLs may differ and
 * still name the same place: by a symbolic link, a slash at the end, a folder inside the other one,
 * or an endpoint that comes from the environment. */
#include "cli/store/store.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Stores on the network ----------------------------------------------------------- */

/* The value of an option of a URL; empty if it is not given. */
static struct view url_option(struct view url, struct view name)
{
    struct view rest = view_from(url, view_find(url, '?'));
    while (rest.size > 0) {
        rest = view_from(rest, 1); /* '?' or '&' */
        struct view option = view_first(rest, view_find(rest, '&'));
        size_t equals = view_find(option, '=');
        if (equals < option.size && view_equal(view_first(option, equals), name))
            return view_from(option, equals + 1);
        rest = view_from(rest, option.size);
    }
    return VIEW("");
}

static struct view environment_text(const char *name)
{
    const char *value = getenv(name);
    return view_of(value ? value : "");
}

/* The endpoint in the connection string of an Azure account. */
static struct view azure_endpoint(void)
{
    struct view name = VIEW("BlobEndpoint=");
    struct view text = environment_text("AZURE_STORAGE_CONNECTION_STRING");
    while (text.size > 0) {
        struct view part = view_cut(&text, ';');
        if (view_starts_with(part, name))
            return view_from(part, name.size);
    }
    return VIEW("");
}

static bool drop_end(struct view *text, struct view end)
{
    bool ends = view_ends_with(*text, end);
    text->size -= ends ? end.size : 0;
    return ends;
}

/* The server of a store on the network, found as the store finds it; empty: the service itself,
 * where a bucket or an account has the same name everywhere. */
static struct view find_server(struct view url)
{
    bool s3 = view_starts_with(url, VIEW("s3:")), azure = view_starts_with(url, VIEW("azure:"));
    struct view server = url_option(url, VIEW("endpoint"));
    if (server.size == 0 && s3)
        server = environment_text("AWS_ENDPOINT_URL_S3");
    if (server.size == 0 && s3)
        server = environment_text("AWS_ENDPOINT_URL");
    if (server.size == 0 && azure)
        server = azure_endpoint();
    drop_end(&server, VIEW("/"));
    drop_end(&server, view_starts_with(server, VIEW("https:")) ? VIEW(":443") : VIEW(":80"));
    bool service = s3      ? view_ends_with(server, VIEW(".amazonaws.com"))
                   : azure ? view_ends_with(server, VIEW(".blob.core.windows.net"))
                           : view_equal(server, VIEW("https://storage.googleapis.com"));
    return service ? VIEW("") : server;
}

/* ---- Places -------------------------------------------------------------------------- */

/* Resolves the symbolic links of a path, even if its last parts do not exist yet. */
static struct view resolved_path(const char *path, char real[PATH_MAX])
{
    struct view whole = view_of(path), rest = VIEW("");
    char start[HF_STORE_URL_MAX + 1];
    for (size_t size = whole.size; size > 0; size--) {
        if (size < whole.size && path[size] != '/')
            continue;
        snprintf(start, sizeof start, "%.*s", (int)size, path);
        rest = view_from(whole, size);
        if (realpath(start, real) && strlen(real) + rest.size < PATH_MAX) {
            memcpy(real + strlen(real), rest.data, rest.size + 1);
            return view_of(real);
        }
    }
    return whole;
}

/* Appends the path of a place: that of its store without symbolic links, and the prefix. A folder
 * contains the objects of the folders in it, and a bucket those below each prefix; an SQLite file
 * contains only its own. */
static void append_place(struct buffer *to, const struct store_place *place)
{
    struct view url = view_first(place->url, view_find(place->url, '?'));
    bool file = view_starts_with(url, VIEW("sqlite:"));
    size_t colon = view_find(url, ':');
    char real[PATH_MAX], path[HF_STORE_URL_MAX + 1];
    snprintf(path, sizeof path, "%.*s", VIEW_ARGS(view_from(url, colon + 1)));
    bool local = file || view_starts_with(url, VIEW("dir:"));
    struct view shown = local ? resolved_path(path, real) : view_of(path);
    while (drop_end(&shown, VIEW("/")))
        continue;
    buffer_append(to, view_first(url, colon + 1));
    buffer_append(to, shown);
    buffer_append_byte(to, file ? '#' : '/');
    buffer_append(to, place->prefix);
}

enum hf_status places_overlap(struct cli *cli, const struct store_place *from,
                              const struct store_place *to, struct overlap *ret_overlap)
{
    struct buffer a = BUFFER_INIT(8 * KIB), b = BUFFER_INIT(8 * KIB);
    append_place(&a, from);
    append_place(&b, to);
    bool failed = a.failed || b.failed;
    bool same_server = !failed && view_equal(find_server(from->url), find_server(to->url));
    struct overlap overlap = {
        .to_in_from = same_server && view_starts_with(buffer_view(&b), buffer_view(&a)),
        .from_in_to = same_server && view_starts_with(buffer_view(&a), buffer_view(&b)),
    };
    if (overlap.from_in_to) {
        size_t store_size = b.size - to->prefix.size;
        overlap.from_there = arena_copy(&cli->arena, view_from(buffer_view(&a), store_size));
        failed = !overlap.from_there.data;
    }
    *ret_overlap = overlap;
    buffer_release(&a);
    buffer_release(&b);
    return failed ? error_no_memory(&cli->error) : HF_OK;
}
