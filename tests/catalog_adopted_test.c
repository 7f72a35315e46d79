/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_adopted_test.c: adopted chunks in a catalog: what their entries need, how long their
 * identities are known, and which programs can read such a catalog. Also which paths a partition
 * may register. */
#include "catalog_kit.h"
#include "test.h"

#include "compact/catalog/catalog_inside.h"
#include "compact/catalog/chunk_object.h"
#include "compact/catalog/prefixes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_S 1000
#define D_S     100000

/* ---- Entries ------------------------------------------------------------------------- */

/* An adopted chunk; its identity is kept by the caller. */
static struct chunk adopted(unsigned n, const char *object, bool own,
                            char file_id[FILE_ID_DIGITS + 1])
{
    struct chunk chunk = kit_chunk(0, n);
    chunk.object = view_of(object);
    chunk.etag = VIEW("\"e1\"");
    chunk.own = own;
    object_identity(chunk.object, chunk.etag, file_id);
    chunk.file_id = view_of(file_id);
    return chunk;
}

static enum hf_status add_one(struct catalog *catalog, const struct chunk *chunk,
                              bool *ret_known, int64_t seconds)
{
    struct evidence at = catalog_kit_at(seconds);
    bool known = false;
    struct catalog_op op = { .kind = CATALOG_ADD,
                             .chunks = chunk,
                             .chunk_count = 1,
                             .drawn = at.now,
                             .ret_known = &known };
    enum hf_status status = kit_apply(catalog, &op, at);
    if (ret_known)
        *ret_known = known;
    return status;
}

static bool starts_with(struct buffer text, const char *start)
{
    return view_starts_with(buffer_view(&text), view_of(start));
}

static void an_adopted_entry_names_its_object_and_etag_and_is_read_back(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    struct chunk chunk = adopted(1, "raw/a.usv", /* own */ true, id);
    assert_int_equal(add_one(catalog, &chunk, NULL, 10), HF_OK);
    struct catalog *read = catalog_kit_reload(catalog, NULL, 11);
    const struct chunk *found = catalog_find(read, chunk.key);
    assert_non_null(found);
    assert_true(view_equal(found->object, VIEW("raw/a.usv")));
    assert_true(view_equal(found->etag, VIEW("\"e1\"")));
    assert_true(found->own);
    struct get_call call = chunk_get_call(found);
    assert_true(view_equal(call.key, VIEW("raw/a.usv")));
    assert_true(view_equal(etag_view(&call.match), VIEW("\"e1\"")));
    catalog_free(read);
    catalog_free(catalog);
}

static void an_entry_without_etag_or_identity_is_refused(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    struct chunk whole = adopted(1, "raw/a.usv", false, id);
    struct chunk wrong[4] = { whole, whole, kit_chunk(0, 2), kit_chunk(0, 3) };
    wrong[0].etag = VIEW("");
    wrong[1].file_id = VIEW("");
    wrong[2].own = true;
    wrong[3].etag = VIEW("\"e1\"");
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(add_one(catalog, &wrong[i], NULL, 10), HF_INVALID);
    assert_int_equal(catalog->live_count, 0);
    catalog_free(catalog);
}

static void only_a_catalog_with_adopted_objects_has_the_second_version(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    catalog_kit_add(catalog, 1, 2, catalog_kit_at(10));
    struct buffer text = catalog_kit_encode(catalog);
    assert_true(starts_with(text, "{\"format\":\"holdfast.catalog/1\""));
    buffer_release(&text);
    struct chunk chunk = adopted(7, "raw/a.usv", false, id);
    assert_int_equal(add_one(catalog, &chunk, NULL, 11), HF_OK);
    text = catalog_kit_encode(catalog);
    assert_true(starts_with(text, "{\"format\":\"holdfast.catalog/2\""));
    buffer_release(&text);
    catalog_free(catalog);
}

