/* SPDX-License-Identifier: Apache-2.0 */
/* output.c: buffered output to stdout, and the escaping of strings, so that no name can send
 * control bytes to a terminal. */
#include "cli/output/output.h"

#include "base/json.h"
#include "base/limits.h"
#include "base/parse.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* Pending bytes are written when they exceed FLUSH_AT. A single append may use the rest of the
 * buffer. */
#define PENDING_MAX (4 * MIB)
#define FLUSH_AT    (64 * KIB)

/* As defined at https://no-color.org, NO_COLOR takes effect if it is set and not empty. */
void output_init(struct output *out, int fd)
{
    const char *none = getenv("NO_COLOR"), *type = getenv("TERM");
    bool terminal = isatty(fd) == 1;
    bool capable = !(none && none[0]) && type && type[0] && strcmp(type, "dumb") != 0;
    *out = (struct output){
        .fd = fd,
        .terminal = terminal,
        .bold = terminal && capable,
        .pending = BUFFER_INIT(PENDING_MAX),
    };
}

void output_release(struct output *out)
{
    buffer_release(&out->pending);
}

static void write_pending(struct output *out)
{
    struct view left = buffer_view(&out->pending);
    while (left.size > 0 && !out->failed_errno) {
        ssize_t done = write(out->fd, left.data, left.size);
        if (done >= 0)
            left = view_from(left, (size_t)done);
        else if (errno != EINTR)
            out->failed_errno = errno;
    }
    buffer_clear(&out->pending);
}

static void appended(struct output *out)
{
    if (out->pending.failed && !out->failed_errno)
        out->failed_errno = ENOMEM;
    if (out->pending.size > FLUSH_AT)
        write_pending(out);
}

void output_bytes(struct output *out, struct view bytes)
{
    buffer_append(&out->pending, bytes);
    appended(out);
}

void output_text(struct output *out, const char *text)
{
    output_bytes(out, view_of(text));
}

void output_print(struct output *out, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int size = vasprintf(&text, format, args);
    va_end(args);
    if (size < 0) {
        out->pending.failed = true;
        appended(out);
        return;
    }
    output_bytes(out, (struct view){ text, (size_t)size });
    free(text);
}

void output_bold(struct output *out, struct view text)
{
    if (out->bold)
        output_text(out, "\033[1m");
    output_bytes(out, text);
    if (out->bold)
        output_text(out, "\033[0m");
}

static int append_dumped(const char *bytes, size_t size, void *out)
{
    output_bytes(out, (struct view){ bytes, size });
    return 0;
}

/* The first byte of a string that is printed without quotes and escapes. It is not UTF-8, and the
 * other functions that make strings take only UTF-8. */
#define RAW_MARK '\xff'

/* With 12 digits, a fraction such as 0.3 is printed without the rounding errors of a double. */
static void append_leaf(struct output *out, const json_t *value)
{
    size_t flags = JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12);
    const char *text = json_string_value(value);
    if (text && text[0] == RAW_MARK)
        output_bytes(out, (struct view){ text + 1, json_string_length(value) - 1 });
    else if (json_dump_callback(value, append_dumped, out, flags) != 0)
        out->pending.failed = true;
}

static void append_json(struct output *out, json_t *value)
{
    const char *name, *separator = "";
    json_t *item;
    size_t i;
    if (json_is_object(value)) {
        output_text(out, "{");
        json_object_foreach(value, name, item)
        {
            output_text(out, separator);
            separator = ",";
            json_write_string(&out->pending, view_of(name));
            output_text(out, ":");
            append_json(out, item);
        }
        output_text(out, "}");
    } else if (json_is_array(value)) {
        output_text(out, "[");
        json_array_foreach(value, i, item)
        {
            output_text(out, i > 0 ? "," : "");
            append_json(out, item);
        }
        output_text(out, "]");
    } else {
        append_leaf(out, value);
    }
}

