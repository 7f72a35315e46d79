/* SPDX-License-Identifier: Apache-2.0 */
/* catalog_json_test.c: the document of a catalog: what is written is read back, unknown members
 * survive, and damage is reported. */
#include "catalog_kit.h"
#include "compact/catalog/catalog_inside.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STAMP "\"9f86d081884c7d65:1000000\""
#define CHUNK(key, more)                                                            \
    "{\"key\":\"" key "\",\"level\":0,\"size\":12,\"rows\":3,\"min\":-5,\"max\":7," \
    "\"writer\":\"w\\u00311\",\"seq\":1,\"crc32c\":4294967295,\"since\":" STAMP more "}"

#define CHUNK_A   CHUNK("data/default/L0/a.usv", ",\"color\":\"red\"")
#define CHUNK_ODD CHUNK("x/\\\"odd\\\"", ",\"tries\":2,\"quarantine\":\"bad \\\\ data\"")
#define CHUNK_B   CHUNK("data/default/L0/b.usv", "")
#define CHUNK_C   CHUNK("data/default/L0/c.usv", ",\"color\":\"blue\"")

/* Everything that a catalog can hold, and members that nobody knows, but no children. */
static const char whole[] =
    "{ \"format\" : \"holdfast.catalog/1\",\"write\":\"n\",\"partition\":\"default\","
    "\"depth\":0,\"generation\":7,\n"
    "\"settings\":{\"format\":\"usv\",\"key\":\"1\",\"theirs\":{\"a\":[1,2.5e3]},"
    "\"ttl_ms\":5000},\n"
    "\"counts\":[0,3,0,0,0,0,0,0],\"due\":" STAMP ",\n"
    "\"writers\":{\"w11\":12,\"a\\\"b\":1},\n"
    "\"mine\":null,\n"
    "\"chunks\":[\n" CHUNK_A ",\n" CHUNK_ODD "],\n"
    "\"tombstones\":[{\"into\":\"data/default/L0/a.usv\",\"since\":" STAMP ",\"why\":[],"
    "\"chunks\":[" CHUNK_B "," CHUNK_C "]}],\n"
    "\"deleting\":[{\"how\":\"retired\",\"done\":true,\"since\":" STAMP ",\"generation\":5,"
    "\"keys\":[\"data/default/L0/d.usv\"],\"note\":1},"
    "{\"how\":\"condemned\",\"since\":" STAMP ",\"restamps\":3,"
    "\"keys\":[\"data/default/L1/e.usv\",\"data/default/L1/f.usv\"]}],\n"
    "\"last\":{\"x\":\"y\"}}\n";

static const char children[] =
    "\"children\":[\"c0\",\"c1\",\"c2\",\"c3\",\"c4\",\"c5\",\"c6\",\"c7\"],\"split_by\":"
    "\"hour\","
    "\"moved\":[{\"child\":1,\"keys\":[\"data/default/L0/g.usv\",\"data/default/L0/h.usv\"]},"
    "{\"child\":6,\"keys\":[\"data/default/L0/i.usv\"]}]";

static const char empty_start[] =
    "{\"format\":\"holdfast.catalog/1\",\"partition\":\"default\",\"depth\":0,"
    "\"settings\":{\"format\":\"usv\",\"key\":\"1\"},\"counts\":[],\"writers\":{},"
    "\"chunks\":[],\"tombstones\":[],\"deleting\":[]";

static struct catalog *read_whole(void)
{
    struct catalog *catalog = NULL;
    struct hf_error error;
    assert_status(HF_OK, kit_decode(whole, &catalog, &error), &error);
    catalog_check(catalog);
    return catalog;
}

static bool contains(struct buffer *text, const char *part)
{
    const char *whole_text = buffer_text(text);
    assert_non_null(whole_text);
    return strstr(whole_text, part) != NULL;
}

