/* SPDX-License-Identifier: Apache-2.0 */
/* job_note.c: encodes and decodes the note on a failed lease, such as
 * {"blame":"chunk","culprit":"data/...","why":"its checksum is wrong"}. Any client may have written
 * the note, so an unreadable note blames nobody. */
#include "compact/work/job_note.h"

#include "base/json.h"
#include "lease/lease.h"

static const char *const blame_names[] = {
    [HF_COMPACT_BLAME_NOBODY] = "nobody",
    [HF_COMPACT_BLAME_GROUP] = "group",
    [HF_COMPACT_BLAME_CHUNK] = "chunk",
};

static bool write_blame(const struct job_note *note, size_t why_max, struct buffer *text)
{
    buffer_clear(text);
    buffer_append(text, VIEW("{\"blame\":\""));
    buffer_append(text, view_of(blame_names[note->blame]));
    buffer_append(text, VIEW("\""));
    if (note->unsent)
        buffer_append(text, VIEW(",\"unsent\":true"));
    if (note->blame == HF_COMPACT_BLAME_CHUNK) {
        buffer_append(text, VIEW(",\"culprit\":"));
        json_write_string(text, note->culprit);
    }
    if (why_max > 0 && note->why.size > 0) {
        buffer_append(text, VIEW(",\"why\":"));
        json_write_string(text, view_first(note->why, why_max));
    }
    return buffer_append(text, VIEW("}"));
}

bool job_note_encode(const struct job_note *note, struct buffer *text)
{
    static const size_t lengths[] = { REASON_BYTES_MAX, REASON_BYTES_MAX / 4, 0 };
    struct job_note group = *note;
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++)
        if (write_blame(note, lengths[i], text) && text->size <= NOTE_BYTES_MAX)
            return true;
    if (note->blame == HF_COMPACT_BLAME_CHUNK)
        group.blame = HF_COMPACT_BLAME_GROUP;
    return write_blame(&group, REASON_BYTES_MAX / 4, text) && text->size <= NOTE_BYTES_MAX;
}

bool job_note_decode(struct view text, struct arena *arena, struct job_note *ret_note)
{
    struct json_reader reader = json_read(text);
    struct buffer space = BUFFER_INIT(NOTE_BYTES_MAX);
    struct view name, raw, blame = VIEW(""), culprit = VIEW(""), why = VIEW("");
    bool unsent = false;
    bool whole = buffer_reserve(&space, text.size < NOTE_BYTES_MAX ? text.size : 0);
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("blame")))
            json_take_plain(&reader, &blame);
        else if (view_equal(name, VIEW("culprit")))
            json_take_text(&reader, &space, &culprit);
        else if (view_equal(name, VIEW("why")))
            json_take_text(&reader, &space, &why);
        else if (view_equal(name, VIEW("unsent")))
            json_take_bool(&reader, &unsent);
        else
            json_skip(&reader, &raw);
    }
    bool good = json_end(&reader);
    *ret_note = (struct job_note){ .blame = HF_COMPACT_BLAME_NOBODY };
    if (good && whole) {
        for (int i = HF_COMPACT_BLAME_NOBODY; i <= HF_COMPACT_BLAME_CHUNK; i++)
            if (view_equal(blame, view_of(blame_names[i])))
                ret_note->blame = (enum hf_compact_blame)i;
        ret_note->unsent = unsent;
        ret_note->culprit = arena_copy(arena, culprit);
        ret_note->why = arena_copy(arena, view_first(why, REASON_BYTES_MAX));
        whole = ret_note->culprit.data && ret_note->why.data;
    }
    /* A chunk is to blame, but the note does not say which one. */
    if (ret_note->blame == HF_COMPACT_BLAME_CHUNK && ret_note->culprit.size == 0)
        ret_note->blame = HF_COMPACT_BLAME_GROUP;
    buffer_release(&space);
    return whole;
}

#define DONE(percent) "{\"begun\":true,\"done_percent\":" #percent "}"

struct view job_note_of_progress(uint64_t done, uint64_t total)
{
    static const char *const notes[] = {
        JOB_NOTE_BEGUN, DONE(5),  DONE(10), DONE(15), DONE(20), DONE(25), DONE(30),
        DONE(35),       DONE(40), DONE(45), DONE(50), DONE(55), DONE(60), DONE(65),
        DONE(70),       DONE(75), DONE(80), DONE(85), DONE(90), DONE(95),
    };
    const uint64_t steps = sizeof notes / sizeof notes[0];
    uint64_t part = total / steps;
    uint64_t step = part > 1000 ? done / part : total > 0 ? done * steps / total : 0;
    return view_of(notes[step < steps ? step : steps - 1]);
}

unsigned job_note_percent(struct view text)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    uint64_t percent = 0;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("done_percent")))
            json_take_u64(&reader, 99, &percent);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader) ? (unsigned)percent : 0;
}

bool job_note_says_claimed(struct view text)
{
    struct json_reader reader = json_read(text);
    struct view name, raw;
    bool begun = true;
    for (json_enter_object(&reader); json_next_member(&reader, &name);) {
        if (view_equal(name, VIEW("begun")))
            json_take_bool(&reader, &begun);
        else
            json_skip(&reader, &raw);
    }
    return json_end(&reader) && !begun;
}
