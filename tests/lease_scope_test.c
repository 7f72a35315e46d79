/* SPDX-License-Identifier: Apache-2.0 */
/* lease_scope_test.c: scopes as text, and which two conflict, compared with a second
 * implementation of the rules. */
#include "lease/scope.h"
#include "test.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static struct scope parsed(const char *text)
{
    struct scope scope;
    struct hf_error error;
    assert_status(HF_OK, scope_parse(view_of(text), &scope, &error), &error);
    return scope;
}

static void assert_refused(const char *text)
{
    struct scope scope = { .kind = SCOPE_PIN, .inode = 12345, .start = 6, .end = 7 };
    const struct scope before = scope;
    struct hf_error error = { .why = "" };
    enum hf_status status = scope_parse(view_of(text), &scope, &error);
    if (status != HF_INVALID)
        fail_msg("\"%s\" gave %s", text, hf_status_name(status));
    assert_int_equal(error.status, HF_INVALID);
    assert_true(error.why[0] != '\0');
    assert_memory_equal(&scope, &before, sizeof scope);
}

/* ---- Parsing ------------------------------------------------------------------------- */

static void every_form_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum scope_kind kind;
        const char *name;
        uint64_t inode, start, end;
    } rows[] = {
        { "named:deploy", SCOPE_NAMED, "deploy", 0, 0, 0 },
        { "deploy", SCOPE_NAMED, "deploy", 0, 0, 0 },
        { "named:jobs/db-1/x_y.z", SCOPE_NAMED, "jobs/db-1/x_y.z", 0, 0, 0 },
        { "path:/a/b", SCOPE_PATH, "/a/b", 0, 0, 0 },
        { "tree:/a", SCOPE_TREE, "/a", 0, 0, 0 },
        { "tree:/", SCOPE_TREE, "/", 0, 0, 0 },
        { "inode:7", SCOPE_INODE, NULL, 7, 0, 0 },
        { "inode:0", SCOPE_INODE, NULL, 0, 0, 0 },
        { "inode:18446744073709551615", SCOPE_INODE, NULL, UINT64_MAX, 0, 0 },
        { "range:7:0-4096", SCOPE_RANGE, NULL, 7, 0, 4096 },
        { "range:7:5-6", SCOPE_RANGE, NULL, 7, 5, 6 },
        { "range:7:0-", SCOPE_RANGE, NULL, 7, 0, SCOPE_END },
        { "range:7:9223372036854775808-", SCOPE_RANGE, NULL, 7, UINT64_C(1) << 63, SCOPE_END },
        { "chunk:data/x.usv", SCOPE_CHUNK, "data/x.usv", 0, 0, 0 },
        { "chunk:Data/With Blank:and-colon", SCOPE_CHUNK, "Data/With Blank:and-colon", 0, 0,
          0 },
        { "pin:data/x.usv", SCOPE_PIN, "data/x.usv", 0, 0, 0 },
        { "shard:domains/a3", SCOPE_SHARD, "domains/a3", 0, 0, 0 },
        { "shard:x.y_z-1/0", SCOPE_SHARD, "x.y_z-1/0", 0, 0, 0 },
        { "shard:shards/09af", SCOPE_SHARD, "shards/09af", 0, 0, 0 },
        { "snapshot:events:0", SCOPE_SNAPSHOT, "events", 0, 0, 0 },
        { "snapshot:x.y_z-1:18446744073709551615", SCOPE_SNAPSHOT, "x.y_z-1", 0, 0, 0 },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scope scope = parsed(rows[i].text);
        assert_int_equal(scope.kind, rows[i].kind);
        if (rows[i].name)
            assert_true(view_equal(scope.name, view_of(rows[i].name)));
        if (rows[i].kind == SCOPE_INODE || rows[i].kind == SCOPE_RANGE)
            assert_true(scope.inode == rows[i].inode);
        if (rows[i].kind == SCOPE_RANGE)
            assert_true(scope.start == rows[i].start && scope.end == rows[i].end);
    }
}

