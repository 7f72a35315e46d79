/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c: reads what a client asks for. It guards against values of a wrong type or range, and
 * against bodies that two readers could understand differently: no member may occur twice. */
#include "serve/api/ask.h"

#include "base/json.h"
#include "base/parse.h"

#include <inttypes.h>
#include <stddef.h>

#define ONCE_PER_MS_MAX  (INT64_C(10) * 366 * 86400 * 1000) /* ten years */
#define JSON_INTEGER_MAX INT64_C(9007199254740991) /* what every JSON reader keeps exactly */

enum ask_type { ASK_TEXT, ASK_NUMBER, ASK_FLAG, ASK_OBJECT, ASK_ARRAY, ASK_ANY };

/* Where a name may be sent. */
enum { IN_BODY = 1, IN_QUERY = 2, IN_HEADER = 4 };

static const struct ask_field {
    const char *name;
    size_t name_size;
    unsigned sent_in;
    enum ask_type type;
    size_t offset;
    int64_t least, most;
} ask_fields[] = {
#define TEXT(name, sent_in, member)                                                   \
    {                                                                                 \
        name, sizeof(name) - 1, sent_in, ASK_TEXT, offsetof(struct ask, member), 0, 0 \
    }
#define NUMBER(name, sent_in, member, least, most)                                             \
    {                                                                                          \
        name, sizeof(name) - 1, sent_in, ASK_NUMBER, offsetof(struct ask, member), least, most \
    }
#define FLAG(name, sent_in, member)                                                   \
    {                                                                                 \
        name, sizeof(name) - 1, sent_in, ASK_FLAG, offsetof(struct ask, member), 0, 0 \
    }
#define OBJECT(name, sent_in, type, member)                                       \
    {                                                                             \
        name, sizeof(name) - 1, sent_in, type, offsetof(struct ask, member), 0, 0 \
    }
    TEXT("namespace", IN_BODY | IN_QUERY, ns),
    TEXT("key", IN_BODY | IN_QUERY, key),
    TEXT("scope", IN_BODY | IN_QUERY, scope),
    TEXT("mode", IN_BODY, mode_name),
    TEXT("owner", IN_BODY, owner),
    TEXT("lease_id", IN_BODY, lease_id),
    TEXT("X-Lease-ID", IN_HEADER, lease_id),
    TEXT("txn_id", IN_BODY, txn_id),
    TEXT("X-Txn-ID", IN_HEADER, txn_id),
    TEXT("request_id", IN_BODY, request_id),
    TEXT("X-Request-ID", IN_HEADER, request_id),
    TEXT("reason", IN_BODY, reason),
    TEXT("state", IN_BODY | IN_QUERY, state),
    TEXT("partition", IN_BODY | IN_QUERY, partition),
    TEXT("chunk", IN_BODY, chunk),
    TEXT("index", IN_BODY | IN_QUERY, index),
    TEXT("group", IN_BODY | IN_QUERY, group),
    TEXT("name", IN_BODY, name),
    TEXT("since", IN_QUERY, since),
    TEXT("sort", IN_QUERY, sort),
    OBJECT("record", IN_BODY, ASK_OBJECT, record),
    OBJECT("note", IN_BODY, ASK_ANY, note),
    OBJECT("scopes", IN_BODY, ASK_ARRAY, scopes_json),
    TEXT("result", IN_BODY, result),
    NUMBER("once_per_ms", IN_BODY, once_per_ms, 0, ONCE_PER_MS_MAX),
    NUMBER("once_slack_ms", IN_BODY, once_slack_ms, HF_NO_SLACK, ONCE_PER_MS_MAX),
    FLAG("ended", IN_QUERY, ended),
    NUMBER("level", IN_BODY | IN_QUERY, level, 0, 1000),
    NUMBER("beat_ms", IN_BODY | IN_QUERY, beat_ms, 100, 3600000),
    FLAG("force", IN_BODY, force),
    TEXT("prefix", IN_QUERY, prefix),
    TEXT("after", IN_QUERY, after),
    TEXT("kinds", IN_QUERY, kinds),
    TEXT("format", IN_QUERY, format),
    TEXT("X-If-State-ETag", IN_HEADER, etag),
    NUMBER("ttl_seconds", IN_BODY, ttl_s, 0, HF_TTL_MS_MAX / 1000),
    NUMBER("ttl_ms", IN_BODY, ttl_ms, HF_TTL_MS_MIN, HF_TTL_MS_MAX),
    NUMBER("block_seconds", IN_BODY, block_s, -1, 86400),
    NUMBER("block_ms", IN_BODY, block_ms, 0, 86400000),
    NUMBER("slots", IN_BODY, slots, 1, 1000),
    NUMBER("limit", IN_QUERY, limit, 1, 1000),
    NUMBER("fencing_token", IN_BODY, token, 1, JSON_INTEGER_MAX),
    NUMBER("X-Fencing-Token", IN_HEADER, token, 1, JSON_INTEGER_MAX),
    NUMBER("X-If-Version", IN_HEADER, version, 0, JSON_INTEGER_MAX),
    FLAG("if_not_exists", IN_BODY, if_not_exists),
    FLAG("rollback", IN_BODY, rollback),
    FLAG("public", IN_QUERY, is_public),
#undef TEXT
#undef NUMBER
#undef FLAG
#undef OBJECT
};

