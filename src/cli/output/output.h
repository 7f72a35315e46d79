/* SPDX-License-Identifier: Apache-2.0 */
/* output.h: buffered output to stdout. It remembers the first failed write, and escapes keys on a
 * terminal, because a key may contain control bytes. */
#ifndef CLI_OUTPUT_OUTPUT_H
#define CLI_OUTPUT_OUTPUT_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/escape.h"
#include "base/view.h"

#include <jansson.h>

struct output {
    int fd;
    bool terminal;
    bool bold;        /* print titles in bold: on a capable terminal, unless NO_COLOR is set */
    int failed_errno; /* from the first write that failed; nothing is written after it */
    struct buffer pending;
};

void output_init(struct output *out, int fd);
void output_release(struct output *out);

void output_bytes(struct output *out, struct view bytes);
void output_text(struct output *out, const char *text);
__attribute__((format(printf, 2, 3))) void output_print(struct output *out, const char *format,
                                                        ...);

/* Writes a title, in bold if out->bold is set. */
void output_bold(struct output *out, struct view text);

/* Writes the value as one line, and frees it. NULL, which jansson returns if memory is exhausted,
 * counts as a failed write. */
void output_json(struct output *out, json_t *value);

/* Writes a key: escaped on a terminal, unchanged elsewhere. */
void output_key(struct output *out, struct view key);

/* Writes the pending bytes, and fails if this or an earlier write failed. The status is UNREPORTED:
 * the command was carried out, but its output could not be written. */
enum hf_status output_flush(struct output *out, struct hf_error *error);

/* Like output_flush, but the status is UNAVAILABLE, for a command that is undone if its output
 * cannot be written. */
enum hf_status output_flush_or_undo(struct output *out, struct hf_error *error);

/* Whether the reader of the output is gone (EPIPE). Long work then stops, but continues after other
 * write errors, such as a full disk. */
bool output_is_closed(const struct output *out);

/* Sets the error for a failed write to the output. */
enum hf_status output_failed(int fd, int errno_value, struct hf_error *error);

/* Rewrites a message from the library for users of the program: names of C members and functions
 * become options and commands. The result is in `space`, or is `sentence` itself if nothing
 * changed. */
struct view own_words(struct view sentence, struct buffer *space);

/* Sets a member, or appends an item. If memory is exhausted, the whole value becomes NULL, which
 * output_json reports. */
void json_add(json_t **object, const char *name, json_t *value);
void json_push(json_t **array, json_t *value);

/* A value that output_json prints unchanged, on one line; a string if the text is not JSON. */
json_t *json_raw(struct view json);

/* Adds the key as a string. JSON cannot represent bytes that are not UTF-8; a key with such bytes
 * is added in hexadecimal under the name NAME_hex. */
void json_add_key(json_t **object, const char *name, struct view key);

/* Adds a display string, with bytes that are not UTF-8 escaped; null if the string is empty. */
void json_add_words(json_t **object, const char *name, struct view words);

#endif