static void a_version_that_nobody_knows_is_unsupported(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog(), *read = NULL;
    struct hf_error error;
    struct buffer text = catalog_kit_encode(catalog);
    char *version = strstr(buffer_text(&text), "holdfast.catalog/1");
    assert_non_null(version);
    version[strlen("holdfast.catalog/")] = '3';
    assert_int_equal(kit_decode(buffer_text(&text), &read, &error), HF_UNSUPPORTED);
    buffer_release(&text);
    catalog_free(catalog);
}

static void an_entry_in_a_document_without_its_etag_is_corrupt(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog(), *read = NULL;
    struct hf_error error;
    char id[FILE_ID_DIGITS + 1];
    struct chunk chunk = adopted(1, "raw/a.usv", false, id);
    assert_int_equal(add_one(catalog, &chunk, NULL, 10), HF_OK);
    struct buffer text = catalog_kit_encode(catalog);
    char *etag = strstr(buffer_text(&text), "\"etag\"");
    assert_non_null(etag);
    memcpy(etag, "\"gate\"", 6);
    assert_int_equal(kit_decode(buffer_text(&text), &read, &error), HF_CORRUPT);
    buffer_release(&text);
    catalog_free(catalog);
}

/* ---- Identities ---------------------------------------------------------------------- */

static void another_version_of_an_object_is_another_object(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1], id2[FILE_ID_DIGITS + 1];
    bool known;
    struct chunk chunk = adopted(1, "raw/a.usv", false, id);
    assert_int_equal(add_one(catalog, &chunk, NULL, 10), HF_OK);
    struct chunk again = adopted(2, "raw/a.usv", false, id2);
    assert_int_equal(add_one(catalog, &again, &known, 11), HF_OK);
    assert_true(known);
    again.etag = VIEW("\"e2\"");
    object_identity(again.object, again.etag, id2);
    assert_int_equal(add_one(catalog, &again, &known, 12), HF_OK);
    assert_false(known);
    assert_int_equal(catalog->live_count, 2);
    catalog_free(catalog);
}

/* Merges chunk 1 into another at 20 s, moves it to deleting at 3,000 s, marks its object as deleted
 * at 3,001 s, and drops it at `dropped_s`. */
static void let_it_pass(struct catalog *catalog, int64_t dropped_s)
{
    struct view key = kit_key(0, 1);
    struct catalog_op op;
    assert_int_equal(kit_commit(catalog, &op, 1, 90, 1, 1, catalog_kit_at(20)), HF_OK);
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(20 + 2 * GRACE_S)), 1);
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .done = &key, .done_count = 1 };
    assert_int_equal(kit_apply(catalog, &op, catalog_kit_at(3001)), HF_OK);
    op = (struct catalog_op){ .kind = CATALOG_MAINTAIN, .gone = &key, .gone_count = 1 };
    assert_int_equal(kit_apply(catalog, &op, catalog_kit_at(dropped_s)), HF_OK);
}

static void what_is_not_owned_is_known_forever_across_reloads(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    bool known;
    struct chunk chunk = adopted(1, "raw/a.usv", /* own */ false, id);
    assert_int_equal(add_one(catalog, &chunk, NULL, 10), HF_OK);
    let_it_pass(catalog, 3 * D_S);
    assert_int_equal(catalog->removal_count, 0);
    struct catalog *read = catalog_kit_reload(catalog, NULL, 4 * D_S);
    struct chunk again = adopted(5, "raw/a.usv", false, id);
    assert_int_equal(add_one(read, &again, &known, 4 * D_S), HF_OK);
    assert_true(known);
    catalog_free(read);
    catalog_free(catalog);
}

static void what_is_owned_is_known_for_d_after_it_was_deleted(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    bool known;
    struct chunk chunk = adopted(1, "raw/a.usv", /* own */ true, id);
    assert_int_equal(add_one(catalog, &chunk, NULL, 10), HF_OK);
    /* D has passed since the move to deleting, but not since the object was deleted. */
    let_it_pass(catalog, 2020 + D_S + 30);
    assert_int_equal(catalog->removal_count, 1);
    assert_true(catalog_knows_file(catalog, chunk.file_id));
    struct view key = kit_key(0, 1);
    struct catalog_op op = { .kind = CATALOG_MAINTAIN, .gone = &key, .gone_count = 1 };
    assert_int_equal(kit_apply(catalog, &op, catalog_kit_at(3001 + 2 * D_S)), HF_OK);
    assert_int_equal(catalog->removal_count, 0);
    struct chunk again = adopted(5, "raw/a.usv", true, id);
    assert_int_equal(add_one(catalog, &again, &known, 3 * D_S), HF_OK);
    assert_false(known);
    catalog_free(catalog);
}