static void every_bad_form_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        ":",
        "named:",
        "path:",
        "tree:",
        "inode:",
        "range:",
        "chunk:",
        "pin:",
        "snapshot:events",
        "other:x",
        "Named:x",
        "named:a b",
        "a b",
        "named:a:b",
        "named:/a",
        "named:a/",
        "named:a//b",
        "/",
        "named:a\nb",
        "named:\xc3\xa4",
        "path:a",
        "path:a/b",
        "tree:a",
        "path:/a/",
        "path:/a//b",
        "path://a",
        "tree:/a/",
        "tree://",
        "path:/a/../b",
        "path:/./a",
        "tree:/a/..",
        "tree:/a/.",
        "inode:x",
        "inode:-1",
        "inode:+1",
        "inode: 1",
        "inode:1 ",
        "inode:0x10",
        "inode:1.0",
        "inode:18446744073709551616",
        "inode:99999999999999999999999",
        "range:7",
        "range:7:",
        "range:7:-",
        "range:7:-5",
        "range:7:5",
        "range:7:5-5",
        "range:7:6-5",
        "range::0-5",
        "range:x:0-5",
        "range:7:0-5-6",
        "range:7:a-b",
        "range:7:0-5x",
        "range:7:0-18446744073709551616",
        "range:7:18446744073709551616-",
        "range:7: 0-5",
        "range:7:0 -5",
        "range:7:0- 5",
        "range:7:0-5 ",
        "range:7:0-5:6",
        "range:7:18446744073709551615-",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(bad[i]);
}

static void every_bad_shard_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "shard:",
        "shard:a3",
        "shard:/a3",
        "shard:domains",
        "shard:domains/",
        "shard:domains/g0",
        "shard:domains/A3",
        "shard:domains/00000",
        "shard:domains/a3/",
        "shard:domains/a3/b4",
        "shard:domains//a3",
        "shard:domains/a3.lock",
        "shard:Domains/a3",
        "shard:.hidden/a3",
        "shard:../a3",
        "shard:do mains/a3",
        "shard:domains/ a3",
    };
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_refused(bad[i]);
    char text[128];
    for (int size = 1; size <= 65; size++) {
        struct scope scope;
        struct hf_error error;
        snprintf(text, sizeof text, "shard:%0*d/a3", size, 0);
        assert_int_equal(scope_parse(view_of(text), &scope, &error),
                         size <= 64 ? HF_OK : HF_INVALID);
    }
}

static void bytes_that_no_scope_may_hold_are_refused(void **state)
{
    (void)state;
    static const char *const starts[] = { "named:a",     "path:/a", "tree:/a", "inode:7",
                                          "range:7:0-5", "chunk:a", "pin:a",   "shard:a/0" };
    for (size_t i = 0; i < COUNT(starts); i++) {
        char text[32];
        int size = snprintf(text, sizeof text, "%s", starts[i]);
        struct scope scope;
        struct hf_error error;
        /* A NUL byte within; an unfinished UTF-8 sequence. */
        text[size] = '\0';
        text[size + 1] = '5';
        struct view with_nul = { text, (size_t)size + 2 };
        assert_int_equal(scope_parse(with_nul, &scope, &error), HF_INVALID);
        text[size] = '\xff';
        struct view not_text = { text, (size_t)size + 1 };
        assert_int_equal(scope_parse(not_text, &scope, &error), HF_INVALID);
    }
}

static void lengths_are_bounded(void **state)
{
    (void)state;
    static const struct {
        const char *start;
        size_t longest;
    } rows[] = { { "named:", NAME_BYTES_MAX },
                 { "chunk:", 1024 },
                 { "pin:", 1024 },
                 { "path:/", 1023 },
                 { "tree:/", 1023 } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[SCOPE_TEXT_MAX + 64], back[SCOPE_TEXT_MAX + 1];
        size_t start = strlen(rows[i].start);
        memcpy(text, rows[i].start, start);
        memset(text + start, 'a', rows[i].longest + 1);
        text[start + rows[i].longest] = '\0';
        struct scope scope = parsed(text);
        assert_string_equal(scope_text(&scope, back), text);
        text[start + rows[i].longest] = 'a';
        text[start + rows[i].longest + 1] = '\0';
        assert_refused(text);
    }
}

