/* store_cp.c: `store cp`: objects from one store to another, or within one.
 *
 * An object goes through a file without a name: read from the source, checksummed, put, read
 * back from the target by the ETag of that put, and checksummed again. A copy that is there
 * already with equal bytes is left alone, which is what makes a copy restartable: there is no
 * state besides the two stores. */
#include "base/layout.h"
#include "base/parse.h"
#include "cli/files.h"
#include "cli/interrupt.h"
#include "cli/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PASSES 3 /* read, write, read back */

struct checksum {
    uint32_t crc;
    uint64_t size;
};

struct copy {
    struct cli *cli;
    struct store *from;
    struct store *to; /* may be the same as `from` */
    struct view source;
    struct view target;
    int spool;      /* what was read from the source */
    int back_spool; /* what was read from the target */
    struct gauge gauge;
    uint64_t copied;
    uint64_t copied_bytes;
    uint64_t already; /* were there with equal bytes */
    uint64_t vanished;
};

/* ---- One object ---------------------------------------------------------------------- */

/* Streams an object into a spool. `etag` may be NULL; else only that version will do. */
static enum hf_status read_object(struct copy *copy, struct store *store, struct view key,
                                  const struct etag *etag, int spool, struct checksum *ret_sum)
{
    struct get_call get = { .key = key };
    if (etag)
        get.match = *etag;
    if (ftruncate(spool, 0) != 0)
        return error_from_errno(&copy->cli->error, errno, "empty a temporary file");
    struct progress progress = gauge_progress(&copy->gauge);
    enum hf_status status = store_get_file(store, &get, spool, &progress);
    if (status != HF_OK) {
        copy->cli->error = get.error;
        return status;
    }
    return spool_checksum(copy->cli, spool, &ret_sum->crc, &ret_sum->size);
}

static bool sums_equal(struct checksum a, struct checksum b)
{
    return a.crc == b.crc && a.size == b.size;
}

static enum hf_status write_and_verify(struct copy *copy, struct view key, struct checksum sum)
{
    struct cli *cli = copy->cli;
    struct put_call put = { .key = key };
    if (cli_given(cli, "if-absent") || is_guarded(cli, key))
        put.condition = if_absent();
    struct progress progress = gauge_progress(&copy->gauge);
    copy->gauge.pass = 1;
    if (store_put_file(copy->to, &put, copy->spool, &progress) != HF_OK) {
        cli->error = put.error;
        return put.error.status;
    }
    struct checksum back;
    copy->gauge.pass = 2;
    enum hf_status status =
        read_object(copy, copy->to, key, &put.etag, copy->back_spool, &back);
    if (status == HF_NOT_FOUND)
        status = error_set(&cli->error, HF_CORRUPT,
                           "the copy was written but cannot be read back: it is gone");
    if (status == HF_OK && !sums_equal(sum, back))
        status = error_set(&cli->error, HF_CORRUPT,
                           "the copy reads back as %" PRIu64 " bytes with CRC32C %08" PRIx32
                           ", not %" PRIu64 " with %08" PRIx32,
                           back.size, back.crc, sum.size, sum.crc);
    return status;
}

static void tell_object(struct copy *copy, struct view from, struct view to,
                        struct checksum sum, bool written)
{
    if (!copy->cli->json)
        return;
    char crc[9];
    snprintf(crc, sizeof crc, "%08" PRIx32, sum.crc);
    json_t *line = json_pack("{s:I, s:s, s:b}", "size_bytes", (json_int_t)sum.size, "crc32c",
                             crc, "copied", written);
    if (line && (!json_set_key(line, "from", from) || !json_set_key(line, "to", to))) {
        json_decref(line);
        line = NULL;
    }
    output_json(&copy->cli->out, line);
    output_flush(&copy->cli->out, /* error */ NULL); /* whoever reads along sees it at once */
}

/* `there` is what the target has under that key, or NULL. Only what the source no longer has
 * counts as vanished; NOT_FOUND from the target is a failure. */
static enum hf_status copy_object(struct copy *copy, struct view from, struct view to,
                                  const struct object_info *there)
{
    struct checksum sum, old = { 0 };
    copy->gauge.pass = 0;
    enum hf_status status =
        read_object(copy, copy->from, from, /* etag */ NULL, copy->spool, &sum);
    if (status == HF_NOT_FOUND && cli_given(copy->cli, "recursive")) {
        copy->vanished++;
        return HF_OK;
    }
    bool equal = false;
    if (status == HF_OK && there && there->size == sum.size) {
        copy->gauge.pass = 1;
        status = read_object(copy, copy->to, to, &there->etag, copy->back_spool, &old);
        equal = status == HF_OK && sums_equal(sum, old);
        if (status == HF_NOT_FOUND || status == HF_CONFLICT)
            status = HF_OK; /* it changed since it was seen: write it */
    }
    if (status == HF_OK && !equal && there)
        status = check_not_guarded(copy->cli, to);
    if (status == HF_OK && !equal)
        status = write_and_verify(copy, to, sum);
    if (status != HF_OK)
        return status;
    copy->already += equal;
    copy->copied += !equal;
    copy->copied_bytes += equal ? 0 : sum.size;
    tell_object(copy, from, to, sum, !equal);
    return HF_OK;
}