static void a_removal_names_the_objects_of_its_keys(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    struct catalog_op op;
    struct chunk chunk = adopted(2, "raw/b.usv", true, id);
    catalog_kit_add(catalog, 1, 1, catalog_kit_at(9));
    assert_int_equal(add_one(catalog, &chunk, NULL, 10), HF_OK);
    catalog_kit_add(catalog, 3, 1, catalog_kit_at(11));
    assert_int_equal(kit_commit(catalog, &op, 1, 90, 1, 3, catalog_kit_at(20)), HF_OK);
    assert_int_equal(kit_maintain(catalog, catalog_kit_at(3000)), 3);
    struct catalog *read = catalog_kit_reload(catalog, catalog, 3001);
    assert_int_equal(read->removal_count, 1);
    const struct removal *removal = &read->removals[0];
    assert_int_equal(removal->count, 3);
    assert_int_equal(removal->object_count, 1);
    assert_true(view_equal(removal->objects[0].key, kit_key(0, 2)));
    assert_true(view_equal(removal->objects[0].object, VIEW("raw/b.usv")));
    assert_true(removal->objects[0].own);
    catalog_free(read);
    catalog_free(catalog);
}

static void a_catalog_that_keeps_too_many_identities_is_full(void **state)
{
    (void)state;
    struct catalog *catalog = kit_catalog();
    char id[FILE_ID_DIGITS + 1];
    assert_true(catalog_room_kept_file_ids(catalog, CATALOG_KEPT_FILES_MAX));
    assert_true(catalog_reserve_keys(catalog, CATALOG_KEPT_FILES_MAX));
    for (unsigned i = 0; i < CATALOG_KEPT_FILES_MAX; i++)
        catalog_push_kept_file(catalog, kit_key(0, 1000 + i));
    struct evidence at = catalog_kit_at(10);
    struct chunk chunk = adopted(1, "raw/a.usv", false, id);
    struct catalog_op op = {
        .kind = CATALOG_ADD, .chunks = &chunk, .chunk_count = 1, .drawn = at.now
    };
    assert_int_equal(catalog_apply(catalog, &op, &at), HF_UNAVAILABLE);
    assert_true(op.full);
    chunk.own = true;
    assert_int_equal(catalog_apply(catalog, &op, &at), HF_OK);
    catalog_free(catalog);
}

/* ---- Paths --------------------------------------------------------------------------- */

static enum hf_status claim(struct prefix_list *list, const char *path, const char *partition,
                            bool own)
{
    struct prefix prefix = { .path = view_of(path),
                             .partition = view_of(partition),
                             .own = own };
    struct hf_error error;
    bool changed;
    return prefix_list_claim(list, &prefix, 1, &changed, &error);
}