static void texts_are_read_back_as_the_same_scope(void **state)
{
    (void)state;
    static const struct {
        const char *text, *canonical;
    } rows[] = {
        { "deploy", "named:deploy" },
        { "named:a/b", "named:a/b" },
        { "path:/a/b", "path:/a/b" },
        { "tree:/", "tree:/" },
        { "tree:/a", "tree:/a" },
        { "inode:7", "inode:7" },
        { "inode:18446744073709551615", "inode:18446744073709551615" },
        { "range:7:0-4096", "range:7:0-4096" },
        { "range:7:0-", "range:7:0-" },
        { "range:7:3-18446744073709551615", "range:7:3-" },
        { "range:18446744073709551615:18446744073709551613-18446744073709551614",
          "range:18446744073709551615:18446744073709551613-18446744073709551614" },
        { "chunk:a:b/ü", "chunk:a:b/ü" },
        { "pin:x", "pin:x" },
        { "shard:domains/a3", "shard:domains/a3" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[SCOPE_TEXT_MAX + 1];
        struct scope scope = parsed(rows[i].text);
        assert_string_equal(scope_text(&scope, text), rows[i].canonical);
        struct scope again = parsed(text);
        assert_true(scope_equal(&scope, &again));
    }
}

/* ---- Names --------------------------------------------------------------------------- */

static void names_are_what_every_store_can_hold(void **state)
{
    (void)state;
    static const char *const good[] = { "a", "0", "deploy", "a/b",  "a-b_c.d", "9",
                                        "-", "_", "a.",     "a..b", "x/y/z" };
    static const char *const bad[] = { "",    "/",    "a/",   "/a",   "a//b",  ".a",
                                       "..",  ".",    "a/.b", "a/..", "a/./b", "a b",
                                       "a:b", "a\\b", "a*",   "a\tb", "a%",    "é",
                                       "a+b", "a@b",  "a,b",  "\x7f" };
    struct hf_error error;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_status(HF_OK, name_check(view_of(good[i]), &error), &error);
    for (size_t i = 0; i < COUNT(bad); i++) {
        error.why[0] = '\0';
        if (name_check(view_of(bad[i]), &error) != HF_INVALID)
            fail_msg("\"%s\" was taken", bad[i]);
        assert_true(error.why[0] != '\0');
    }
}

static void each_byte_is_allowed_or_not(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        char name[3] = { 'a', (char)byte, 'b' };
        bool allowed = (byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') ||
                       byte == '.' || byte == '_' || byte == '-' || byte == '/';
        struct hf_error error;
        enum hf_status status = name_check((struct view){ name, 3 }, &error);
        if (status != (allowed ? HF_OK : HF_INVALID))
            fail_msg("byte %u in a name gave %s", byte, hf_status_name(status));
    }
}

static void upper_case_is_answered_with_lower_case(void **state)
{
    (void)state;
    struct hf_error error;
    assert_int_equal(name_check(VIEW("Jobs/DB-1"), &error), HF_INVALID);
    assert_non_null(strstr(error.why, "jobs/db-1"));
    struct scope scope;
    assert_int_equal(scope_parse(VIEW("named:Deploy"), &scope, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "deploy"));
    assert_int_equal(scope_parse(VIEW("Deploy"), &scope, &error), HF_INVALID);
    assert_non_null(strstr(error.why, "deploy"));
}

static void long_names_are_refused(void **state)
{
    (void)state;
    char name[NAME_BYTES_MAX + 1];
    memset(name, 'a', sizeof name);
    struct hf_error error;
    assert_status(HF_OK, name_check((struct view){ name, NAME_BYTES_MAX }, &error), &error);
    assert_int_equal(name_check((struct view){ name, sizeof name }, &error), HF_INVALID);
    memset(name, 'A', sizeof name);
    assert_int_equal(name_check((struct view){ name, NAME_BYTES_MAX }, &error), HF_INVALID);
    assert_int_equal(name_check((struct view){ name, sizeof name }, &error), HF_INVALID);
}

/* ---- Conflicts ----------------------------------------------------------------------- */

/* The rules once more, over the texts, sharing no code with what is tested. */

static bool path_is_under(const char *path, const char *tree)
{
    size_t size = strlen(tree);
    if (strcmp(tree, "/") == 0)
        return true;
    return strncmp(path, tree, size) == 0 && (path[size] == '\0' || path[size] == '/');
}

static bool has_kind(const char *text, const char *kind, const char **ret_rest)
{
    size_t size = strlen(kind);
    if (strncmp(text, kind, size) != 0 || text[size] != ':')
        return false;
    *ret_rest = text + size + 1;
    return true;
}

static bool model_of_paths(const char *a, const char *b)
{
    const char *x, *y;
    if (has_kind(a, "path", &x))
        return has_kind(b, "path", &y) ? strcmp(x, y) == 0
                                       : has_kind(b, "tree", &y) && path_is_under(x, y);
    if (!has_kind(a, "tree", &x))
        return false;
    if (has_kind(b, "path", &y))
        return path_is_under(y, x);
    return has_kind(b, "tree", &y) && (path_is_under(x, y) || path_is_under(y, x));
}

/* An inode as the range of all its bytes. */
static bool bytes_of(const char *text, unsigned long long *inode, unsigned long long *start,
                     unsigned long long *end)
{
    const char *rest;
    char *at;
    *start = 0;
    *end = UINT64_MAX;
    if (has_kind(text, "inode", &rest)) {
        *inode = strtoull(rest, NULL, 10);
        return true;
    }
    if (!has_kind(text, "range", &rest))
        return false;
    *inode = strtoull(rest, &at, 10);
    *start = strtoull(at + 1, &at, 10);
    if (isdigit((unsigned char)at[1]))
        *end = strtoull(at + 1, NULL, 10);
    return true;
}

static bool model_conflicts(const char *a, const char *b)
{
    const char *x, *y;
    unsigned long long inode_a, start_a, end_a, inode_b, start_b, end_b;
    if (has_kind(a, "named", &x) && has_kind(b, "named", &y))
        return strcmp(x, y) == 0;
    if (has_kind(a, "chunk", &x) && has_kind(b, "chunk", &y))
        return strcmp(x, y) == 0;
    if (has_kind(a, "shard", &x) && has_kind(b, "shard", &y))
        return strcmp(x, y) == 0;
    if (bytes_of(a, &inode_a, &start_a, &end_a) && bytes_of(b, &inode_b, &start_b, &end_b))
        return inode_a == inode_b && start_a < end_b && start_b < end_a;
    return model_of_paths(a, b);
}

static const char *const many[] = {
    "named:a",
    "named:a/b",
    "named:ab",
    "named:x",
    "chunk:a",
    "chunk:a/b",
    "chunk:/a",
    "pin:a",
    "pin:a/b",
    "snapshot:a:1",
    "snapshot:a:2",
    "shard:a/b",
    "shard:a/b0",
    "shard:ab/b0",
    "shard:x/b",
    "path:/a",
    "path:/a/b",
    "path:/a/b/c",
    "path:/ab",
    "path:/b",
    "path:/a.b",
    "tree:/",
    "tree:/a",
    "tree:/a/b",
    "tree:/ab",
    "tree:/a.b",
    "tree:/b/c",
    "inode:7",
    "inode:8",
    "inode:0",
    "range:7:0-",
    "range:7:0-1",
    "range:7:0-10",
    "range:7:10-20",
    "range:7:9-11",
    "range:7:11-12",
    "range:7:20-",
    "range:7:19-21",
    "range:8:0-10",
    "range:8:10-",
    "range:0:0-1",
    "range:7:18446744073709551614-",
    "range:7:1-18446744073709551614",
};

static void two_scopes_conflict_exactly_by_the_rules(void **state)
{
    (void)state;
    size_t conflicts = 0;
    for (size_t i = 0; i < COUNT(many); i++)
        for (size_t k = 0; k < COUNT(many); k++) {
            struct scope a = parsed(many[i]), b = parsed(many[k]);
            bool expected = model_conflicts(many[i], many[k]);
            conflicts += expected;
            if (scope_conflicts(&a, &b) != expected)
                fail_msg("%s and %s: expected %d", many[i], many[k], expected);
            assert_int_equal(scope_equal(&a, &b), i == k);
        }
    assert_true(conflicts > COUNT(many));
}

static void pins_conflict_with_nothing(void **state)
{
    (void)state;
    struct scope pin = parsed("pin:a");
    assert_false(scope_conflicts(&pin, &pin));
    for (size_t i = 0; i < COUNT(many); i++) {
        struct scope other = parsed(many[i]);
        assert_false(scope_conflicts(&pin, &other));
        assert_false(scope_conflicts(&other, &pin));
    }
}

static void small_ranges_conflict_where_they_share_a_byte(void **state)
{
    (void)state;
    enum { BYTES = 7 };
    for (uint64_t a = 0; a < BYTES; a++)
        for (uint64_t b = a + 1; b <= BYTES; b++)
            for (uint64_t c = 0; c < BYTES; c++)
                for (uint64_t d = c + 1; d <= BYTES; d++) {
                    struct scope x = { .kind = SCOPE_RANGE, .inode = 1, .start = a, .end = b };
                    struct scope y = { .kind = SCOPE_RANGE, .inode = 1, .start = c, .end = d };
                    bool shared = false;
                    for (uint64_t byte = 0; byte < BYTES; byte++)
                        shared |= byte >= a && byte < b && byte >= c && byte < d;
                    assert_int_equal(scope_conflicts(&x, &y), shared);
                }
}

/* ---- Covering ------------------------------------------------------------------------ */

static void a_scope_covers_what_is_in_it(void **state)
{
    (void)state;
    static const struct {
        const char *a, *b;
        bool covers;
    } rows[] = {
        { "deploy", "named:deploy", true },
        { "deploy", "named:other", false },
        { "path:/a/b", "path:/a/b", true },
        { "path:/a/b", "path:/a", false },
        { "path:/a", "path:/a/b", false },
        { "path:/a", "tree:/a", false },
        { "tree:/a", "path:/a", true },
        { "tree:/a", "path:/a/b/c", true },
        { "tree:/a", "tree:/a/b", true },
        { "tree:/a/b", "tree:/a", false },
        { "tree:/a", "path:/ab", false },
        { "tree:/a", "tree:/b", false },
        { "tree:/", "path:/x", true },
        { "tree:/", "tree:/", true },
        { "inode:7", "inode:7", true },
        { "inode:7", "inode:8", false },
        { "inode:7", "range:7:5-9", true },
        { "inode:7", "range:8:5-9", false },
        { "range:7:0-10", "range:7:0-10", true },
        { "range:7:0-10", "range:7:3-4", true },
        { "range:7:0-10", "range:7:9-11", false },
        { "range:7:3-4", "range:7:0-10", false },
        { "range:7:0-", "range:7:9-", true },
        { "range:7:0-", "inode:7", false },
        { "chunk:x", "chunk:x", true },
        { "chunk:x", "chunk:y", false },
        { "pin:x", "pin:x", false },
        { "chunk:x", "pin:x", false },
        { "snapshot:x:1", "snapshot:x:1", false },
        { "shard:x/a3", "shard:x/a3", true },
        { "shard:x/a3", "shard:x/a4", false },
        { "deploy", "path:/deploy", false },
        { "tree:/", "inode:7", false },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scope a = parsed(rows[i].a), b = parsed(rows[i].b);
        if (scope_covers(&a, &b) != rows[i].covers)
            fail_msg("%s over %s", rows[i].a, rows[i].b);
    }
}

/* What makes tokens of fenced objects mean something. */
static void two_that_cover_a_third_conflict(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "named:a",     "named:b",     "path:/",     "path:/a",     "path:/a/b",   "path:/ab",
        "tree:/",      "tree:/a",     "tree:/a/b",  "tree:/ab",    "inode:1",     "inode:2",
        "range:1:0-4", "range:1:2-3", "range:1:2-", "range:1:4-9", "range:2:0-4", "range:1:0-",
        "chunk:a",     "chunk:b",     "pin:a",      "pin:b",       "shard:a/0",   "shard:a/1",
    };
    size_t covered = 0;
    for (size_t i = 0; i < COUNT(texts); i++)
        for (size_t j = 0; j < COUNT(texts); j++)
            for (size_t k = 0; k < COUNT(texts); k++) {
                struct scope third = parsed(texts[i]), a = parsed(texts[j]),
                             b = parsed(texts[k]);
                if (!scope_covers(&a, &third))
                    continue;
                covered++;
                if (scope_covers(&b, &third) && !scope_conflicts(&a, &b))
                    fail_msg("%s and %s cover %s", texts[j], texts[k], texts[i]);
                if (scope_conflicts(&b, &third) && !scope_conflicts(&b, &a))
                    fail_msg("%s conflicts with %s, and not with %s", texts[k], texts[i],
                             texts[j]);
            }
    assert_true(covered > 24 * 24);
}

