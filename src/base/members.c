/* SPDX-License-Identifier: Apache-2.0 */
/* members.c: reads and writes JSON objects by tables of their members. */
#include "base/members.h"

#include "base/check.h"

/* ---- Reading ------------------------------------------------------------------------- */

static bool take_member_text(struct member_reader *reader, size_t max, struct view *ret_text)
{
    struct view text;
    if (!json_take_text(reader->json, reader->space, &text))
        return false;
    if (text.size > max || memchr(text.data, '\0', text.size))
        return json_fail(reader->json, "text too long");
    *ret_text = text;
    return true;
}

static bool take_member_chars(struct json_reader *json, size_t size, char *ret_chars)
{
    struct buffer text = BUFFER_INIT(json->text.size);
    bool good = json_take_string(json, &text);
    struct view value = buffer_view(&text);
    if (good && value.size < size && !memchr(value.data, '\0', value.size)) {
        memcpy(ret_chars, value.data, value.size);
        ret_chars[value.size] = '\0';
    }
    buffer_release(&text);
    return good;
}

static bool take_member_i64(struct json_reader *json, uint64_t max, int64_t *ret_value)
{
    int64_t value;
    if (!json_take_i64(json, &value))
        return false;
    if (value > (int64_t)max || value < -(int64_t)max)
        return json_fail(json, "number out of range");
    *ret_value = value;
    return true;
}

static bool take_member_word(struct json_reader *json, const struct member *member,
                             unsigned *ret_value)
{
    struct view word;
    if (!json_take_plain(json, &word))
        return false;
    for (unsigned i = 0; i < member->max; i++) {
        if (view_equal(word, view_of(member->word(i)))) {
            *ret_value = i;
            return true;
        }
    }
    return json_fail(json, member->unknown_word);
}

static bool take_member(struct member_reader *reader, const struct member *member, void *object)
{
    struct json_reader *json = reader->json;
    void *at = (char *)object + member->offset;
    struct view text;
    uint64_t number;
    if (member->take)
        return member->take(reader, object);
    switch (member->kind) {
    case MEMBER_OWN: break;
    case MEMBER_TEXT: return take_member_text(reader, member->max, at);
    case MEMBER_CHARS: return take_member_chars(json, member->max, at);
    case MEMBER_U64: return json_take_u64(json, member->max, at);
    case MEMBER_U32:
        if (!json_take_u64(json, member->max, &number))
            return false;
        *(uint32_t *)at = (uint32_t)number;
        return true;
    case MEMBER_I64: return take_member_i64(json, member->max, at);
    case MEMBER_MS:
        if (!take_member_i64(json, member->max, at))
            return false;
        *(int64_t *)at *= 1000;
        return true;
    case MEMBER_BOOL: return json_take_bool(json, at);
    case MEMBER_STAMP:
        return json_take_plain(json, &text) &&
               (stamp_parse(text, at) || json_fail(json, "invalid timestamp"));
    case MEMBER_WORD: return take_member_word(json, member, at);
    case MEMBER_OBJECT:
        return members_read(&(struct member_reader){ json, reader->space, NULL, NULL },
                            member->table, at);
    }
    check_unreachable();
}

/* Finds a member, starting after the previous one; `count` if it is unknown. */
static size_t index_of_member(const struct member_table *table, size_t next, struct view name)
{
    for (size_t i = 0; i < table->count; i++) {
        size_t at = (next + i) % table->count;
        if (view_equal(name, table->members[at].name))
            return at;
    }
    return table->count;
}

bool members_read(struct member_reader *reader, const struct member_table *table, void *object)
{
    struct json_reader *json = reader->json;
    uint32_t found = 0;
    size_t at = table->count - 1;
    struct view name, skipped;
    check(table->count <= 32);
    for (json_enter_object(json); json_next_member(json, &name);) {
        size_t member = index_of_member(table, at + 1, name);
        if (member == table->count) {
            if (reader->unknown)
                json_keep_member(json, name, reader->unknown);
            else
                json_skip(json, &skipped);
            continue;
        }
        if (found >> member & 1)
            json_fail(json, "duplicate member");
        found |= UINT32_C(1) << member;
        at = member;
        take_member(reader, &table->members[member], object);
    }
    for (size_t i = 0; i < table->count; i++)
        if (table->members[i].need == MEMBER_NEEDED && !(found >> i & 1))
            return json_fail(json, table->lacking);
    return json->why == NULL;
}

/* ---- Writing ------------------------------------------------------------------------- */

static bool is_omitted(const struct member *member, const void *object, const void *at)
{
    if (member->kind == MEMBER_OWN && !member->write)
        return true;
    if (member->is_omitted)
        return member->is_omitted(object);
    if (member->need != MEMBER_OPTIONAL)
        return false;
    switch (member->kind) {
    case MEMBER_TEXT: return ((const struct view *)at)->size == 0;
    case MEMBER_CHARS: return *(const char *)at == '\0';
    case MEMBER_U64: return *(const uint64_t *)at == 0;
    case MEMBER_U32: return *(const uint32_t *)at == 0;
    case MEMBER_BOOL: return !*(const bool *)at;
    case MEMBER_STAMP:
        return ((const struct stamp *)at)->clock == 0 && ((const struct stamp *)at)->us == 0;
    case MEMBER_I64:
    case MEMBER_MS: return *(const int64_t *)at == 0;
    case MEMBER_WORD: return *(const unsigned *)at == 0;
    case MEMBER_OBJECT:
    case MEMBER_OWN: break;
    }
    return false;
}

static void write_value(const struct member *member, const void *object, struct buffer *text)
{
    const void *at = (const char *)object + member->offset;
    char digits[STAMP_TEXT_MAX];
    if (member->write) {
        member->write(object, text);
        return;
    }
    switch (member->kind) {
    case MEMBER_OWN: check_unreachable();
    case MEMBER_TEXT: json_write_string(text, *(const struct view *)at); break;
    case MEMBER_CHARS: json_write_string(text, view_of(at)); break;
    case MEMBER_U64: buffer_append_u64(text, *(const uint64_t *)at); break;
    case MEMBER_U32: buffer_append_u64(text, *(const uint32_t *)at); break;
    case MEMBER_I64: buffer_append_i64(text, *(const int64_t *)at); break;
    case MEMBER_MS: buffer_append_i64(text, *(const int64_t *)at / 1000); break;
    case MEMBER_BOOL:
        buffer_append(text, *(const bool *)at ? VIEW("true") : VIEW("false"));
        break;
    case MEMBER_STAMP:
        json_write_string(text, view_of(stamp_text(*(const struct stamp *)at, digits)));
        break;
    case MEMBER_WORD:
        json_write_string(text, view_of(member->word(*(const unsigned *)at)));
        break;
    case MEMBER_OBJECT:
        members_write(member->table, at, '{', text);
        buffer_append_byte(text, '}');
        break;
    }
}

void members_write(const struct member_table *table, const void *object, char before,
                   struct buffer *text)
{
    for (size_t i = 0; i < table->count; i++) {
        const struct member *member = &table->members[i];
        if (is_omitted(member, object, (const char *)object + member->offset))
            continue;
        buffer_append_byte(text, before);
        buffer_append_byte(text, '"');
        buffer_append(text, member->name);
        buffer_append(text, VIEW("\":"));
        write_value(member, object, text);
        before = ',';
    }
}