#define ASK_FIELDS (sizeof ask_fields / sizeof ask_fields[0])

void ask_init(struct ask *ask)
{
    /* The room is not cleared: nobody reads what was not written. */
    memset(ask, 0, offsetof(struct ask, room));
    ask->ns = "default";
    ask->arena = arena_in(ask->room, sizeof ask->room);
}

void ask_release(struct ask *ask)
{
    arena_release(&ask->arena);
}

/* ---- Scopes -------------------------------------------------------------------------- */

/* A kind that is not among these, a later one for example, is not for one namespace alone. */
bool scope_has_namespace(struct view scope)
{
    static const char *const kinds[] = { "named:", "path:", "tree:", "inode:", "range:" };
    if (view_find(scope, ':') == scope.size)
        return true; /* a name */
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (view_starts_with(scope, view_of(kinds[i])))
            return true;
    return false;
}

/* The library reads a key as a scope in some calls, and a prefix is the start of one. */
bool ask_names_store_lock(const struct ask *ask)
{
    const char *texts[] = { ask->scope, ask->key, ask->prefix };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i] && !scope_has_namespace(view_of(texts[i])))
            return true;
    for (size_t i = 0; i < ask->scope_count; i++)
        if (!scope_has_namespace(view_of(ask->scopes[i])))
            return true;
    return false;
}

/* ---- One value ----------------------------------------------------------------------- */

static void *member_of(struct ask *ask, const struct ask_field *field)
{
    return (char *)ask + field->offset;
}

static enum hf_status set_text(struct ask *ask, const struct ask_field *field, struct view text,
                               struct hf_error *error)
{
    if (text.size > ASK_TEXT_MAX)
        return error_set(error, HF_INVALID, "'%s' is longer than %d bytes", field->name,
                         ASK_TEXT_MAX);
    if (memchr(text.data, '\0', text.size))
        return error_set(error, HF_INVALID, "'%s' contains a NUL character", field->name);
    struct view copy = arena_copy(&ask->arena, text);
    if (!copy.data)
        return error_no_memory(error);
    /* An empty text is the same as none: clients of many languages send one for it. */
    *(const char **)member_of(ask, field) = copy.size > 0 ? copy.data : NULL;
    return HF_OK;
}

/* The text of an integer, as JSON writes it. */
static enum hf_status set_integer(struct ask *ask, const struct ask_field *field,
                                  struct view text, struct hf_error *error)
{
    struct json_reader reader = json_read(text);
    int64_t number;
    if (!json_take_i64(&reader, &number) || !json_end(&reader) || number < field->least ||
        number > field->most)
        return error_set(error, HF_INVALID,
                         "'%s' must be an integer from %" PRId64 " to %" PRId64, field->name,
                         field->least, field->most);
    memcpy(member_of(ask, field), &number,
           sizeof number); /* int64_t, or uint64_t and not negative */
    if (field->offset == offsetof(struct ask, version))
        ask->version_sent = true;
    return HF_OK;
}

static void set_flag(struct ask *ask, const struct ask_field *field, bool on)
{
    *(bool *)member_of(ask, field) = on;
}

