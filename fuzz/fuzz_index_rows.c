/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_index_rows.c: parses arbitrary bytes as a file for `index put`, in each of its formats.
 * The rows must not depend on how the file arrives in pieces; each must be on a line of the
 * file; a refused row must have a reason; and a record that the index accepts must be read as
 * the same from a file of records.
 *
 * The first byte chooses the format, and the number of pieces in which the rest arrives the
 * second time. */
#include "base/check.h"
#include "base/hash.h"
#include "fuzz.h"
#include "index/rows.h"
#include "index_schema.h"

#include <sys/socket.h>
#include <unistd.h>

#define INPUT_MAX  ((size_t)8192)
#define RECORD_MAX (8 * INPUT_MAX) /* an escape for each byte */
#define PIECES_MAX 64

/* A file that arrives in pieces of this many bytes: each packet answers one read. */
static int file_of(struct view bytes, size_t piece)
{
    int ends[2];
    check(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    while (bytes.size > 0) {
        struct view one = view_first(bytes, piece);
        check(send(ends[1], one.data, one.size, MSG_DONTWAIT) == (ssize_t)one.size);
        bytes = view_from(bytes, one.size);
    }
    close(ends[1]);
    return ends[0];
}

/* A record of the index is the only row of a file of records. Not on the first line, where a byte
 * order mark means nothing, which elsewhere is a letter of a key. */
static void record_holds(const struct schema *schema, struct view record)
{
    struct hf_error error;
    struct rows rows;
    struct buffer text = BUFFER_INIT(RECORD_MAX);
    check(buffer_append_byte(&text, '\n') && buffer_append(&text, record));
    int fd = file_of(buffer_view(&text), text.size);
    rows_init(&rows, schema, HF_INDEX_USV, fd);
    check(rows_next(&rows, &error) == HF_OK && view_equal(rows.record, record));
    check(rows_next(&rows, &error) == HF_NOT_FOUND);
    rows_release(&rows);
    close(fd);
    buffer_release(&text);
}

static void row_holds(const struct schema *schema, const struct rows *rows)
{
    struct buffer space = BUFFER_INIT(INDEX_KEY_BYTES_MAX);
    struct hf_error error = { .why = "" };
    struct record record;
    if (record_read(schema, rows->record, &space, &record, NULL, &error) == HF_OK)
        record_holds(schema, rows->record);
    else
        check(error.why[0] != '\0');
    buffer_release(&space);
}

static void note(struct buffer *seen, const struct rows *rows, struct view what)
{
    check(buffer_print(seen, "%ju-%ju %016jx\n", (uintmax_t)rows->line,
                       (uintmax_t)rows->last_line, (uintmax_t)hash_xxh3(what)));
}

/* Reads all rows, and records the result of each in `seen`. */
static void read_all(const struct schema *schema, enum hf_index_format format,
                     struct view bytes, size_t piece, struct buffer *seen)
{
    struct hf_error error = { .why = "" };
    enum hf_status status;
    struct rows rows;
    uint64_t count = 0, before = 0;
    int fd = file_of(bytes, piece);
    rows_init(&rows, schema, format, fd);
    while ((status = rows_next(&rows, &error)) == HF_OK ||
           (status == HF_INVALID && rows.go_on)) {
        check(++count <= bytes.size && rows.line >= before && rows.last_line >= rows.line);
        before = rows.line;
        check(status == HF_OK || error.why[0] != '\0');
        note(seen, &rows, status == HF_OK ? rows.record : view_of(error.why));
        if (status == HF_OK)
            row_holds(schema, &rows);
    }
    check(status == HF_NOT_FOUND || (status == HF_INVALID && error.why[0] != '\0'));
    note(seen, &rows, status == HF_INVALID ? view_of(error.why) : VIEW(""));
    check(status != HF_NOT_FOUND || rows.bytes_read == bytes.size);
    rows_release(&rows);
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum hf_index_format formats[] = { HF_INDEX_USV, HF_INDEX_CSV, HF_INDEX_TSV,
                                                    HF_INDEX_NDJSON };
    struct schema schema = schema_of_fields();
    struct buffer whole = BUFFER_INIT(MIB), pieces = BUFFER_INIT(MIB);
    if (size < 2 || size > INPUT_MAX)
        return 0;
    struct view bytes = { (const char *)data + 1, size - 1 };
    enum hf_index_format format = formats[data[0] % 4];
    size_t count = (size_t)data[0] / 4 % PIECES_MAX + 1;
    read_all(&schema, format, bytes, bytes.size, &whole);
    read_all(&schema, format, bytes, bytes.size / count + 1, &pieces);
    check(view_equal(buffer_view(&whole), buffer_view(&pieces)));
    buffer_release(&whole);
    buffer_release(&pieces);
    return 0;
}
