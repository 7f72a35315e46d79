/* output.h: what the program writes to stdout: buffered, with every failed write remembered,
 * and with keys shown so that no byte of them can disturb a terminal. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/view.h"

#include <jansson.h>

struct output {
    int fd;
    bool terminal;
    bool bold; /* titles stand out: on a terminal that can, unless NO_COLOR says not to */
    int failed_errno; /* of the first write that failed; nothing is written after it */
    struct buffer pending;
};

void output_init(struct output *out, int fd);
void output_release(struct output *out);

void output_bytes(struct output *out, struct view bytes);
void output_text(struct output *out, const char *text);
__attribute__((format(printf, 2, 3))) void output_print(struct output *out, const char *format,
                                                        ...);

/* What heads something: bold where that is wanted. */
void output_bold(struct output *out, struct view text);

/* Takes the value over; one line. NULL, which is how jansson says it has no memory, fails. */
void output_json(struct output *out, json_t *value);

/* A key for people: escaped on a terminal, as it is elsewhere. */
void output_key(struct output *out, struct view key);

/* Writes what is pending; the reason if this or an earlier write failed. What cannot be written to
 * stdout was done all the same: UNREPORTED. */
enum hf_status output_flush(struct output *out, struct hf_error *error);

/* The same for what is undone again when nobody can be told of it: UNAVAILABLE. */
enum hf_status output_flush_or_undo(struct output *out, struct hf_error *error);

/* Whether nobody reads the output any more. Work that goes on for long stops then; where there is
 * only no room for what it says, it goes on. */
bool output_is_closed(const struct output *out);

/* Why a write of the output failed. */
enum hf_status output_failed(int fd, int errno_value, struct hf_error *error);

/* Appends text with control bytes, backslashes and bytes that are not UTF-8 written as \n, \t,
 * \\ or \xHH, so that the result is one line of valid UTF-8. */
bool escape_append(struct buffer *to, struct view text);

/* Words from elsewhere on one line, escaped wherever they go. */
void output_words(struct output *out, struct view words);

/* "1 chunk", "3 chunks". */
void output_count(struct output *out, uint64_t count, const char *noun);

/* Sets object[name] to the text; if that is not UTF-8, which JSON cannot carry,
 * object[name_hex] to its bytes in hexadecimal. */
bool json_set_key(json_t *object, const char *name, struct view key);

#endif
