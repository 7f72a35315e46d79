/* SPDX-License-Identifier: Apache-2.0 */
/* parquet_footer.c: the footer of a Parquet file: a FileMetaData struct in Thrift's compact
 * protocol, its length in four bytes, and "PAR1". Only the counts are kept, and the names of
 * columns are compared; everything else is skipped. */
#include "merge/parquet_footer.h"

#include "base/arena.h"
#include "base/limits.h"
#include "base/map.h"
#include "file/bytes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#define MAGIC           "PAR1"
#define MAGIC_ENCRYPTED "PARE"
#define MAGIC_BYTES     4
#define TAIL_BYTES      8  /* the length of the footer, and the magic bytes */
#define DEPTH_MAX       16 /* of nested structs and lists; real footers need about 6 */

/* ---- Thrift's compact protocol ------------------------------------------------------- */

enum thrift_type {
    THRIFT_STOP = 0,
    THRIFT_TRUE = 1,
    THRIFT_FALSE = 2,
    THRIFT_BYTE = 3,
    THRIFT_I16 = 4,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_DOUBLE = 7,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_SET = 10,
    THRIFT_MAP = 11,
    THRIFT_STRUCT = 12,
};

struct thrift {
    struct view rest;
    bool failed;
};

static uint8_t thrift_byte(struct thrift *in)
{
    if (in->rest.size == 0) {
        in->failed = true;
        return 0;
    }
    uint8_t byte = (uint8_t)in->rest.data[0];
    in->rest = view_from(in->rest, 1);
    return byte;
}

static uint64_t take_varint(struct thrift *in)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = thrift_byte(in);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    in->failed = true;
    return 0;
}

static int64_t take_integer(struct thrift *in)
{
    uint64_t value = take_varint(in);
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

static void skip_bytes(struct thrift *in, uint64_t count)
{
    if (count > in->rest.size)
        in->failed = true;
    else
        in->rest = view_from(in->rest, (size_t)count);
}

/* The next field of a struct; false at its end. */
static bool next_field(struct thrift *in, int32_t *number, enum thrift_type *ret_type)
{
    uint8_t head = thrift_byte(in);
    if (in->failed || head == THRIFT_STOP)
        return false;
    int64_t id = head >> 4 ? *number + (head >> 4) : take_integer(in);
    if (id < INT16_MIN || id > INT16_MAX)
        in->failed = true;
    *number = (int32_t)id;
    *ret_type = (enum thrift_type)(head & 0x0f);
    return !in->failed;
}

/* The head of a list: every element takes at least one byte, so a larger count is damage. */
static uint64_t take_list(struct thrift *in, enum thrift_type *ret_type)
{
    uint8_t head = thrift_byte(in);
    uint64_t count = head >> 4 == 15 ? take_varint(in) : head >> 4;
    *ret_type = (enum thrift_type)(head & 0x0f);
    if (count > in->rest.size)
        in->failed = true;
    return in->failed ? 0 : count;
}

static void skip_value(struct thrift *in, enum thrift_type type, bool in_list, int depth);

static void skip_struct(struct thrift *in, int depth)
{
    int32_t number = 0;
    enum thrift_type type;
    while (next_field(in, &number, &type))
        skip_value(in, type, /* in_list */ false, depth - 1);
}

static void skip_elements(struct thrift *in, enum thrift_type type, int depth)
{
    enum thrift_type of;
    uint64_t count;
    if (type == THRIFT_MAP) {
        count = take_varint(in);
        uint8_t types = count > 0 ? thrift_byte(in) : 0;
        if (count > in->rest.size)
            in->failed = true;
        for (uint64_t i = 0; i < count && !in->failed; i++) {
            skip_value(in, (enum thrift_type)(types >> 4), /* in_list */ true, depth - 1);
            skip_value(in, (enum thrift_type)(types & 0x0f), /* in_list */ true, depth - 1);
        }
        return;
    }
    count = take_list(in, &of);
    for (uint64_t i = 0; i < count && !in->failed; i++)
        skip_value(in, of, /* in_list */ true, depth - 1);
}

/* A boolean field has its value in its type; a boolean in a list takes a byte. */
static void skip_value(struct thrift *in, enum thrift_type type, bool in_list, int depth)
{
    if (depth <= 0)
        in->failed = true;
    if (in->failed)
        return;
    switch (type) {
    case THRIFT_TRUE:
    case THRIFT_FALSE:
        if (in_list)
            skip_bytes(in, 1);
        return;
    case THRIFT_BYTE: skip_bytes(in, 1); return;
    case THRIFT_I16:
    case THRIFT_I32:
    case THRIFT_I64: take_varint(in); return;
    case THRIFT_DOUBLE: skip_bytes(in, 8); return;
    case THRIFT_BINARY: skip_bytes(in, take_varint(in)); return;
    case THRIFT_LIST:
    case THRIFT_SET:
    case THRIFT_MAP: skip_elements(in, type, depth); return;
    case THRIFT_STRUCT: skip_struct(in, depth); return;
    case THRIFT_STOP: break;
    }
    in->failed = true;
}

/* ---- FileMetaData -------------------------------------------------------------------- */

/* The numbers of the fields that are read, from the Parquet specification. */
enum { FILE_SCHEMA = 2, FILE_ROWS = 3, FILE_ROW_GROUPS = 4, FILE_ENCRYPTION = 8 };
enum { ELEMENT_NAME = 4, ELEMENT_CHILDREN = 5 };
enum { GROUP_BYTES = 2, GROUP_ROWS = 3 };

/* The names of columns that were read, with lower-case ASCII letters. */
struct column_names {
    struct arena arena;
    struct map seen;
    struct view twice; /* a name that occurred again; data NULL: none did */
    bool no_memory;
};

static void add_column_name(struct column_names *names, struct view name)
{
    char *folded = arena_take(&names->arena, name.size + 1);
    void *old = NULL;
    if (!folded) {
        names->no_memory = true;
        return;
    }
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        folded[i] = c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
    }
    if (!map_put(&names->seen, (struct view){ folded, name.size }, folded, &old))
        names->no_memory = true;
    if (old)
        names->twice = name;
}

