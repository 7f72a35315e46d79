/* SPDX-License-Identifier: Apache-2.0 */
/* words.c: writes lines to the operator about the server itself. */
#include "serve/log/words.h"

#include "base/escape.h"
#include "base/json.h"
#include "base/parse.h"

void words_write_line(struct view text, bool json, struct wall_time at, struct buffer *line)
{
    char time[TIME_TEXT_MAX];
    struct buffer shown = BUFFER_INIT(4 * WORDS_MAX); /* each byte may become \xHH */
    escape_append(&shown, text);
    if (json) {
        buffer_print(line, "{\"at\":\"%s\",\"message\":", time_text(at, time));
        json_write_string(line, buffer_view(&shown));
        buffer_append(line, VIEW("}\n"));
    } else {
        buffer_append(line, VIEW("holdfast serve: "));
        buffer_append(line, buffer_view(&shown));
        buffer_append_byte(line, '\n');
    }
    buffer_release(&shown);
}

void words_write_finding(const struct hf_scrub_finding *finding, struct buffer *text)
{
    buffer_append(text, VIEW("object '"));
    buffer_append(text, (struct view){ finding->key, finding->key_size });
    buffer_print(text, "': %s: %s", hf_scrub_kind_name(finding->kind),
                 finding->why[0] ? finding->why : hf_scrub_kind_text(finding->kind));
}