/* Keeps the JSON as it was sent; a string has lost its quotes. */
static enum hf_status set_json(struct ask *ask, const struct ask_field *field,
                               const struct json_text *value, struct hf_error *error)
{
    const char *quote = value->kind == JSON_KIND_STRING ? "\"" : "";
    struct buffer json = BUFFER_INIT(value->text.size + 3);
    buffer_print(&json, "%s%.*s%s", quote, VIEW_ARGS(value->text), quote);
    struct view copy = arena_copy(&ask->arena, buffer_view(&json));
    buffer_release(&json);
    if (!copy.data)
        return error_no_memory(error);
    *(struct view *)member_of(ask, field) = copy;
    return HF_OK;
}

static struct view ask_field_name(const struct ask_field *field)
{
    return (struct view){ field->name, field->name_size };
}

static const struct ask_field *find_ask_field(struct view name, unsigned sent_in)
{
    for (size_t i = 0; i < ASK_FIELDS; i++)
        if (ask_fields[i].sent_in & sent_in && view_equal(name, ask_field_name(&ask_fields[i])))
            return &ask_fields[i];
    return NULL;
}

/* ---- All of them --------------------------------------------------------------------- */

static enum hf_status check_mode(struct ask *ask, struct hf_error *error)
{
    if (!ask->ns)
        ask->ns = "default";
    if (!ask->mode_name)
        return HF_OK;
    for (enum hf_mode mode = HF_EXCLUSIVE; mode <= HF_SLOTS; mode++)
        if (strcmp(ask->mode_name, hf_mode_name(mode)) == 0) {
            ask->mode = mode;
            return HF_OK;
        }
    return error_set(error, HF_INVALID, "'mode' must be exclusive, shared or slots");
}

/* Takes one of the scopes, and checks it as any text is checked. */
static enum hf_status take_scope(struct ask *ask, struct json_reader *reader,
                                 struct hf_error *error)
{
    struct buffer plain = BUFFER_INIT(ASK_TEXT_MAX + 1);
    struct view text;
    enum hf_status status = HF_OK;
    if (!json_take_text(reader, &plain, &text) || text.size == 0 || text.size > ASK_TEXT_MAX ||
        memchr(text.data, '\0', text.size))
        status = error_set(error, HF_INVALID, "'scopes' must be strings of 1 to %d bytes",
                           ASK_TEXT_MAX);
    else if (ask->scope_count == ASK_SCOPES_MAX)
        status =
            error_set(error, HF_INVALID, "there are more than %d 'scopes'", ASK_SCOPES_MAX);
    else if (!(ask->scopes[ask->scope_count] = arena_copy(&ask->arena, text).data))
        status = error_no_memory(error);
    else
        ask->scope_count++;
    buffer_release(&plain);
    return status;
}

/* The first of the scopes stands for all of them in later requests. */
static enum hf_status read_asked_scopes(struct ask *ask, struct hf_error *error)
{
    struct json_reader reader = json_read(ask->scopes_json);
    enum hf_status status = HF_OK;
    if (ask->scopes_json.size == 0)
        return HF_OK;
    if (ask->scope)
        return error_set(error, HF_INVALID, "send either 'scope' or 'scopes'");
    ask->scopes = arena_take(&ask->arena, ASK_SCOPES_MAX * sizeof *ask->scopes);
    if (!ask->scopes)
        return error_no_memory(error);
    json_enter_array(&reader);
    while (status == HF_OK && json_next_element(&reader))
        status = take_scope(ask, &reader, error);
    if (status == HF_OK && ask->scope_count == 0)
        status = error_set(error, HF_INVALID, "'scopes' must not be empty");
    ask->scope = ask->scope_count > 0 ? ask->scopes[0] : NULL;
    return status;
}