static void reads_all(void **state)
{
    (void)state;
    struct catalog *catalog = read_whole();
    assert_int_equal(catalog->live_count, 2);
    assert_int_equal(catalog->generation, 7);
    assert_int_equal(catalog->removals[0].generation, 5);
    assert_int_equal(catalog->removals[1].generation, 0);
    const struct chunk *chunk = &catalog->live[1];
    assert_true(view_equal(chunk->key, VIEW("x/\"odd\"")));
    assert_true(view_equal(chunk->writer, VIEW("w11")));
    assert_true(view_equal(chunk->quarantine, VIEW("bad \\ data")));
    assert_int_equal(chunk->tries, 2);
    assert_int_equal(chunk->min_ms, -5);
    assert_int_equal(chunk->crc32c, UINT32_MAX);
    assert_true(catalog_find(catalog, VIEW("x/\"odd\"")) == chunk);
    assert_true(view_equal(catalog->writers[0].name, VIEW("a\"b")));
    assert_int_equal(catalog->writers[1].sequence, 12);
    assert_int_equal(catalog->cascade.counts[1], 3);
    assert_int_equal(catalog->due.us, 1000000);
    assert_int_equal(catalog->settings.ttl_ms, 5000);
    assert_int_equal(catalog->settings.group_max, 256);
    assert_int_equal(catalog->graves[0].count, 2);
    assert_int_equal(catalog->graves[0].part.seen.us, 1000000);
    assert_true(catalog->removals[0].done);
    assert_int_equal(catalog->removals[1].part.restamps, 3);
    assert_int_equal(catalog->dead_count, 5);
    catalog_free(catalog_kit_reload(catalog, NULL, 5));
    catalog_free(catalog);
}

/* By hand only: nothing is added twice, and nothing falls over. */
static void an_identity_that_stands_twice_is_read(void **state)
{
    (void)state;
    static const char two[] =
        "{\"format\":\"holdfast.catalog/1\",\"partition\":\"default\",\"depth\":0,"
        "\"settings\":{\"format\":\"usv\",\"key\":\"1\"},\"counts\":[],\"writers\":{\"w11\":9},"
        "\"chunks\":[" CHUNK(
            "data/default/L0/a.usv",
            ",\"file_id\":\"x\"") "],"
                                  "\"tombstones\":[{\"since\":" STAMP ",\"chunks\":[" CHUNK(
                                      "data/default/L0/b.usv",
                                      ",\"file_id\":\"x\"") "]}],"
                                                            "\"deleting\":[{\"how\":"
                                                            "\"retired\",\"since\":" STAMP
                                                            ",\"keys\":[\"data/default/L0/"
                                                            "c.usv\"],\"file_ids\":[\"x\","
                                                            "\"y\"]}]}";
    struct catalog *catalog = NULL;
    struct hf_error error;
    assert_status(HF_OK, kit_decode(two, &catalog, &error), &error);
    catalog_check(catalog);
    assert_true(catalog_knows_file(catalog, VIEW("x")) &&
                catalog_knows_file(catalog, VIEW("y")));
    struct view key = VIEW("data/default/L0/b.usv");
    struct catalog_op op = { .kind = CATALOG_UNDELETE, .keys = &key, .key_count = 1 };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(50)), &op.error);
    assert_true(catalog_knows_file(catalog, VIEW("x")));
    catalog_free(catalog_kit_reload(catalog, NULL, 60));
    catalog_free(catalog);
}

static void unknown_members_survive(void **state)
{
    (void)state;
    struct catalog *catalog = read_whole();
    struct compact_settings settings = catalog->settings;
    settings.ttl_ms = 7000;
    struct view keys[2] = { VIEW("data/default/L0/a.usv"), VIEW("data/default/L0/d.usv") };
    struct catalog_op ops[] = {
        { .kind = CATALOG_SET, .settings = &settings },
        { .kind = CATALOG_QUARANTINE, .keys = keys, .key_count = 1, .reason = VIEW("r") },
        { .kind = CATALOG_UNDELETE,
          .keys = &(struct view){ "data/default/L0/c.usv", 21 },
          .key_count = 1 },
        { .kind = CATALOG_MAINTAIN, .restamp = true },
    };
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        assert_status(HF_OK, kit_apply(catalog, &ops[i], catalog_kit_at(50)), &ops[i].error);
        assert_true(ops[i].changed);
    }
    struct buffer text = catalog_kit_encode(catalog);
    assert_true(contains(&text, "\"ttl_ms\":7000"));
    assert_true(contains(&text, ",\"theirs\":{\"a\":[1,2.5e3]}}"));
    assert_true(contains(&text, ",\"mine\":null,\"last\":{\"x\":\"y\"}}"));
    assert_true(contains(&text, "\"quarantine\":\"r\",\"color\":\"red\"}"));
    assert_true(contains(&text, ",\"color\":\"blue\"}"));
    assert_true(contains(&text, ",\"restamps\":1,\"generation\":5,\"note\":1,\"keys\":"));
    buffer_release(&text);
    catalog_free(catalog_kit_reload(catalog, NULL, 60));
    catalog_free(catalog);
}

