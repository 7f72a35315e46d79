/* SPDX-License-Identifier: Apache-2.0 */
/* read.c: reads objects at the rate that the caller allows, in pieces, and repeats requests that
 * the store did not answer. A file on this machine is read through one descriptor, because a store
 * may have to read the whole file to know its version. */
#include "scrub/scrub_inside.h"

#include "file/bytes.h"
#include "store/retry.h"

#include <stdlib.h>
#include <unistd.h>

#define READ_TRIES 4
#define RETRY_WAIT SPAN_MS(100)

/* How often a pause checks whether the scrub must end. */
#define PAUSE_PIECE SPAN_MS(100)

/* However low the rate, a piece is followed by the next one within this time. */
#define PAUSE_MOST SPAN_S(3600)

/* A request for a small object costs a store more than its bytes. */
#define BYTES_LEAST 4096

/* The scrub ends if the store fails this often in a row. */
#define FAILURES_MAX 5

static enum hf_status scrub_goes_on(struct scrub *scrub, struct hf_error *error)
{
    const struct scrub_options *options = scrub->options;
    if (!options->go_on || options->go_on(options->argument, scrub->report))
        return HF_OK;
    return error_set(error, HF_CANCELLED, "stopped");
}

/* For the pauses between the attempts of a request. */
static bool step_scrub(void *argument, uint64_t done, uint64_t total)
{
    struct hf_error error;
    (void)done;
    (void)total;
    return scrub_goes_on(argument, &error) == HF_OK;
}

static struct retry scrub_attempts(const struct scrub *scrub, const struct progress *progress)
{
    return (struct retry){
        .store = scrub->store, .pause = RETRY_WAIT, .left = READ_TRIES - 1, .progress = progress
    };
}

/* CANCELLED if the scrub was stopped while the store did not answer. */
static enum hf_status stop_if_told(struct scrub *scrub, enum hf_status status,
                                   struct hf_error *error)
{
    return retry_is_answered(status) || scrub_goes_on(scrub, error) == HF_OK ? status
                                                                             : HF_CANCELLED;
}

enum hf_status scrub_pay(struct scrub *scrub, uint64_t bytes, struct hf_error *error)
{
    struct mono_time now = env_now(scrub->env);
    enum hf_status status = scrub_goes_on(scrub, error);
    if (scrub->options->rate_max == 0)
        return status;
    uint64_t counted = bytes > BYTES_LEAST ? bytes : BYTES_LEAST;
    uint64_t us = counted * 1000000 / scrub->options->rate_max;
    struct span cost = span_smaller(SPAN_US((int64_t)us), PAUSE_MOST);
    if (mono_before(scrub->paid_until, now)) /* time that was not used is not saved up */
        scrub->paid_until = now;
    scrub->paid_until = mono_add(scrub->paid_until, cost);
    while (status == HF_OK && mono_before(now, scrub->paid_until)) {
        env_sleep_until(scrub->env,
                        mono_earlier(mono_add(now, PAUSE_PIECE), scrub->paid_until));
        now = env_now(scrub->env);
        status = scrub_goes_on(scrub, error);
    }
    return status;
}

static enum hf_status send_get(struct scrub *scrub, struct get_call *get)
{
    const struct progress progress = { step_scrub, scrub };
    struct retry retry = scrub_attempts(scrub, &progress);
    size_t before = get->body->size;
    enum hf_status status;
    do {
        get->body->size = before;
        status = store_get(scrub->store, get);
    } while (retry_after(&retry, status));
    if (status == HF_OK)
        scrub->report->bytes_read += get->body->size - before;
    return stop_if_told(scrub, status, &get->error);
}

enum hf_status scrub_list(struct scrub *scrub, struct view after, uint64_t continuation,
                          struct list_call *page, struct hf_error *error)
{
    const struct progress progress = { step_scrub, scrub };
    struct retry retry = scrub_attempts(scrub, &progress);
    enum hf_status status;
    do {
        *page = (struct list_call){ .prefix = scrub->options->prefix,
                                    .after = after,
                                    .continuation = continuation };
        status = store_list(scrub->store, page);
        if (status != HF_OK)
            list_release(page);
    } while (retry_after(&retry, status));
    if (status != HF_OK)
        *error = page->error;
    return stop_if_told(scrub, status, error);
}

enum hf_status scrub_get(struct scrub *scrub, struct view key, size_t max,
                         struct object_info *ret_info, struct hf_error *error)
{
    buffer_clear(&scrub->text);
    struct get_call get = { .key = key, .length = max, .body = &scrub->text };
    enum hf_status status = send_get(scrub, &get);
    *error = get.error;
    if (status != HF_OK)
        return status;
    *ret_info = get.info;
    return scrub_pay(scrub, scrub->text.size, error);
}

