/* export.c: a walk whose records become lines of a file. */
#include "index/export.h"

#include "index/text.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* Written out when there is more than this. */
#define WRITE_AT (256 * KIB)

struct export
{
    struct schema schema; /* as it was at first: all lines have the same fields */
    enum hf_index_format format;
    const struct index_visitor *visitor;
    int fd;
    bool began;
    struct buffer space, text;
};

static enum hf_status write_out(struct export *export, struct hf_error *error)
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

static enum hf_status write_record(void *argument, const struct record *record,
                                   struct hf_error *error)
{
    struct export *export = argument;
    if (!text_of_record(&export->schema, export->format, record->bytes, !export->began,
                        &export->space, &export->text))
        return error_no_memory(error);
    export->began = true;
    return export->text.size > WRITE_AT ? write_out(export, error) : HF_OK;
}

static bool pass_progress(void *argument, const struct walk_totals *totals)
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

/* What can be read is written, whatever cannot. */
static enum hf_status export_all(struct export *export, struct index *index,
                                 const struct index_query *query,
                                 struct walk_totals *ret_totals, struct hf_error *error)
{
    const struct index_visitor visitor = { write_record, pass_progress, pass_trouble, export };
    struct hf_error write_error;
    if (!text_of_header(&export->schema, export->format, &export->text))
        return error_no_memory(error);
    enum hf_status status = index_walk(index, query, &visitor, ret_totals, error);
    enum hf_status written = write_out(export, &write_error);
    if (status == HF_OK && written != HF_OK)
        *error = write_error;
    return status == HF_OK ? written : status;
}

enum hf_status index_export(struct index *index, const struct index_query *query, int fd,
                            enum hf_index_format format, const struct index_visitor *visitor,
                            struct walk_totals *ret_totals, struct hf_error *error)
{
    struct export *export = calloc(1, sizeof *export);
    if (!export)
        return error_no_memory(error);
    *export = (struct export){ .schema = index->schema,
                               .format = format,
                               .visitor = visitor,
                               .fd = fd,
                               .space = BUFFER_INIT(INDEX_TEXT_MAX),
                               .text = BUFFER_INIT(INDEX_TEXT_MAX + 2 * WRITE_AT) };
    enum hf_status status = export_all(export, index, query, ret_totals, error);
    buffer_release(&export->space);
    buffer_release(&export->text);
    free(export);
    return status;
}