/* The grave above was undone; here one is stamped anew. */
static void unknown_members_of_graves_survive(void **state)
{
    (void)state;
    struct catalog *catalog = read_whole();
    struct catalog_op op = { .kind = CATALOG_MAINTAIN, .restamp = true };
    assert_status(HF_OK, kit_apply(catalog, &op, catalog_kit_at(50)), &op.error);
    struct buffer text = catalog_kit_encode(catalog);
    assert_true(contains(&text, ",\"restamps\":1,\"why\":[],\"chunks\":["));
    buffer_release(&text);
    catalog_free(catalog_kit_reload(catalog, NULL, 60));
    catalog_free(catalog);
}

static void unchanged_entries_keep_their_bytes(void **state)
{
    (void)state;
    struct catalog *catalog = read_whole();
    struct buffer text = catalog_kit_encode(catalog);
    assert_true(contains(&text, CHUNK_A));
    assert_true(contains(&text, ",\"why\":[],\"chunks\":[" CHUNK_B));
    buffer_release(&text);
    catalog_free(catalog);
}

static void reads_children(void **state)
{
    (void)state;
    char text[4096];
    struct catalog *catalog = NULL;
    struct hf_error error;
    snprintf(text, sizeof text, "%s,%s}", empty_start, children);
    assert_status(HF_OK, kit_decode(text, &catalog, &error), &error);
    catalog_check(catalog);
    assert_int_equal(catalog->child_count, 8);
    assert_int_equal(catalog->reference_count, 3);
    assert_int_equal(catalog->references[2].child, 6);
    assert_int_equal(catalog_state(catalog, VIEW("data/default/L0/h.usv")), CHUNK_MOVED);
    catalog_free(catalog_kit_reload(catalog, NULL, 5));
    catalog_free(catalog);
}

/* ---- Damage -------------------------------------------------------------------------- */

/* The whole document with one part of it replaced. */
static char *replaced(const char *from, const char *to)
{
    const char *at = strstr(whole, from);
    assert_non_null(at);
    size_t before = (size_t)(at - whole), size = sizeof whole + strlen(to);
    char *text = malloc(size);
    assert_non_null(text);
    snprintf(text, size, "%.*s%s%s", (int)before, whole, to, at + strlen(from));
    return text;
}