/* ---- What is there already ----------------------------------------------------------- */

static void name_key(struct cli *cli, struct view key)
{
    error_prefix(&cli->error, "%.*s", VIEW_ARGS(view_first(key, 100)));
}

/* Reads one byte of each key: the cheapest call that tells size and ETag, and many go together.
 * Each calls[i] is answered; a missing object is no failure. */
static enum hf_status look_up(struct copy *copy, struct get_call *calls, size_t count)
{
    store_get_many(copy->to, calls, count);
    for (size_t i = 0; i < count; i++) {
        enum hf_status status = calls[i].error.status;
        if (status != HF_OK && status != HF_NOT_FOUND) {
            copy->cli->error = calls[i].error;
            if (count > 1)
                name_key(copy->cli, calls[i].key);
            return status;
        }
    }
    return HF_OK;
}

static const struct object_info *found(const struct get_call *call)
{
    return call->error.status == HF_OK ? &call->info : NULL;
}

static enum hf_status copy_single(struct copy *copy)
{
    struct buffer byte = BUFFER_INIT(1);
    struct get_call call = { .key = copy->target, .length = 1, .body = &byte };
    enum hf_status status = look_up(copy, &call, 1);
    if (status == HF_OK)
        status = copy_object(copy, copy->source, copy->target, found(&call));
    buffer_release(&byte);
    return status;
}

/* ---- Many objects -------------------------------------------------------------------- */

struct page {
    struct list_call list;
    struct get_call *calls; /* one for the copy of each entry */
    struct buffer *bodies;
};

/* The new key of each entry: what stood behind the source prefix, behind the target's. */
static enum hf_status fill_calls(struct copy *copy, struct page *page)
{
    for (size_t i = 0; i < page->list.count; i++) {
        struct view rest = view_from(page->list.entries[i].key, copy->source.size);
        size_t size = copy->target.size + rest.size;
        if (size > KEY_BYTES_MAX) {
            error_set(&copy->cli->error, HF_INVALID,
                      "its new key would have %zu bytes; %d are the most", size, KEY_BYTES_MAX);
            name_key(copy->cli, page->list.entries[i].key);
            return HF_INVALID;
        }
        char *key = arena_take(&page->list.arena, size + 1);
        if (!key)
            return error_no_memory(&copy->cli->error);
        memcpy(key, copy->target.data, copy->target.size);
        memcpy(key + copy->target.size, rest.data, rest.size);
        page->bodies[i] = BUFFER_INIT(1);
        page->calls[i] = (struct get_call){
            .key = { key, size },
            .length = 1,
            .body = &page->bodies[i],
        };
    }
    return HF_OK;
}

/* What the probe found out about the source is not true of the target. */
static enum hf_status copy_entry(struct copy *copy, const struct list_entry *entry,
                                 const struct get_call *target)
{
    if (view_equal(target->key, VIEW(LAYOUT_BUCKET_KEY)))
        return HF_OK;
    copy->gauge.size = entry->info.size;
    enum hf_status status = copy_object(copy, entry->key, target->key, found(target));
    copy->gauge.before += entry->info.size;
    if (status != HF_OK)
        name_key(copy->cli, entry->key);
    return status;
}

static enum hf_status copy_page(struct copy *copy, struct page *page)
{
    enum hf_status status = fill_calls(copy, page);
    if (status == HF_OK)
        status = look_up(copy, page->calls, page->list.count);
    for (size_t i = 0; status == HF_OK && i < page->list.count; i++) {
        status = interrupt_check(&copy->cli->error);
        if (status == HF_OK)
            status = copy_entry(copy, &page->list.entries[i], &page->calls[i]);
    }
    for (size_t i = 0; i < page->list.count; i++)
        buffer_release(&page->bodies[i]);
    return status;
}

/* Calls `visit` for each page of the source. */
static enum hf_status each_page(struct copy *copy, struct page *page,
                                enum hf_status (*visit)(struct copy *, struct page *))
{
    char after[KEY_BYTES_MAX];
    page->list = (struct list_call){ .prefix = copy->source, .after = VIEW("") };
    bool more = true;
    enum hf_status status = HF_OK;
    while (more && status == HF_OK) {
        status = store_list(copy->from, &page->list);
        if (status != HF_OK) {
            copy->cli->error = page->list.error;
            return status;
        }
        status = visit(copy, page);
        more = page->list.more;
        if (more) {
            struct view last = page->list.entries[page->list.count - 1].key;
            memcpy(after, last.data, last.size);
            page->list.after = (struct view){ after, last.size };
        }
        list_release(&page->list);
        if (status == HF_OK && output_flush(&copy->cli->out, &copy->cli->error) != HF_OK &&
            output_is_closed(&copy->cli->out))
            status = copy->cli->error.status;
    }
    return status;
}