void output_json(struct output *out, json_t *value)
{
    if (value)
        append_json(out, value);
    else
        out->pending.failed = true;
    json_decref(value);
    output_text(out, "\n");
}

void output_key(struct output *out, struct view key)
{
    if (out->terminal)
        escape_append(&out->pending, key);
    else
        buffer_append(&out->pending, key);
    appended(out);
}

enum hf_status output_failed(int fd, int errno_value, struct hf_error *error)
{
    struct hf_error why;
    enum hf_status status = error_from_errno(&why, errno_value, "write the output");
    if (fd == STDOUT_FILENO)
        status = HF_UNREPORTED;
    return error_set(error, status, "%s", why.why);
}

enum hf_status output_flush(struct output *out, struct hf_error *error)
{
    write_pending(out);
    return out->failed_errno ? output_failed(out->fd, out->failed_errno, error) : HF_OK;
}

bool output_is_closed(const struct output *out)
{
    return out->failed_errno == EPIPE;
}

enum hf_status output_flush_or_undo(struct output *out, struct hf_error *error)
{
    enum hf_status status = output_flush(out, error);
    if (status != HF_UNREPORTED)
        return status;
    if (error)
        error->status = HF_UNAVAILABLE;
    error_prefix(error, "undone, because the result could not be printed");
    return HF_UNAVAILABLE;
}

/* ---- JSON ---------------------------------------------------------------------------- */

/* If memory was exhausted, the whole value becomes NULL. */
static void json_drop(json_t **whole, json_t *value)
{
    if (!*whole)
        json_decref(value);
    json_decref(*whole);
    *whole = NULL;
}

void json_add(json_t **object, const char *name, json_t *value)
{
    if (!*object || json_object_set_new(*object, name, value) != 0)
        json_drop(object, value);
}

void json_push(json_t **array, json_t *value)
{
    if (!*array || json_array_append_new(*array, value) != 0)
        json_drop(array, value);
}

/* jansson itself cannot keep every value: it refuses large numbers and \u0000, and rounds. Between
 * tokens, the ends of lines become spaces, because a record is one line. */
json_t *json_raw(struct view json)
{
    struct json_reader reader = json_read(json);
    struct buffer text = BUFFER_INIT(SIZE_MAX);
    struct view value;
    bool valid = json_skip(&reader, &value) && json_end(&reader);
    if (valid) {
        buffer_append_byte(&text, RAW_MARK);
        buffer_append(&text, json);
        for (size_t i = 0; i < text.size; i++)
            text.data[i] = text.data[i] == '\n' || text.data[i] == '\r' ? ' ' : text.data[i];
    } else {
        escape_append(&text, json);
    }
    json_t *raw = text.failed ? NULL : json_stringn_nocheck(buffer_view(&text).data, text.size);
    buffer_release(&text);
    return raw;
}

void json_add_key(json_t **object, const char *name, struct view key)
{
    char name_hex[64];
    if (utf8_is_valid(key)) {
        json_add(object, name, json_stringn(key.data, key.size));
        return;
    }
    char *hex = malloc(2 * key.size + 1);
    snprintf(name_hex, sizeof name_hex, "%s_hex", name);
    if (hex)
        hex_encode(key.data, key.size, hex);
    json_add(object, name_hex, hex ? json_string(hex) : NULL);
    free(hex);
}

void json_add_words(json_t **object, const char *name, struct view words)
{
    struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX), space = BUFFER_INIT(8 * KEY_BYTES_MAX);
    words = own_words(words, &space);
    if (words.size == 0) {
        json_add(object, name, json_null());
    } else if (utf8_is_valid(words)) {
        json_add(object, name, json_stringn(words.data, words.size));
    } else {
        bool fits = escape_append(&text, words);
        json_add(object, name, fits ? json_stringn(text.data, text.size) : NULL);
    }
    buffer_release(&text);
    buffer_release(&space);
}