static void invariants_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } damages[] = {
        { "default/L0/b.usv", "default/L0/a.usv" },
        { "default/L0/d.usv", "default/L0/c.usv" },
        { "default/L1/f.usv", "default/L1/e.usv" },
        { "default/L0/a.usv", "other/L0/a.usv" },
        { "default/L1/e.usv", "other/L1/e.usv" },
        { "default/L0/b.usv", "other/L0/b.usv" },
        { "data/default/L0/b.usv", "" },
        { "default/L0/b.usv", "default/L0/\\u0000.usv" },
        { "\"partition\":\"default\"", "\"partition\":\"De\"" },
        { "\"partition\":\"default\"", "\"partition\":\"default\",\"parent\":\"p\"" },
        { "\"depth\":0", "\"depth\":1" },
        { "\"depth\":0", "\"depth\":-1" },
        { "\"color\":\"red\"", "\"file_id\":\"\"" },
        { "\"note\":1", "\"file_ids\":[]" },
        { "\"mine\":null", "\"moved_file_ids\":[\"x\"]" },
        { "\"depth\":0", "\"depth\":0,\"depth\":0" },
        { "\"partition\":\"default\",", "" },
        { "\"level\":0", "\"level\":8" },
        { "\"level\":0,", "" },
        { "\"level\":0", "\"level\":0,\"level\":0" },
        { "\"size\":12", "\"size\":-1" },
        { "\"size\":12", "\"size\":1.5" },
        { "\"min\":-5", "\"min\":8" },
        { "\"min\":-5", "\"min\":-9007199254740993" },
        { "4294967295", "4294967296" },
        { "\"since\":" STAMP, "\"since\":\"soon\"" },
        { "\"since\":" STAMP, "\"since\":5" },
        { "\"how\":\"retired\"", "\"how\":\"lost\"" },
        { "\"how\":\"retired\",", "" },
        { "\"keys\":[\"data/default/L0/d.usv\"]", "\"keys\":[]" },
        { "\"counts\":[0,3,0,0,0,0,0,0]", "\"counts\":[0,0,0,0,0,0,0,0,0]" },
        { "\"format\":\"usv\"", "\"format\":\"wav\"" },
        { "\"ttl_ms\":5000", "\"ttl_ms\":1" },
        { "\"key\":\"1\"", "\"no\":\"1\"" },
        { "\"w11\":12", "\"w11\":12,\"w11\":13" },
        { "\"w11\":12", "\"\":12" },
        { "holdfast.catalog/1", "holdfast.leases/1" },
        { "\"last\":{\"x\":\"y\"}", "\"split_by\":\"hour\"" },
        { "\"last\":{\"x\":\"y\"}", "\"children\":[\"a\",\"b\",\"c\",\"d\",\"e\",\"f\",\"g\","
                                    "\"h\"],\"split_by\":\"hour\"" },
        { "\"tries\":2", "\"tries\":-2" },
        { "\"generation\":7", "\"generation\":4" },
        { "\"generation\":7", "\"generation\":-7" },
        { "\"generation\":7,", "" },
        { "\"generation\":5", "\"generation\":8" },
        { "\"last\":{\"x\":\"y\"}", "\"split_generation\":1" },
        { "\"w11\":12", "\"w11\":0" },
        { "}\n", "}x" },
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct catalog *catalog = NULL;
        struct hf_error error = { 0 };
        char *text = replaced(damages[i].from, damages[i].to);
        enum hf_status status = kit_decode(text, &catalog, &error);
        if (status != HF_CORRUPT || error.why[0] == '\0')
            fail_msg("%s for %s: %s", damages[i].to, damages[i].from, hf_status_name(status));
        assert_null(catalog);
        free(text);
    }
}

static void children_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
    } damages[] = {
        { "\"c7\"", "\"c6\"" },
        { ",\"c7\"", "" },
        { "\"c7\"", "\"c7\",\"c8\"" },
        { "\"c7\"", "\"default\"" },
        { "\"hour\"", "\"day\"" },
        { "\"hour\"", "\"hour\",\"split_generation\":1" },
        { ",\"split_by\":\"hour\"", "" },
        { "\"child\":6", "\"child\":1" },
        { "\"child\":6", "\"child\":8" },
        { "i.usv", "g.usv" },
        { "default/L0/i.usv", "other/L0/i.usv" },
        { "\"child\":6,", "" },
        { "\"child\":6", "\"child\":6,\"x\":1" },
    };
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        struct catalog *catalog = NULL;
        struct hf_error error = { 0 };
        char text[4096];
        const char *at = strstr(children, damages[i].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%s,%.*s%s%s}", empty_start, (int)(at - children), children,
                 damages[i].to, at + strlen(damages[i].from));
        if (kit_decode(text, &catalog, &error) != HF_CORRUPT)
            fail_msg("%s for %s", damages[i].to, damages[i].from);
    }
}

static void later_versions_are_refused(void **state)
{
    (void)state;
    struct catalog *catalog = NULL;
    struct hf_error error;
    char *text = replaced("holdfast.catalog/1", "holdfast.catalog/3");
    assert_int_equal(kit_decode(text, &catalog, &error), HF_UNSUPPORTED);
    free(text);
}