/* ---- Pieces -------------------------------------------------------------------------- */

struct piece_reader {
    struct scrub *scrub;
    struct get_call get;
    struct buffer piece;
    scrub_take *take;
    void *argument;
    uint64_t at, end;
};

/* The first piece tells the size and the version, and all others must be of that version. */
static enum hf_status read_first_piece(struct piece_reader *reader, struct hf_error *error)
{
    reader->get.length = SCRUB_PIECE;
    reader->get.body = &reader->piece;
    enum hf_status status = send_get(reader->scrub, &reader->get);
    *error = reader->get.error;
    if (status != HF_OK)
        return status;
    reader->get.match = reader->get.info.etag;
    reader->at = reader->get.offset + reader->piece.size;
    reader->end = reader->get.info.size;
    reader->take(reader->argument, buffer_view(&reader->piece));
    return scrub_pay(reader->scrub, reader->piece.size, error);
}

static enum hf_status read_from_file(struct piece_reader *reader, int fd,
                                     struct hf_error *error)
{
    enum hf_status status = HF_OK;
    while (status == HF_OK && reader->at < reader->end) {
        size_t got = 0;
        status = file_read_at(fd, reader->piece.data, SCRUB_PIECE, reader->at, &got, error);
        if (status == HF_OK && got == 0)
            status = error_set(error, HF_CONFLICT, "the file became shorter");
        if (status != HF_OK)
            break;
        reader->at += got;
        reader->scrub->report->bytes_read += got;
        reader->take(reader->argument, (struct view){ reader->piece.data, got });
        status = scrub_pay(reader->scrub, got, error);
    }
    return status;
}

static enum hf_status read_by_ranges(struct piece_reader *reader, struct hf_error *error)
{
    enum hf_status status = HF_OK;
    while (status == HF_OK && reader->at < reader->end) {
        reader->get.offset = reader->at;
        buffer_clear(&reader->piece);
        status = send_get(reader->scrub, &reader->get);
        *error = reader->get.error;
        if (status == HF_OK && reader->piece.size == 0)
            status = error_set(error, HF_CONFLICT, "the object became shorter");
        if (status != HF_OK)
            break;
        reader->at += reader->piece.size;
        reader->take(reader->argument, buffer_view(&reader->piece));
        status = scrub_pay(reader->scrub, reader->piece.size, error);
    }
    return status;
}

enum hf_status scrub_read(struct scrub *scrub, const struct get_call *request, scrub_take *take,
                          void *argument, struct object_info *ret_info, struct hf_error *error)
{
    struct piece_reader reader = { .scrub = scrub,
                                   .get = *request,
                                   .piece = BUFFER_INIT(SCRUB_PIECE),
                                   .take = take,
                                   .argument = argument };
    int fd = -1;
    if (!buffer_reserve(&reader.piece, SCRUB_PIECE))
        return error_no_memory(error);
    enum hf_status status = read_first_piece(&reader, error);
    if (status == HF_OK && reader.at < reader.end) {
        struct get_call lend = { .key = request->key, .match = reader.get.match };
        bool lent = store_lend_file(scrub->store, &lend, &fd) == HF_OK;
        status = lent ? read_from_file(&reader, fd, error) : read_by_ranges(&reader, error);
    }
    if (fd >= 0)
        close(fd);
    buffer_release(&reader.piece);
    if (status == HF_OK)
        *ret_info = reader.get.info;
    return status;
}

/* ---- What the store answered --------------------------------------------------------- */

bool scrub_is_of_store(enum hf_status status)
{
    return status == HF_UNAVAILABLE || status == HF_TIMEOUT || status == HF_DENIED ||
           status == HF_UNSURE;
}

enum hf_status scrub_note_read(struct scrub *scrub, enum hf_status status,
                               const struct hf_error *why, struct fault *fault,
                               struct hf_error *error)
{
    scrub->failures_in_row = scrub_is_of_store(status) ? scrub->failures_in_row + 1 : 0;
    if (status == HF_CANCELLED || scrub->failures_in_row >= FAILURES_MAX) {
        *error = *why;
        return status;
    }
    if (status == HF_CONFLICT)
        fault->busy = true;
    else if (status != HF_OK && status != HF_NOT_FOUND)
        fault_set(fault, HF_SCRUB_UNREADABLE, why->why);
    return HF_OK;
}

bool scrub_skips(struct scrub *scrub, uint64_t size)
{
    bool skips = scrub->options->bytes_max > 0 && size > scrub->options->bytes_max;
    scrub->report->skipped += skips;
    return skips;
}
