/* output.c: stdout as a bounded buffer, and the escaping of keys. */
#include "cli/output.h"

#include "base/limits.h"
#include "base/parse.h"
#include "base/utf8.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

/* Written out when more than FLUSH_AT is pending; one append may be as large as the rest. */
#define PENDING_MAX (4 * MIB)
#define FLUSH_AT    (64 * KIB)

/* As https://no-color.org has it: set and not empty. */
static bool wants_bold(void)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return !(none && none[0]) && terminal && terminal[0] && strcmp(terminal, "dumb") != 0;
}

void output_init(struct output *out, int fd)
{
    bool terminal = isatty(fd) == 1;
    *out = (struct output){
        .fd = fd,
        .terminal = terminal,
        .bold = terminal && wants_bold(),
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

static int append_json(const char *bytes, size_t size, void *out)
{
    output_bytes(out, (struct view){ bytes, size });
    return 0;
}

/* Fractions, which are spans of time, without the digits that only a double has: 0.3. */
void output_json(struct output *out, json_t *value)
{
    size_t flags = JSON_COMPACT | JSON_REAL_PRECISION(12);
    if (!value || json_dump_callback(value, append_json, out, flags) != 0)
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
    error_prefix(error, "undone, since nobody could be told of it");
    return HF_UNAVAILABLE;
}

/* ---- Keys ---------------------------------------------------------------------------- */

/* C0 and DEL, and C1 in its two-byte form, which some terminals obey too. */
static bool is_control(struct view text)
{
    unsigned char first = (unsigned char)text.data[0];
    return first < 0x20 || first == 0x7f ||
           (first == 0xc2 && text.size > 1 && (unsigned char)text.data[1] < 0xa0);
}

static void escape_byte(struct buffer *to, char byte)
{
    switch (byte) {
    case '\n': buffer_append(to, VIEW("\\n")); return;
    case '\t': buffer_append(to, VIEW("\\t")); return;
    case '\\': buffer_append(to, VIEW("\\\\")); return;
    default: buffer_print(to, "\\x%02x", (unsigned char)byte); return;
    }
}

bool escape_append(struct buffer *to, struct view text)
{
    while (text.size > 0) {
        size_t size = utf8_size(text);
        if (size == 0 || is_control(text) || text.data[0] == '\\') {
            escape_byte(to, text.data[0]);
            size = 1;
        } else {
            buffer_append(to, view_first(text, size));
        }
        text = view_from(text, size);
    }
    return !to->failed;
}

void output_words(struct output *out, struct view words)
{
    struct buffer text = BUFFER_INIT(8 * KEY_BYTES_MAX);
    escape_append(&text, words);
    output_bytes(out, buffer_view(&text));
    buffer_release(&text);
}

void output_count(struct output *out, uint64_t count, const char *noun)
{
    output_print(out, "%" PRIu64 " %s%s", count, noun, plural(count));
}

static bool set_hex(json_t *object, const char *name, struct view key)
{
    char field[64];
    snprintf(field, sizeof field, "%s_hex", name);
    char *hex = malloc(2 * key.size + 1);
    if (!hex)
        return false;
    hex_encode(key.data, key.size, hex);
    bool ok = json_object_set_new(object, field, json_string(hex)) == 0;
    free(hex);
    return ok;
}

bool json_set_key(json_t *object, const char *name, struct view key)
{
    if (!utf8_is_valid(key))
        return set_hex(object, name, key);
    return json_object_set_new(object, name, json_stringn(key.data, key.size)) == 0;
}