static enum hf_status set_from_json(struct ask *ask, const struct ask_field *field,
                                    const struct json_text *value, struct hf_error *error)
{
    static const char *const type_names[] = {
        [ASK_TEXT] = "a string",    [ASK_NUMBER] = "an integer", [ASK_FLAG] = "true or false",
        [ASK_OBJECT] = "an object", [ASK_ARRAY] = "an array",
    };
    bool is_flag = value->kind == JSON_KIND_TRUE || value->kind == JSON_KIND_FALSE;
    if (value->kind == JSON_KIND_NULL)
        return HF_OK; /* the same as not sent */
    if (field->type == ASK_NUMBER && value->kind == JSON_KIND_NUMBER)
        return set_integer(ask, field, value->text, error);
    if (field->type == ASK_FLAG && is_flag) {
        set_flag(ask, field, value->kind == JSON_KIND_TRUE);
        return HF_OK;
    }
    if ((field->type == ASK_OBJECT && value->kind == JSON_KIND_OBJECT) ||
        (field->type == ASK_ARRAY && value->kind == JSON_KIND_ARRAY) || field->type == ASK_ANY)
        return set_json(ask, field, value, error);
    if (field->type != ASK_TEXT || value->kind != JSON_KIND_STRING)
        return error_set(error, HF_INVALID, "'%s' must be %s", field->name,
                         type_names[field->type]);
    if (!value->escaped)
        return set_text(ask, field, value->text, error);
    struct buffer plain = BUFFER_INIT(value->text.size + 1);
    enum hf_status status = error_no_memory(error);
    if (!json_unescape(value->text, &plain) && !plain.failed)
        status = error_set(error, HF_INVALID, "'%s' is not valid Unicode", field->name);
    else if (!plain.failed)
        status = set_text(ask, field, buffer_view(&plain), error);
    buffer_release(&plain);
    return status;
}

enum hf_status ask_read_body(struct ask *ask, struct view json, struct hf_error *error)
{
    struct json_reader reader = json_read(json);
    struct json_text name, value;
    bool seen[ASK_FIELDS] = { false };
    enum hf_status status = HF_OK;
    if (!json_enter_object(&reader))
        return error_set(error, HF_INVALID, "the body must be a JSON object");
    while (status == HF_OK && json_next_pair(&reader, &name, &value)) {
        const struct ask_field *field = find_ask_field(name.text, IN_BODY);
        if (!field)
            continue;
        if (seen[field - ask_fields])
            status = error_set(error, HF_INVALID, "'%s' was sent twice", field->name);
        else
            status = set_from_json(ask, field, &value, error);
        seen[field - ask_fields] = true;
    }
    if (status == HF_OK && !json_end(&reader))
        status = error_set(error, HF_INVALID, "the body is not valid JSON: %s", reader.why);
    if (status == HF_OK)
        status = read_asked_scopes(ask, error);
    return status == HF_OK ? check_mode(ask, error) : status;
}

static enum hf_status set_from_text(struct ask *ask, const struct ask_field *field,
                                    struct view value, struct hf_error *error)
{
    bool on;
    if (field->type == ASK_TEXT)
        return set_text(ask, field, value, error);
    if (field->type == ASK_NUMBER)
        return set_integer(ask, field, value, error);
    if (view_equal(value, VIEW("1")) || view_equal(value, VIEW("true")))
        on = true;
    else if (view_equal(value, VIEW("0")) || view_equal(value, VIEW("false")))
        on = false;
    else
        return error_set(error, HF_INVALID, "'%s' must be 1 or 0", field->name);
    set_flag(ask, field, on);
    return HF_OK;
}

static bool has_parameters(const struct http_request *request)
{
    const struct http_pair *ignored;
    return http_request_parameters(request, &ignored) > 0;
}

/* All headers that are read here begin with "X-", and most requests have none of them. */
static bool has_own_headers(const struct http_request *request)
{
    const struct http_pair *headers;
    size_t count = http_request_headers(request, &headers);
    for (size_t i = 0; i < count; i++)
        if ((headers[i].name.data[0] | 0x20) == 'x')
            return true;
    return false;
}

enum hf_status ask_read_query(struct ask *ask, const struct http_request *request,
                              struct hf_error *error)
{
    enum hf_status status = HF_OK;
    bool has_query = has_parameters(request);
    if (!has_query && !has_own_headers(request))
        return check_mode(ask, error);
    for (size_t i = 0; i < ASK_FIELDS && status == HF_OK; i++) {
        const struct ask_field *field = &ask_fields[i];
        struct view value;
        size_t count = 0;
        if (has_query && field->sent_in & IN_QUERY)
            count = http_request_parameter(request, ask_field_name(field), &value);
        if (field->sent_in & IN_HEADER)
            count = http_request_header(request, ask_field_name(field), &value);
        if (count > 1)
            status = error_set(error, HF_INVALID, "'%s' was sent twice", field->name);
        else if (count == 1)
            status = set_from_text(ask, field, value, error);
    }
    return status == HF_OK ? check_mode(ask, error) : status;
}