static void no_two_registered_paths_overlap(void **state)
{
    (void)state;
    static const struct {
        const char *path, *partition;
        bool own;
        enum hf_status status;
        size_t count;
    } rows[] = {
        { "raw/2026/", "events", false, HF_OK, 1 },
        { "raw/2026/", "events", false, HF_OK, 1 },          /* equal: known */
        { "raw/2026/", "logs", false, HF_CONFLICT, 1 },      /* equal */
        { "raw/2026/11/", "logs", false, HF_CONFLICT, 1 },   /* inside */
        { "raw/", "logs", false, HF_CONFLICT, 1 },           /* containing */
        { "raw/2026/a.csv", "logs", false, HF_CONFLICT, 1 }, /* a key inside */
        { "raw/2026/11/", "events", false, HF_OK, 1 },       /* inside its own: known */
        { "raw/2026/a.csv", "events", false, HF_OK, 1 },     /* the same for a key */
        { "raw/2026/", "events", true, HF_CONFLICT, 1 },     /* owned after all */
        { "raw/2026", "logs", false, HF_OK, 2 },             /* a key, not inside */
        { "raw/2026", "events", false, HF_CONFLICT, 2 },     /* an equal key */
        { "raw/2025/", "logs", false, HF_OK, 3 },
        { "raw/2027/x.csv", "logs", false, HF_OK, 4 },
        { "raw/2027/", "logs", true, HF_CONFLICT, 4 }, /* absorbs what is not owned */
        { "raw/2027/", "logs", false, HF_OK, 4 },      /* absorbs it */
        { "drop/", "events", true, HF_OK, 5 },
        { "drop/", "events", false, HF_OK, 5 }, /* keeps being owned */
        { "data/x/", "events", false, HF_INVALID, 5 },
        { "metadata/", "events", false, HF_INVALID, 5 },
        { "indexes/a/inbox/", "events", false, HF_INVALID, 5 },
        { ".holdfast/kept/", "events", false, HF_INVALID, 5 },
        { "roster/", "events", false, HF_INVALID, 5 },
        { "default/", "events", false, HF_INVALID, 5 },
        { "jobs/meta/deploy.json", "events", false, HF_INVALID, 5 },
        { "/raw/", "events", false, HF_INVALID, 5 },
        { "", "events", false, HF_INVALID, 5 },
    };
    struct prefix_list *list = prefix_list_new();
    assert_non_null(list);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        enum hf_status status = claim(list, rows[i].path, rows[i].partition, rows[i].own);
        if (status != rows[i].status || prefix_list_count(list) != rows[i].count)
            fail_msg("row %zu, %s for %s: %s, %zu paths", i, rows[i].path, rows[i].partition,
                     hf_status_name(status), prefix_list_count(list));
    }
    prefix_list_free(list);
}

static void paths_are_claimed_all_or_none(void **state)
{
    (void)state;
    struct prefix_list *list = prefix_list_new();
    struct prefix both[2] = { { .path = VIEW("a/"), .partition = VIEW("p") },
                              { .path = VIEW("data/"), .partition = VIEW("p") } };
    struct hf_error error;
    bool changed;
    assert_int_equal(prefix_list_claim(list, both, 2, &changed, &error), HF_INVALID);
    assert_int_equal(prefix_list_count(list), 0);
    prefix_list_free(list);
}

static void a_list_is_read_back_with_members_of_later_versions(void **state)
{
    (void)state;
    static const char text[] =
        "{\"format\":\"holdfast.adopted/1\",\"write\":\"n\",\"prefixes\":["
        "\n{\"path\":\"raw/\",\"partition\":\"p\",\"own\":true,\"later\":7}],\"more\":[1]}\n";
    struct prefix_list *list;
    struct hf_error error;
    struct buffer written = BUFFER_INIT(4096);
    assert_int_equal(prefix_list_decode(view_of(text), &list, &error), HF_OK);
    assert_true(prefix_list_encode(list, VIEW("n"), &written));
    assert_string_equal(buffer_text(&written), text);
    buffer_release(&written);
    prefix_list_free(list);
}

/* ---- Releasing ----------------------------------------------------------------------- */

/* A step of releasing `path` for `partition`; the number of paths that are left. */
static size_t release_at(struct prefix_list *list, const char *path, const char *partition,
                         bool unused, struct evidence at)
{
    struct prefix_release release = { .path = view_of(path),
                                      .unused = unused,
                                      .late_bound_ms = D_S * INT64_C(1000) };
    bool changed;
    prefix_list_release(list, view_of(partition), &release, &at, &changed);
    return release.waiting + release.ready;
}

