/* sink.h: where rows go: the output, a run in a scratch file, or the reject file.
 *
 * The row written last stays on offer until it is settled: a better one may take its place. So
 * the merge copies each record once, straight to where it leaves from. */
#ifndef MERGE_SINK_H
#define MERGE_SINK_H

#include "merge/batch.h"
#include "merge/budget.h"
#include "merge/codec.h"
#include "merge/new_file.h"

struct sink {
    struct new_file file; /* without names for a scratch file */
    bool *disk_full;      /* set when a write finds no room; NULL: nobody wants to know */
    struct budget *budget;
    size_t charged;
    bool too_wide; /* the budget was not enough for a long record */
    struct encoder *encoder;
    char *bytes; /* not written yet; with COPY_STEP of room behind `capacity` */
    size_t capacity;
    size_t settled;   /* of them: will not change any more */
    size_t offered;   /* behind those: the row on offer */
    size_t record_at; /* its record, within the offer */
    size_t record_size;
    uint64_t size;         /* of the file so far */
    uint64_t synced;       /* of that: on its way to the disk */
    bool intermediate;     /* never synced, but checksummed */
    bool ahead;            /* the disk is kept busy, since the file is synced in the end */
    uint32_t crc32c;       /* of an intermediate file so far */
    struct hf_error error; /* the first thing that went wrong; nothing is written after it */
};

/* A file that appears under `path` when it is kept. A sink that could not be made is released. */
enum hf_status sink_create(struct sink *sink, struct env *env, const char *path,
                           struct file_watch watch, enum merge_coding coding,
                           struct budget *budget, struct hf_error *error);

/* A nameless file in a folder, gone when it is closed. */
enum hf_status sink_scratch(struct sink *sink, const char *folder, struct budget *budget,
                            struct hf_error *error);

/* Makes room for `size` bytes on offer; false when that, or a write, failed (sink->error). */
bool sink_room(struct sink *sink, size_t size);

/* Most records are short, and lie in a block with readable bytes behind them: so they are copied
 * in steps of a fixed size, the last of which may go past the end, into room that is free. */
#define COPY_STEP     32
#define COPY_STEP_MAX 512
static_assert(BLOCK_SLACK >= COPY_STEP, "a record may stand at the end of a block");

static inline void sink_copy(char *to, struct view record)
{
    if (record.size > COPY_STEP_MAX) {
        memcpy(to, record.data, record.size);
        return;
    }
    for (size_t at = 0; at < record.size; at += COPY_STEP)
        memcpy(to + at, record.data + at, COPY_STEP);
}

/* Puts a record of a batch, with its LF, on offer, in place of what was. */
static inline bool sink_offer(struct sink *sink, struct view record)
{
    if (record.size + 1 > sink->capacity - sink->settled && !sink_room(sink, record.size + 1))
        return false;
    char *to = sink->bytes + sink->settled;
    sink_copy(to, record);
    to[record.size] = '\n';
    sink->offered = record.size + 1;
    sink->record_at = 0;
    sink->record_size = record.size;
    return true;
}

static inline void sink_settle(struct sink *sink)
{
    sink->settled += sink->offered;
    sink->offered = 0;
}

static inline struct view sink_offered_record(const struct sink *sink)
{
    return (struct view){ sink->bytes + sink->settled + sink->record_at, sink->record_size };
}

/* Bytes of any number, settled at once. */
bool sink_add(struct sink *sink, struct view bytes);

/* The first thing that went wrong, with the name of the file. */
enum hf_status sink_status(const struct sink *sink, struct hf_error *error);

/* Writes all that is settled; nothing may follow. A file that is to have a name is on disk then,
 * unless it is intermediate. */
enum hf_status sink_end(struct sink *sink, struct hf_error *error);

/* Gives a file that has ended its name (new_file_keep). */
enum hf_status sink_keep(struct sink *sink, struct hf_error *error);

/* Forgets the file, if it was not kept. */
void sink_release(struct sink *sink);

#endif