static enum hf_status count_page(struct copy *copy, struct page *page)
{
    for (size_t i = 0; i < page->list.count; i++)
        copy->gauge.total += page->list.entries[i].info.size;
    return interrupt_check(&copy->cli->error);
}

static enum hf_status copy_all(struct copy *copy)
{
    struct page page = {
        .calls = calloc(LIST_PAGE_MAX, sizeof *page.calls),
        .bodies = calloc(LIST_PAGE_MAX, sizeof *page.bodies),
    };
    enum hf_status status = HF_OK;
    if (!page.calls || !page.bodies)
        status = error_no_memory(&copy->cli->error);
    /* Only a bar that is seen needs to know the whole beforehand. */
    if (status == HF_OK && copy->gauge.visible)
        status = each_page(copy, &page, count_page);
    if (status == HF_OK)
        status = each_page(copy, &page, copy_page);
    free(page.calls);
    free(page.bodies);
    return status;
}

/* ---- The command --------------------------------------------------------------------- */

static struct view url_of(struct cli *cli, const char *option)
{
    const struct option_value *value = cli_option(cli, option);
    if (!value)
        value = cli_option(cli, "store");
    return value ? value->text : (struct view){ NULL, 0 };
}

/* Both sides open once when they are the same store: mem: has no second door. */
static enum hf_status open_both(struct copy *copy)
{
    struct cli *cli = copy->cli;
    struct view from = url_of(cli, "from"), to = url_of(cli, "to");
    bool same = (!from.data && !to.data) || (from.data && to.data && view_equal(from, to));
    if (same && view_equal(copy->source, copy->target))
        return error_set(&cli->error, HF_INVALID,
                         "source and target are the same; name a TARGET, --from or --to");
    if (same && cli_given(cli, "recursive") && view_starts_with(copy->target, copy->source))
        return error_set(&cli->error, HF_INVALID,
                         "TARGET starts with SOURCE, so the copies would be copied again");
    enum hf_status status = cli_find_store(cli, &from);
    if (status == HF_OK)
        status = store_check_present(from, &cli->error);
    if (status == HF_OK)
        status = cli_open(cli, from, BUCKET_OBJECTS, &copy->from);
    copy->to = copy->from;
    if (status != HF_OK || same)
        return status;
    copy->to = NULL;
    return cli_open(cli, to, BUCKET_OBJECTS, &copy->to);
}

static enum hf_status read_names(struct copy *copy)
{
    struct cli *cli = copy->cli;
    enum hf_status status = cli_key(cli, 0, &copy->source);
    if (status == HF_OK)
        status = cli_key(cli, 1, &copy->target);
    if (status != HF_OK)
        return status;
    if (!copy->source.data)
        copy->source = VIEW("");
    if (!copy->target.data)
        copy->target = copy->source;
    if (cli_given(cli, "recursive"))
        return HF_OK;
    if (copy->source.size == 0 || copy->target.size == 0)
        return error_set(&cli->error, HF_INVALID,
                         "name the SOURCE; everything is copied only with --recursive");
    return check_not_guarded(cli, copy->target);
}

static void tell_counts(struct copy *copy)
{
    struct cli *cli = copy->cli;
    char size[SIZE_TEXT_MAX];
    if (cli->json)
        output_json(&cli->out, json_pack("{s:I, s:I, s:I, s:I}", "objects_copied",
                                         (json_int_t)copy->copied, "copied_bytes",
                                         (json_int_t)copy->copied_bytes, "objects_equal",
                                         (json_int_t)copy->already, "objects_vanished",
                                         (json_int_t)copy->vanished));
    else if (!cli->quiet)
        output_print(&cli->out,
                     "copied %" PRIu64 " (%s), already there %" PRIu64
                     ", vanished meanwhile %" PRIu64 "\n",
                     copy->copied, size_text(copy->copied_bytes, size), copy->already,
                     copy->vanished);
}

static enum hf_status copy_with_spools(struct copy *copy)
{
    struct cli *cli = copy->cli;
    enum hf_status status = spool_open(cli, &copy->spool);
    if (status != HF_OK)
        return status;
    status = spool_open(cli, &copy->back_spool);
    if (status == HF_OK) {
        gauge_start(&copy->gauge, cli, VIEW("store cp"));
        copy->gauge.passes = PASSES;
        status = cli_given(cli, "recursive") ? copy_all(copy) : copy_single(copy);
        gauge_clear(&copy->gauge);
        close(copy->back_spool);
    }
    close(copy->spool);
    return status;
}

enum hf_status run_store_cp(struct cli *cli)
{
    struct copy copy = { .cli = cli };
    enum hf_status status = read_names(&copy);
    if (status == HF_OK)
        status = open_both(&copy);
    if (status == HF_OK)
        status = copy_with_spools(&copy);
    if (status == HF_OK)
        tell_counts(&copy);
    if (copy.to != copy.from)
        store_close(copy.to);
    store_close(copy.from);
    return status;
}
