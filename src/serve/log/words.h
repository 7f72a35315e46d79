/* SPDX-License-Identifier: Apache-2.0 */
/* words.h: lines to the operator about the server itself. (log.h: about requests.) A text may have
 * any bytes, because names from the store may: what could control a terminal or begin another line
 * is written as \xHH. */
#ifndef SERVE_LOG_WORDS_H
#define SERVE_LOG_WORDS_H

#include "base/buffer.h"
#include "base/moment.h"
#include "holdfast.h"

/* The longest text: a key and a reason. A line may be longer. */
#define WORDS_MAX      ((size_t)HF_KEY_BYTES_MAX + HF_WHY_MAX + 100)
#define WORDS_LINE_MAX (8 * WORDS_MAX)

/* Appends the text as a line; `json`: as an object, with the time. */
void words_write_line(struct view text, bool json, struct wall_time at, struct buffer *line);

/* Appends what a scrub has found: "object 'KEY': damaged: REASON". */
void words_write_finding(const struct hf_scrub_finding *finding, struct buffer *text);

#endif