static void a_path_is_removed_after_twice_d_and_only_if_unused(void **state)
{
    (void)state;
    static const struct {
        const char *path, *partition;
        bool unused;
        int64_t at_s;
        size_t left, registered;
    } rows[] = {
        { "none/", "p", true, 10, 0, 3 },
        { "raw/", "q", true, 10, 0, 3 },            /* of another partition */
        { "raw/", "p", true, 10, 1, 3 },            /* marked */
        { "raw/", "p", true, 10 + D_S, 1, 3 },      /* D is too soon */
        { "raw/", "p", false, 20 + 2 * D_S, 1, 3 }, /* still in use */
        { "raw/", "p", true, 20 + 2 * D_S, 0, 2 },
        { "raw/", "p", true, 30 + 2 * D_S, 0, 2 }, /* a repetition changes nothing */
        { "", "p", true, 30 + 2 * D_S, 1, 2 },     /* all others of the partition */
        { "", "p", true, 50 + 4 * D_S, 0, 1 },
    };
    struct prefix_list *list = prefix_list_new();
    assert_int_equal(claim(list, "raw/", "p", false), HF_OK);
    assert_int_equal(claim(list, "more/", "p", true), HF_OK);
    assert_int_equal(claim(list, "x/", "q", false), HF_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t left = release_at(list, rows[i].path, rows[i].partition, rows[i].unused,
                                 catalog_kit_at(rows[i].at_s));
        if (left != rows[i].left || prefix_list_count(list) != rows[i].registered)
            fail_msg("row %zu: %zu left, %zu registered", i, left, prefix_list_count(list));
    }
    assert_string_equal(prefix_list_at(list, 0)->path.data, "x/");
    prefix_list_free(list);
}

static void a_claim_takes_a_release_back_and_others_are_still_refused(void **state)
{
    (void)state;
    struct prefix_list *list = prefix_list_new();
    assert_int_equal(claim(list, "raw/", "p", false), HF_OK);
    release_at(list, "raw/", "p", true, catalog_kit_at(10));
    assert_int_equal(claim(list, "raw/", "q", false), HF_CONFLICT);
    assert_true(prefix_list_at(list, 0)->releasing);
    assert_int_equal(claim(list, "raw/a/", "p", false), HF_OK); /* inside */
    assert_false(prefix_list_at(list, 0)->releasing);
    assert_int_equal(release_at(list, "raw/", "p", true, catalog_kit_at(20 + 2 * D_S)), 1);
    assert_int_equal(release_at(list, "raw/", "p", true, catalog_kit_at(30 + 4 * D_S)), 0);
    assert_int_equal(claim(list, "raw/", "q", true), HF_OK);
    prefix_list_free(list);
}

static void a_mark_of_another_clock_is_set_again_a_few_times(void **state)
{
    (void)state;
    struct prefix_list *list = prefix_list_new();
    assert_int_equal(claim(list, "raw/", "p", false), HF_OK);
    release_at(list, "raw/", "p", true, kit_at_clock(10, "one"));
    assert_int_equal(release_at(list, "raw/", "p", true, kit_at_clock(9 * D_S, "two")), 1);
    assert_int_equal(release_at(list, "raw/", "p", true, kit_at_clock(12 * D_S, "two")), 0);
    assert_int_equal(claim(list, "raw/", "p", false), HF_OK);
    for (int i = 0; i <= STAMP_RESTAMPS_MAX + 1; i++)
        release_at(list, "raw/", "p", true, kit_at_clock(20, i % 2 ? "one" : "two"));
    assert_int_equal(prefix_list_at(list, 0)->restamps, STAMP_RESTAMPS_MAX);
    prefix_list_free(list);
}

static void a_mark_is_read_back(void **state)
{
    (void)state;
    struct prefix_list *list = prefix_list_new(), *read;
    struct buffer text = BUFFER_INIT(4096);
    struct hf_error error;
    assert_int_equal(claim(list, "raw/", "p", true), HF_OK);
    release_at(list, "raw/", "p", true, catalog_kit_at(10));
    assert_true(prefix_list_encode(list, VIEW("n"), &text));
    assert_int_equal(prefix_list_decode(buffer_view(&text), &read, &error), HF_OK);
    assert_true(prefix_list_at(read, 0)->releasing);
    assert_int_equal(release_at(read, "raw/", "p", true, catalog_kit_at(10 + D_S)), 1);
    assert_int_equal(release_at(read, "raw/", "p", true, catalog_kit_at(20 + 2 * D_S)), 0);
    buffer_release(&text);
    prefix_list_free(read);
    prefix_list_free(list);
}

