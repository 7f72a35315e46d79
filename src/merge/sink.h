/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h: the destination of rows: the output, a run in a scratch file, or the reject file. Until
 * the next key arrives, the last row can be replaced by a later record of its key. So each record
 * is copied once, directly into the output buffer. */
#ifndef MERGE_SINK_H
#define MERGE_SINK_H

#include "file/new_file.h"
#include "merge/batch.h"
#include "merge/budget.h"
#include "merge/codec.h"

struct sink {
    struct new_file file; /* a scratch file has no name */
    bool is_run;          /* rows are written in run format (run.h) */
    bool is_foreign;      /* a descriptor of the caller, not a file of ours */
    bool *disk_full;      /* set if a write finds no room; may be NULL */
    struct budget *budget;
    size_t charged;
    bool too_wide; /* the budget was too small for a long record */
    struct encoder *encoder;
    struct encode_task *encoding; /* the thread that uses the encoder and writes; or NULL */
    char *bytes; /* not written yet; followed by COPY_STEP spare bytes after `capacity` */
    size_t capacity;
    size_t settled;   /* how many of them are final */
    size_t offered;   /* bytes of the offered row, after those */
    size_t record_at; /* offset of its record in the offered row */
    size_t record_size;
    uint64_t size;     /* of the file so far */
    uint64_t synced;   /* how much of it is being written to disk */
    bool intermediate; /* never synced, but checksummed */
    bool doubles_mark; /* a text: a byte order mark that is part of its first record stays */
    bool ahead;        /* starts writing to disk early, for the sync at the end */
    uint32_t crc32c;   /* of an intermediate file so far */
    struct hf_error error; /* the first error; nothing is written after it */
};

struct sink_options {
    const char *path;
    struct file_watch watch;
    enum hf_merge_coding coding;
    bool encode_aside; /* compress on a thread of its own, if there is memory for it */
    struct budget *budget;
};

/* Opens a file that becomes visible at its path only when sink_keep is called. On failure the sink
 * is released. With encode_aside, the sink must not be moved until it is released. */
enum hf_status sink_create(struct sink *sink, struct env *env,
                           const struct sink_options *options, struct hf_error *error);

/* Opens an unnamed file in a folder; it is gone once it is closed. */
enum hf_status sink_scratch(struct sink *sink, const char *folder, struct budget *budget,
                            struct hf_error *error);

/* Writes to a copy of a descriptor, such as a pipe, which is never synced. If its reader is gone,
 * the error is CANCELLED. */
enum hf_status sink_descriptor(struct sink *sink, int fd, enum hf_merge_coding coding,
                               struct budget *budget, struct hf_error *error);

/* Makes room to offer `size` bytes. False if that, or a write, has failed (see sink->error). */
bool sink_room(struct sink *sink, size_t size);

/* Most records are short, and readable bytes follow them in their block. They are copied in steps
 * of a fixed size. The last step may write past the end, into free room. */
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

/* Offers a record of a batch, with its LF, in place of the record that was offered before. */
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

/* Takes back what was offered. */
static inline void sink_withdraw(struct sink *sink)
{
    sink->offered = 0;
}

static inline struct view sink_offered_record(const struct sink *sink)
{
    return (struct view){ sink->bytes + sink->settled + sink->record_at, sink->record_size };
}

/* Writes any bytes; they are final immediately. */
bool sink_add(struct sink *sink, struct view bytes);

/* The first error, with the name of the file. */
enum hf_status sink_status(const struct sink *sink, struct hf_error *error);

/* Writes all final bytes; nothing may follow. Afterwards a named file is on disk, unless it is
 * intermediate. */
enum hf_status sink_end(struct sink *sink, struct hf_error *error);

/* Renames a finished file to its final name (new_file_keep). */
enum hf_status sink_keep(struct sink *sink, struct hf_error *error);

/* Removes the file unless it was kept. */
void sink_release(struct sink *sink);

#endif