/* Versions without `keys` refuse version 2, so they never merge by the wrong key. */
static void a_key_that_version_1_cannot_hold_makes_version_2(void **state)
{
    (void)state;
    static const struct {
        const char *in_document, *key, *version;
    } cases[] = {
        { "\"key\":\"id\"", "id", "holdfast.catalog/1" },
        { "\"key\":\"a,b:desc\"", "a\\,b\\:desc", "holdfast.catalog/1" },
        { "\"key\":\"a\\\\b\"", "a\\\\b", "holdfast.catalog/1" },
        { "\"keys\":\"a,b:number:desc\"", "a,b:number:desc", "holdfast.catalog/2" },
        { "\"keys\":\"a\\\\,b:desc\"", "a\\,b:desc", "holdfast.catalog/2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct catalog *catalog = NULL;
        struct hf_error error;
        char *text = replaced("\"format\":\"usv\",\"key\":\"1\"", "\"format\":\"ndjson\",@");
        char whole_text[8192];
        char *at = strchr(text, '@');
        snprintf(whole_text, sizeof whole_text, "%.*s%s%s", (int)(at - text), text,
                 cases[i].in_document, at + 1);
        free(text);
        assert_status(HF_OK, kit_decode(whole_text, &catalog, &error), &error);
        assert_true(view_equal(catalog->settings.key, view_of(cases[i].key)));
        struct buffer written = catalog_kit_encode(catalog);
        assert_true(contains(&written, cases[i].in_document));
        assert_true(contains(&written, cases[i].version));
        assert_false(contains(&written, strstr(cases[i].in_document, "keys") ? "\"key\":\"a"
                                                                             : "\"keys\":\""));
        buffer_release(&written);
        catalog_free(catalog);
    }
}

static void the_kinds_of_keys_are_kept(void **state)
{
    (void)state;
    struct catalog *catalog = NULL;
    struct hf_error error;
    char *text = replaced("\"color\":\"red\"", "\"key_kinds\":6");
    assert_status(HF_OK, kit_decode(text, &catalog, &error), &error);
    free(text);
    assert_int_equal(catalog->live[0].key_kinds, 6);
    assert_int_equal(catalog->live[1].key_kinds, 0);
    struct buffer written = catalog_kit_encode(catalog);
    assert_true(contains(&written, "\"key_kinds\":6"));
    buffer_release(&written);
    catalog_free(catalog);
}

static void another_partition_is_corrupt(void **state)
{
    (void)state;
    struct compact_settings settings = catalog_kit_settings();
    struct catalog *catalog = read_whole(), *other = NULL, *again = NULL;
    struct hf_error error;
    assert_status(HF_OK, catalog_new(VIEW("other"), VIEW(""), 0, &settings, &other, &error),
                  &error);
    struct buffer text = catalog_kit_encode(other);
    assert_int_equal(catalog_decode(buffer_view(&text), (struct mono_time){ 0 }, catalog,
                                    &again, &error),
                     HF_CORRUPT);
    buffer_release(&text);
    catalog_free(other);
    catalog_free(catalog);
}

/* Cut anywhere it is corrupt; with any byte changed it is corrupt or can be written and read. */
static void damage_anywhere(void **state)
{
    (void)state;
    struct catalog *catalog = NULL;
    struct hf_error error;
    char text[sizeof whole];
    for (size_t i = 0; i < sizeof whole - 2; i++) {
        enum hf_status status = catalog_decode((struct view){ whole, i },
                                               (struct mono_time){ 0 }, NULL, &catalog, &error);
        assert_int_equal(status, HF_CORRUPT);
    }
    static const char bytes[] = "\"\\{}[],:0x \xff";
    for (size_t i = 0; i < sizeof whole - 1; i++)
        for (size_t k = 0; k < sizeof bytes - 1; k++) {
            memcpy(text, whole, sizeof whole);
            text[i] = bytes[k];
            catalog = NULL;
            enum hf_status status = kit_decode(text, &catalog, &error);
            assert_true(status == HF_OK || status == HF_CORRUPT || status == HF_UNSUPPORTED);
            if (status == HF_OK) {
                catalog_check(catalog);
                catalog_free(catalog_kit_reload(catalog, NULL, 1));
            }
            catalog_free(catalog);
        }
}

/* ---- Settings ------------------------------------------------------------------------ */

static void settings_survive(void **state)
{
    (void)state;
    struct compact_settings settings = compact_settings_default(), again;
    settings.format = HF_MERGE_CSV;
    settings.key = VIEW("a \"name\"");
    settings.headless = true;
    settings.coding = HF_MERGE_ZSTD;
    settings.command = VIEW("sort {inputs}");
    settings.policy = HF_COMPACT_CASCADE;
    settings.retention_ms = 12345;
    settings.level1_bytes = 77;
    struct buffer text = BUFFER_INIT(4096), space = BUFFER_INIT(4096);
    assert_true(buffer_reserve(&space, 4000));
    assert_true(compact_settings_encode(&settings, &text));
    struct json_reader reader = json_read(buffer_view(&text));
    assert_true(compact_settings_decode(&reader, &space, &space, &again));
    assert_true(json_end(&reader));
    assert_true(compact_settings_equal(&settings, &again));
    again.step_ms++;
    assert_false(compact_settings_equal(&settings, &again));
    buffer_release(&text);
    buffer_release(&space);
}

static void settings_are_checked(void **state)
{
    (void)state;
    struct hf_error error;
    struct compact_settings settings = catalog_kit_settings();
    assert_status(HF_OK, compact_settings_check(&settings, &error), &error);
    settings.key = settings.time = VIEW("");
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings.format = HF_MERGE_CONCAT;
    assert_status(HF_OK, compact_settings_check(&settings, &error), &error);
    settings.time = VIEW("3");
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings = catalog_kit_settings();
    settings.format = HF_MERGE_EXEC;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings.command = VIEW("sort -o {output} {inputs}");
    assert_status(HF_OK, compact_settings_check(&settings, &error), &error);
    settings = catalog_kit_settings();
    settings.headless = true;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings = catalog_kit_settings();
    settings.grace_ms = -1;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings = catalog_kit_settings();
    settings.level0_count = 1;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    enum hf_compact_policy policy = HF_COMPACT_LEVELS;
    assert_int_equal(compact_policy_parse(VIEW("cascade"), &policy, &error), HF_OK);
    assert_int_equal(policy, HF_COMPACT_CASCADE);
    assert_int_equal(compact_policy_parse(VIEW("best"), &policy, &error), HF_INVALID);
}

static void settings_that_could_never_work_are_refused(void **state)
{
    (void)state;
    static const char *const commands[] = { "cat {inputs}", "sort -o {output}",
                                            "sort '{output}", "sort -o {output} --in={inputs}",
                                            "" };
    struct hf_error error;
    struct compact_settings settings;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        settings = catalog_kit_settings();
        settings.format = HF_MERGE_EXEC;
        settings.command = view_of(commands[i]);
        assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    }
    settings = catalog_kit_settings();
    settings.key = VIEW("name");
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings.format = HF_MERGE_CSV;
    assert_status(HF_OK, compact_settings_check(&settings, &error), &error);
    settings.headless = true;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings.key = VIEW("1");
    settings.time = VIEW("0");
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings = catalog_kit_settings();
    settings.backlog_max = settings.level0_count - 1;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
    settings.policy = HF_COMPACT_CASCADE;
    settings.cascade_base = settings.backlog_max;
    assert_status(HF_OK, compact_settings_check(&settings, &error), &error);
    settings.cascade_base++;
    assert_int_equal(compact_settings_check(&settings, &error), HF_INVALID);
}