static void a_damaged_or_later_list_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        enum hf_status status;
    } rows[] = {
        { "", HF_CORRUPT },
        { "{}", HF_CORRUPT },
        { "{\"format\":\"holdfast.adopted/2\",\"prefixes\":[]}", HF_UNSUPPORTED },
        { "{\"format\":\"holdfast.adopted/1\"}", HF_CORRUPT },
        { "{\"format\":\"holdfast.adopted/1\",\"prefixes\":[{\"path\":\"a/\"}]}", HF_CORRUPT },
        { "{\"format\":\"holdfast.adopted/1\",\"prefixes\":[{\"path\":\"data/\","
          "\"partition\":\"p\"}]}",
          HF_CORRUPT },
        { "{\"format\":\"holdfast.adopted/1\",\"prefixes\":[{\"path\":\"a/\",\"partition\":"
          "\"p\"},{\"path\":\"a/b\",\"partition\":\"q\"}]}",
          HF_CORRUPT },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct prefix_list *list;
        struct hf_error error;
        assert_int_equal(prefix_list_decode(view_of(rows[i].text), &list, &error),
                         rows[i].status);
    }
}

static void too_many_paths_are_refused(void **state)
{
    (void)state;
    struct prefix_list *list = prefix_list_new();
    char path[32];
    for (unsigned i = 0; i < PREFIXES_MAX; i++) {
        snprintf(path, sizeof path, "a/%u.csv", i);
        assert_int_equal(claim(list, path, "p", false), HF_OK);
    }
    assert_int_equal(claim(list, "b/", "p", false), HF_UNAVAILABLE);
    assert_int_equal(claim(list, "a/", "p", false), HF_OK); /* absorbs the others */
    assert_int_equal(prefix_list_count(list), 1);
    prefix_list_free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("an adopted entry names its object and etag and is read back",
           an_adopted_entry_names_its_object_and_etag_and_is_read_back),
        IT("an entry without etag or identity is refused",
           an_entry_without_etag_or_identity_is_refused),
        IT("only a catalog with adopted objects has the second version",
           only_a_catalog_with_adopted_objects_has_the_second_version),
        IT("a version that nobody knows is unsupported",
           a_version_that_nobody_knows_is_unsupported),
        IT("an entry in a document without its etag is corrupt",
           an_entry_in_a_document_without_its_etag_is_corrupt),
        IT("another version of an object is another object",
           another_version_of_an_object_is_another_object),
        IT("what is not owned is known forever across reloads",
           what_is_not_owned_is_known_forever_across_reloads),
        IT("what is owned is known for d after it was deleted",
           what_is_owned_is_known_for_d_after_it_was_deleted),
        IT("a removal names the objects of its keys", a_removal_names_the_objects_of_its_keys),
        IT("a catalog that keeps too many identities is full",
           a_catalog_that_keeps_too_many_identities_is_full),
        IT("no two registered paths overlap", no_two_registered_paths_overlap),
        IT("paths are claimed all or none", paths_are_claimed_all_or_none),
        IT("a list is read back with members of later versions",
           a_list_is_read_back_with_members_of_later_versions),
        IT("a path is removed after twice d and only if unused",
           a_path_is_removed_after_twice_d_and_only_if_unused),
        IT("a claim takes a release back and others are still refused",
           a_claim_takes_a_release_back_and_others_are_still_refused),
        IT("a mark of another clock is set again a few times",
           a_mark_of_another_clock_is_set_again_a_few_times),
        IT("a mark is read back", a_mark_is_read_back),
        IT("a damaged or later list is refused", a_damaged_or_later_list_is_refused),
        IT("too many paths are refused", too_many_paths_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
