#include "lock/epoch.h"

#include "base/json.h"
#include "base/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define EPOCH_BYTES_MAX ((size_t)4096)

struct epoch_key {
    char text[KEY_BYTES_MAX + 1];
};

static struct view key_of(struct view ns, struct epoch_key *space)
{
    int size = snprintf(space->text, sizeof space->text, "%s%.*s.json", LAYOUT_EPOCH_FOLDER,
                        VIEW_ARGS(ns));
    return (struct view){ space->text, (size_t)size };
}

/* ---- The document -------------------------------------------------------------------- */

static enum hf_status decode(struct view bytes, uint64_t *ret_epoch, struct hf_error *error)
{
    struct json_reader reader = json_read(bytes);
    struct view name, raw, format = VIEW("");
    uint64_t epoch = EPOCH_MAX + 1;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("format")))
            json_take_plain(&reader, &format);
        else if (view_equal(name, VIEW("epoch")))
            json_take_u64(&reader, EPOCH_MAX, &epoch);
        else
            json_skip(&reader, &raw);
    }
    if (!json_end(&reader) || epoch > EPOCH_MAX ||
        !view_equal(format, VIEW(LAYOUT_EPOCH_FORMAT)))
        return error_set(error, HF_CORRUPT, "the epoch document of the namespace is damaged");
    *ret_epoch = epoch;
    return HF_OK;
}

enum hf_status epoch_read(struct store *store, struct view ns, struct mono_time deadline,
                          uint64_t *ret_epoch, struct hf_error *error)
{
    struct epoch_key space;
    struct buffer body = BUFFER_INIT(EPOCH_BYTES_MAX);
    struct get_call get = { .key = key_of(ns, &space), .body = &body, .deadline = deadline };
    enum hf_status status = store_get(store, &get);
    if (status == HF_OK) {
        status = decode(buffer_view(&body), ret_epoch, error);
    } else if (status == HF_NOT_FOUND) {
        *ret_epoch = 0;
        status = HF_OK;
    } else {
        *error = get.error;
    }
    buffer_release(&body);
    return status;
}

/* ---- Raising it ---------------------------------------------------------------------- */

static enum hf_status epoch_decode(struct view bytes, struct mono_time arrived,
                                   const void *previous, void **ret_body,
                                   struct hf_error *error)
{
    (void)arrived;
    (void)previous;
    uint64_t *epoch = malloc(sizeof *epoch);
    if (!epoch)
        return error_no_memory(error);
    enum hf_status status = decode(bytes, epoch, error);
    if (status == HF_OK)
        *ret_body = epoch;
    else
        free(epoch);
    return status;
}

static enum hf_status epoch_birth(void *context, struct view key, struct mono_time deadline,
                                  void **ret_body, struct etag *ret_etag,
                                  struct hf_error *error)
{
    (void)context;
    (void)key;
    (void)deadline;
    (void)ret_etag;
    uint64_t *epoch = calloc(1, sizeof *epoch);
    if (!epoch)
        return error_no_memory(error);
    *ret_body = epoch;
    return HF_OK;
}

static bool epoch_encode(const void *body, struct view nonce, struct buffer *text)
{
    return buffer_print(text,
                        "{ \"format\": \"%s\", \"epoch\": %" PRIu64 ", \"write\": \"%.*s\" }\n",
                        LAYOUT_EPOCH_FORMAT, *(const uint64_t *)body, VIEW_ARGS(nonce));
}

static const struct doc_type epoch_type = {
    .bytes_max = EPOCH_BYTES_MAX,
    .decode = epoch_decode,
    .birth = epoch_birth,
    .encode = epoch_encode,
    .free = free,
};

struct raise_op {
    struct doc_op op;
    uint64_t by;
    uint64_t epoch;
};

static enum hf_status apply_raise(struct doc_op *op, void *body,
                                  const struct evidence *evidence)
{
    (void)evidence;
    struct raise_op *raise = (struct raise_op *)(void *)op;
    uint64_t *epoch = body;
    if (raise->by > EPOCH_MAX - *epoch)
        return error_set(&op->error, HF_UNAVAILABLE, "the namespace has used up its epochs");
    *epoch += raise->by;
    raise->epoch = *epoch;
    op->changed = true;
    return HF_OK;
}

enum hf_status epoch_raise_by(struct store *store, struct doc_clock *clock, struct view ns,
                              uint64_t by, struct mono_time deadline, uint64_t *ret_epoch,
                              struct hf_error *error)
{
    struct epoch_key space;
    struct doc *doc;
    enum hf_status status =
        doc_new(store, clock, key_of(ns, &space), &epoch_type, NULL, &doc, error);
    if (status != HF_OK)
        return status;
    struct raise_op raise = { .op = { .apply = apply_raise, .deadline = deadline }, .by = by };
    status = doc_update(doc, &raise.op);
    if (status == HF_OK)
        *ret_epoch = raise.epoch;
    else
        *error = raise.op.error;
    doc_free(doc);
    return status;
}

enum hf_status epoch_raise(struct store *store, struct doc_clock *clock, struct view ns,
                           struct mono_time deadline, uint64_t *ret_epoch,
                           struct hf_error *error)
{
    return epoch_raise_by(store, clock, ns, 1, deadline, ret_epoch, error);
}
