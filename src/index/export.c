/* SPDX-License-Identifier: Apache-2.0 */
/* export.c: writes the records of a walk to a file. Records of damaged shards are missing in the
 * file; the status reports this. */
#include "index/export.h"

#include "index/text.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* The buffer is written out when it exceeds this size. */
#define WRITE_AT (256 * KIB)

struct export
{
    struct schema schema; /* as first read, so all lines have the same fields */
    enum hf_index_format format;
    const struct index_visitor *visitor;
    int fd;
    bool began;
    struct buffer space, text;
};

static enum hf_status flush_export(struct export *export, struct hf_error *error)
{
    struct view left = buffer_view(&export->text);
    while (left.size > 0) {
        ssize_t done = write(export->fd, left.data, left.size);
        if (done < 0 && errno != EINTR)
            return error_from_errno(error, errno, "write the records");
        left = view_from(left, done > 0 ? (size_t)done : 0);
    }
    buffer_clear(&export->text);
    return HF_OK;
}

static enum hf_status export_record(void *argument, const struct record *record,
                                    struct hf_error *error)
{
    struct export *export = argument;
    if (!text_of_record(&export->schema, export->format, record->bytes, !export->began,
                        &export->space, &export->text))
        return error_no_memory(error);
    export->began = true;
    return export->text.size > WRITE_AT ? flush_export(export, error) : HF_OK;
}

static bool pass_progress(void *argument, const struct hf_index_progress *totals)
{
    const struct export *export = argument;
    return !export->visitor->progress ||
           export->visitor->progress(export->visitor->argument, totals);
}

static void pass_trouble(void *argument, const struct hf_error *error)
{
    const struct export *export = argument;
    if (export->visitor->trouble)
        export->visitor->trouble(export->visitor->argument, error);
}

enum hf_status index_export(struct index *index, const struct index_query *query,
                            const struct export_file *file, const struct index_visitor *visitor,
                            struct hf_index_progress *ret_totals, struct hf_error *error)
{
    struct export *export = calloc(1, sizeof *export);
    if (!export)
        return error_no_memory(error);
    *export = (struct export){ .schema = index->schema,
                               .format = file->format,
                               .visitor = visitor,
                               .fd = file->fd,
                               .space = BUFFER_INIT(INDEX_TEXT_MAX),
                               .text = BUFFER_INIT(INDEX_TEXT_MAX + 2 * WRITE_AT) };
    const struct index_visitor shown = { export_record, pass_progress, pass_trouble, export };
    struct hf_error write_error;
    enum hf_status status = HF_OK;
    if (text_of_header(&export->schema, export->format, &export->text)) {
        status = index_walk(index, query, &shown, ret_totals, error);
        /* Writes the records that could be read, even if others could not. */
        if (flush_export(export, &write_error) != HF_OK && status == HF_OK)
            status = (*error = write_error).status;
    } else {
        status = error_no_memory(error);
    }
    buffer_release(&export->space);
    buffer_release(&export->text);
    free(export);
    return status;
}
