/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_merge_source.c: reads arbitrary bytes as an input of a merge, in blocks of several
 * sizes. The rows must not depend on where blocks end. */
#include "base/check.h"
#include "fuzz.h"
#include "merge/source.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define DATA_MAX   2048
#define COPIES     4  /* repetitions of the data, to fill blocks */
#define PAD_STEP   32 /* empty lines before them, to move the ends of blocks */
#define INPUT_MAX  (COPIES * DATA_MAX + 255 * PAD_STEP)
#define KEYS_MAX   (64 * INPUT_MAX) /* a time, where it is the key, may be longer than its text */
#define ROWS_MAX   (INPUT_MAX / 2 + 1)
#define RECORD_FEW 200
#define RECORD_MAX 6000
#define MEMORY     ((size_t)64 << 20)

/* One way to read: the size of blocks, and how many take turns. */
struct way {
    size_t block_bytes;
    size_t batch_count;
};

static const struct way ways[] = { { 65536, 1 }, { 4096, 2 }, { 4099, 1 } };

struct kept_row {
    struct view record; /* its pieces joined */
    struct view key;
    struct instant time;
    order_code code;
    uint16_t fault;
};

/* The result of one way of reading. */
struct rows {
    enum hf_status status;
    bool unsorted;
    size_t count;
    struct kept_row rows[ROWS_MAX];
    size_t records_used;
    size_t keys_used;
    char records[INPUT_MAX];
    char keys[KEYS_MAX];
};

/* ---- The input ----------------------------------------------------------------------- */

struct input {
    struct feed feed;
    struct cutter cutter;
    bool with_header;
    char header[INPUT_MAX]; /* the start of the first way of reading */
    size_t header_size;
};

static struct cutter cutter_of(uint8_t choice)
{
    bool timed = choice & 8, keyed = !timed || choice & 4;
    struct cutter cutter = { .separator = (choice & 3) == 2 ? '\t' : ',',
                             .any_order = choice & 0x20,
                             .record_bytes_max = choice & 0x40 ? RECORD_FEW : RECORD_MAX };
    cutter.format = (choice & 3) == 0   ? &format_usv
                    : (choice & 3) == 3 ? &format_ndjson
                                        : &format_csv;
    bool named = cutter.format == &format_ndjson;
    if (keyed)
        cutter.key =
            (struct merge_key){ .parts = { { .field = { true, named ? 0 : 1, VIEW("k") } } },
                                .count = 1 };
    if (timed)
        cutter.time = (struct field){ true, named ? 0 : 2, VIEW("t") };
    return cutter;
}

/* A byte order mark stays first. */
static size_t write_input(int fd, struct view data, size_t pad, size_t copies)
{
    static char bytes[INPUT_MAX];
    const struct view mark = VIEW("\xef\xbb\xbf");
    size_t size = 0;
    if (view_starts_with(data, mark)) {
        memcpy(bytes, mark.data, mark.size);
        size = mark.size;
        data = view_from(data, mark.size);
    }
    memset(bytes + size, '\n', pad);
    size += pad;
    for (size_t i = 0; i < copies && data.size > 0; i++, size += data.size)
        memcpy(bytes + size, data.data, data.size);
    check(ftruncate(fd, 0) == 0);
    check(pwrite(fd, bytes, size, 0) == (ssize_t)size);
    return size;
}

/* ---- Reading ------------------------------------------------------------------------- */

static struct view keep(char *room, size_t capacity, size_t *used, struct view bytes)
{
    check(bytes.size <= capacity - *used);
    char *to = room + *used;
    if (bytes.size > 0)
        memcpy(to, bytes.data, bytes.size);
    *used += bytes.size;
    return (struct view){ to, bytes.size };
}

/* Returns whether the batch ends in the middle of a record. */
static bool keep_rows(const struct batch *batch, bool timed, bool goes_on, struct rows *all)
{
    check(batch->rows_before == all->count);
    for (size_t i = 0; i < batch->row_count; i++) {
        const struct row *row = &batch->rows[i];
        check(row->at + (size_t)row->size <= batch->filled && all->count < ROWS_MAX);
        check(!goes_on || row->fault == ROW_PIECE || row->fault == ROW_TOO_LONG);
        struct kept_row *kept = &all->rows[all->count];
        struct view bytes =
            keep(all->records, INPUT_MAX, &all->records_used, batch_record(batch, row));
        if (goes_on)
            kept->record.size += bytes.size;
        else
            *kept = (struct kept_row){ .record = bytes };
        goes_on = row->fault == ROW_PIECE;
        all->count += !goes_on;
        kept->fault = row->fault;
        if (row->fault)
            continue;
        kept->code = row->code;
        kept->key = keep(all->keys, KEYS_MAX, &all->keys_used, batch_key(batch, row));
        if (timed)
            kept->time = row->time;
    }
    check(batch->rows[batch->row_count].fault == ROW_END);
    return goes_on;
}