/* The name and the number of children of an element of the schema. */
static struct view read_element(struct thrift *in, uint64_t *ret_children)
{
    struct view name = { "", 0 };
    enum thrift_type type;
    int32_t number = 0;
    *ret_children = 0;
    while (next_field(in, &number, &type)) {
        if (number == ELEMENT_NAME && type == THRIFT_BINARY) {
            uint64_t size = take_varint(in);
            name = view_first(in->rest, (size_t)size);
            skip_bytes(in, size);
        } else if (number == ELEMENT_CHILDREN && type == THRIFT_I32) {
            *ret_children = (uint64_t)take_integer(in);
        } else {
            skip_value(in, type, /* in_list */ false, DEPTH_MAX);
        }
    }
    return name;
}

/* The first element of the schema is its root, whose children are the columns; the children of each
 * element follow it. */
static uint64_t read_schema(struct thrift *in, struct column_names *names)
{
    enum thrift_type of;
    uint64_t count = take_list(in, &of), columns = 0, children, inside = 0;
    if (of != THRIFT_STRUCT)
        in->failed = true;
    for (uint64_t i = 0; i < count && !in->failed; i++) {
        struct view name = read_element(in, &children);
        bool is_column = i > 0 && inside == 0;
        if (children > count)
            in->failed = true;
        else if (i == 0)
            columns = children;
        else
            inside += children - !is_column;
        if (is_column && !in->failed)
            add_column_name(names, name);
    }
    return columns;
}

/* Adds a count that must not be negative, and whose sum must stay below 2^63. */
static void add_count(struct thrift *in, uint64_t *sum)
{
    int64_t count = take_integer(in);
    if (count < 0 || (uint64_t)count > (uint64_t)INT64_MAX - *sum)
        in->failed = true;
    else
        *sum += (uint64_t)count;
}

static void read_row_groups(struct thrift *in, struct parquet_footer *footer)
{
    enum thrift_type of, type;
    footer->row_groups = take_list(in, &of);
    if (footer->row_groups > 0 && of != THRIFT_STRUCT)
        in->failed = true;
    for (uint64_t i = 0; i < footer->row_groups && !in->failed; i++) {
        int32_t number = 0;
        uint64_t before = footer->bytes;
        while (next_field(in, &number, &type)) {
            if (number == GROUP_ROWS && type == THRIFT_I64)
                add_count(in, &footer->rows);
            else if (number == GROUP_BYTES && type == THRIFT_I64)
                add_count(in, &footer->bytes);
            else
                skip_value(in, type, /* in_list */ false, DEPTH_MAX);
        }
        if (footer->bytes - before > footer->group_bytes_max)
            footer->group_bytes_max = footer->bytes - before;
    }
}