static void a_whole_table_conflicts_with_all_in_it(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool whole;
    } rows[] = { { "deploy", true },       { "tree:/", true },   { "tree:/a", false },
                 { "path:/", false },      { "inode:7", true },  { "range:7:0-", false },
                 { "shard:x/a3", true },   { "chunk:x", false }, { "pin:x", false },
                 { "snapshot:x:1", false } };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct scope scope = parsed(rows[i].text);
        assert_int_equal(scope_is_whole_table(&scope), rows[i].whole);
    }
}

static void copies_stand_by_themselves(void **state)
{
    (void)state;
    char texts[2][16] = { "path:/a", "range:7:1-2" };
    struct scope scopes[2] = { parsed(texts[0]), parsed(texts[1]) };
    struct scope *copy = scopes_copy(scopes, 2), *none = scopes_copy(NULL, 0);
    assert_true(copy && none);
    memset(texts, 'x', sizeof texts);
    struct scope path = parsed("path:/a"), range = parsed("range:7:1-2");
    assert_true(scope_equal(&copy[0], &path) && scope_equal(&copy[1], &range));
    free(copy);
    free(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("every form of a scope is read", every_form_is_read),
        IT("every bad form is refused with a reason, and the output left alone",
           every_bad_form_is_refused),
        IT("every bad form of a shard is refused with a reason", every_bad_shard_is_refused),
        IT("bytes that are no text are refused in every form",
           bytes_that_no_scope_may_hold_are_refused),
        IT("the longest names and keys are taken, one byte more is refused",
           lengths_are_bounded),
        IT("a scope has one text, which is read back as the same scope",
           texts_are_read_back_as_the_same_scope),
        IT("names are what every store can hold", names_are_what_every_store_can_hold),
        IT("each byte is allowed in a name, or not", each_byte_is_allowed_or_not),
        IT("an upper-case name is answered with the lower-case one",
           upper_case_is_answered_with_lower_case),
        IT("a name of 128 bytes is taken, of 129 refused", long_names_are_refused),
        IT("two scopes conflict exactly by the rules",
           two_scopes_conflict_exactly_by_the_rules),
        IT("pins conflict with nothing", pins_conflict_with_nothing),
        IT("small ranges conflict where they share a byte",
           small_ranges_conflict_where_they_share_a_byte),
        IT("a scope covers itself, what is under a tree, what is in a range or inode",
           a_scope_covers_what_is_in_it),
        IT("two scopes that cover a third conflict, with all that conflicts with it",
           two_that_cover_a_third_conflict),
        IT("a name, a shard, an inode and the root are all of their table",
           a_whole_table_conflicts_with_all_in_it),
        IT("a copy of scopes stands by itself", copies_stand_by_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