static void read_rows(struct source *source, struct rows *all)
{
    struct hf_error error;
    bool goes_on = false;
    for (size_t turn = 0;; turn++) {
        check(turn <= INPUT_MAX);
        struct batch *batch = &source->batches[turn % source->batch_count];
        all->status = source_fill(source, batch, &error);
        /* Only a header can be wrong: there is enough memory, and any bytes are rows. */
        check(all->status == HF_OK || (all->status == HF_INVALID && source->header.data));
        if (all->status != HF_OK)
            return;
        goes_on = keep_rows(batch, source->cutter.time.asked, goes_on, all);
        all->unsorted = batch->unsorted;
        if (batch->row_count == 0 || batch->unsorted)
            break;
    }
    check(!goes_on && source->rows == all->count);
}

/* The first to be called decides on the header, and on the fields. */
static enum hf_status read_header(struct input *input, struct way way, struct budget *budget)
{
    struct source source;
    struct hf_error error;
    struct buffer header = BUFFER_INIT(INPUT_MAX);
    enum hf_status status =
        source_init(&source, &input->feed,
                    &(struct source_options){ &input->cutter, (struct view){ NULL, 0 },
                                              way.block_bytes, 1, budget },
                    &error);
    if (status == HF_OK)
        status = source_read_header(&source, &header, &error);
    if (status == HF_OK && way.block_bytes == ways[0].block_bytes) {
        memcpy(input->header, header.data ? header.data : "", header.size);
        input->header_size = header.size;
    } else if (status == HF_OK) {
        check(view_equal(buffer_view(&header),
                         (struct view){ input->header, input->header_size }));
    }
    buffer_release(&header);
    source_release(&source);
    return status;
}

static void read_in(struct input *input, struct way way, struct rows *all)
{
    struct budget budget = { .limit = MEMORY };
    struct source source;
    struct hf_error error;
    struct view header = { input->with_header ? input->header : NULL, 0 };
    all->count = all->records_used = all->keys_used = 0;
    all->unsorted = false;
    all->status = input->with_header ? read_header(input, way, &budget) : HF_OK;
    header.size = input->with_header ? input->header_size : 0;
    struct cutter cutter = input->cutter;
    if (all->status == HF_OK && !(input->with_header && header.size == 0))
        all->status = cutter.format->resolve(&cutter, header, &error);
    if (all->status != HF_OK)
        return;
    all->status = source_init(&source, &input->feed,
                              &(struct source_options){ &cutter, header, way.block_bytes,
                                                        way.batch_count, &budget },
                              &error);
    /* Damage may come before disorder, or after it. */
    if (all->status == HF_OK && decoder_coding(source.decoder) == HF_MERGE_PLAIN)
        read_rows(&source, all);
    source_release(&source);
    check(atomic_load(&budget.used) == 0);
}

/* ---- The same rows ------------------------------------------------------------------- */

static void same_rows(const struct input *input, const struct rows *a, const struct rows *b)
{
    check(a->status == b->status);
    check(a->unsorted == b->unsorted);
    check(a->count == b->count);
    for (size_t i = 0; i < a->count; i++) {
        const struct kept_row *x = &a->rows[i], *y = &b->rows[i];
        check(view_equal(x->record, y->record));
        /* Any other error of a record is reported if the record fits into a block. */
        bool too_long = x->record.size > input->cutter.record_bytes_max;
        check(too_long ? x->fault && y->fault : x->fault == y->fault);
        check(view_equal(x->key, y->key));
        check(x->code == y->code);
        check(instant_compare(x->time, y->time) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    static struct input input;
    static struct rows first, other;
    if (size < 2)
        return 0;
    if (fd < 0) {
        fd = memfd_create("input", MFD_CLOEXEC);
        check(fd >= 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    struct view bytes = view_first((struct view){ (const char *)data + 2, size - 2 }, DATA_MAX);
    size_t written =
        write_input(fd, bytes, (size_t)data[1] * PAD_STEP, data[0] & 0x80 ? COPIES : 1);
    input.feed = (struct feed){ .path = path, .run = -1, .size = written };
    input.cutter = cutter_of(data[0]);
    input.with_header = input.cutter.format->header && !(data[0] & 0x10);
    input.header_size = 0;
    read_in(&input, ways[0], &first);
    for (size_t i = 1; i < sizeof ways / sizeof *ways; i++) {
        read_in(&input, ways[i], &other);
        same_rows(&input, &first, &other);
    }
    return 0;
}