static enum hf_status parse_file(struct view bytes, struct column_names *names,
                                 struct parquet_footer *ret_footer, struct hf_error *error)
{
    struct thrift in = { .rest = bytes };
    struct parquet_footer footer = { 0 };
    int64_t rows = -1;
    int32_t number = 0;
    enum thrift_type type;
    bool is_encrypted = false;
    while (next_field(&in, &number, &type)) {
        if (number == FILE_SCHEMA && type == THRIFT_LIST) {
            footer.columns = read_schema(&in, names);
        } else if (number == FILE_ROWS && type == THRIFT_I64) {
            rows = take_integer(&in);
        } else if (number == FILE_ROW_GROUPS && type == THRIFT_LIST) {
            read_row_groups(&in, &footer);
        } else {
            is_encrypted = is_encrypted || number == FILE_ENCRYPTION;
            skip_value(&in, type, /* in_list */ false, DEPTH_MAX);
        }
    }
    if (!in.failed && is_encrypted)
        return error_set(error, HF_INVALID,
                         "it is encrypted; Holdfast cannot read encrypted Parquet files");
    if (in.failed || rows < 0 || footer.columns > bytes.size)
        return error_set(error, HF_CORRUPT, "the footer of the Parquet file is damaged");
    if ((uint64_t)rows != footer.rows)
        return error_set(error, HF_CORRUPT,
                         "the Parquet file is damaged: its footer counts %" PRId64
                         " rows, but its row groups have %" PRIu64,
                         rows, footer.rows);
    if (names->no_memory)
        return error_no_memory(error);
    if (names->twice.data)
        return error_set(error, HF_INVALID,
                         "the name of the column '%.*s' occurs twice; DuckDB does not tell "
                         "upper from lower case",
                         VIEW_ARGS(view_first(names->twice, 60)));
    *ret_footer = footer;
    return HF_OK;
}

enum hf_status parquet_footer_parse(struct view bytes, struct parquet_footer *ret_footer,
                                    struct hf_error *error)
{
    struct column_names names = { .arena = ARENA_INIT, .seen = MAP_INIT };
    enum hf_status status = parse_file(bytes, &names, ret_footer, error);
    map_release(&names.seen);
    arena_release(&names.arena);
    return status;
}

/* ---- The file ------------------------------------------------------------------------ */

static enum hf_status check_magic(const char *start, const char *end, struct hf_error *error)
{
    bool is_parquet = memcmp(start, MAGIC, MAGIC_BYTES) == 0;
    if (memcmp(start, MAGIC_ENCRYPTED, MAGIC_BYTES) == 0 ||
        (is_parquet && memcmp(end, MAGIC_ENCRYPTED, MAGIC_BYTES) == 0))
        return error_set(error, HF_INVALID,
                         "it is encrypted; Holdfast cannot read encrypted Parquet files");
    if (!is_parquet)
        return error_set(error, HF_INVALID, "it is not a Parquet file");
    if (memcmp(end, MAGIC, MAGIC_BYTES) != 0)
        return error_set(error, HF_CORRUPT, "the Parquet file is truncated");
    return HF_OK;
}

static enum hf_status read_exactly(int fd, char *bytes, size_t size, uint64_t offset,
                                   struct hf_error *error)
{
    size_t got = 0;
    enum hf_status status = file_read_at(fd, bytes, size, offset, &got, error);
    if (status == HF_OK && got < size)
        return error_set(error, HF_UNAVAILABLE, "the file changed while it was being read");
    return status;
}

enum hf_status parquet_footer_read(int fd, struct parquet_footer *ret_footer,
                                   struct hf_error *error)
{
    char start[MAGIC_BYTES], tail[TAIL_BYTES];
    uint64_t size = 0, length = 0;
    enum hf_status status = file_size(fd, &size, error);
    if (status == HF_OK && size < MAGIC_BYTES + TAIL_BYTES)
        return error_set(error, HF_INVALID, "it is not a Parquet file");
    if (status == HF_OK)
        status = read_exactly(fd, start, sizeof start, 0, error);
    if (status == HF_OK)
        status = read_exactly(fd, tail, sizeof tail, size - TAIL_BYTES, error);
    if (status == HF_OK)
        status = check_magic(start, tail + TAIL_BYTES - MAGIC_BYTES, error);
    if (status != HF_OK)
        return status;
    for (int i = 3; i >= 0; i--)
        length = length << 8 | (uint8_t)tail[i];
    if (length > size - MAGIC_BYTES - TAIL_BYTES)
        return error_set(error, HF_CORRUPT, "the Parquet file is truncated");
    if (length > PARQUET_FOOTER_MAX)
        return error_set(error, HF_INVALID,
                         "its footer has %" PRIu64 " bytes; at most %zu can be read", length,
                         PARQUET_FOOTER_MAX);
    char *bytes = malloc(length + 1);
    if (!bytes)
        return error_no_memory(error);
    status = read_exactly(fd, bytes, length, size - TAIL_BYTES - length, error);
    if (status == HF_OK)
        status = parquet_footer_parse((struct view){ bytes, length }, ret_footer, error);
    free(bytes);
    return status;
}

enum hf_status parquet_footer_of(const char *path, const char *name,
                                 struct parquet_footer *ret_footer, struct hf_error *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_cannot_open(error, errno, name);
    enum hf_status status = parquet_footer_read(fd, ret_footer, error);
    close(fd);
    if (status != HF_OK)
        error_about(error, name);
    return status;
}