static void levels_grow(void **state)
{
    (void)state;
    struct compact_settings settings = compact_settings_default();
    assert_int_equal(compact_level_bytes(&settings, 1), 2 * GIB);
    assert_int_equal(compact_level_bytes(&settings, 2), 10 * GIB);
    assert_int_equal(compact_level_bytes(&settings, 3), 50 * GIB);
    assert_int_equal(compact_level_bytes(&settings, 7), OBJECT_BYTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("everything that a catalog holds is read, and written back", reads_all),
        IT("an identity that stands twice is read", an_identity_that_stands_twice_is_read),
        IT("unknown members survive changes beside them", unknown_members_survive),
        IT("those of tombstones survive a new stamp", unknown_members_of_graves_survive),
        IT("entries that do not change keep their bytes", unchanged_entries_keep_their_bytes),
        IT("children and references are read, and written back", reads_children),
        IT("a document that breaks an invariant is corrupt", invariants_are_checked),
        IT("children and references that cannot be are corrupt", children_are_checked),
        IT("a later version is refused", later_versions_are_refused),
        IT("a key that version 1 cannot hold makes version 2",
           a_key_that_version_1_cannot_hold_makes_version_2),
        IT("the kinds of keys are kept", the_kinds_of_keys_are_kept),
        IT("a catalog of another partition is corrupt", another_partition_is_corrupt),
        IT("damage anywhere is told, or leaves a catalog", damage_anywhere),
        IT("settings survive as JSON", settings_survive),
        IT("settings that are out of range or do not go together are refused",
           settings_are_checked),
        IT("settings that could never work are refused",
           settings_that_could_never_work_are_refused),
        IT("each level is larger by the factor, up to what an object can be", levels_grow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
