/* SPDX-License-Identifier: Apache-2.0 */
/* compact_set_test.c: changes of the settings of a partition that was split: each of its catalogs
 * has a copy of them. */
#include "fsck_kit.h"
#include "holdfast/compact.h"

#define CATALOGS (1 + CATALOG_CHILDREN)

/* The partition "logs" of the kit, which is split. */
struct place {
    struct scene *scene;
    struct peer other;
    struct hf_compact *compact, *of_other;
    struct hf_compact_settings read;
    unsigned sets; /* puts that set_again has seen */
};

static struct hf_error error;

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    assert_non_null(place);
    place->scene = scene_open(1);
    MUST(hf_compact_open(place->scene->peer.client, "logs", NULL, &place->compact, &error));
    peer_open(&place->other, &place->scene->world, NULL);
    MUST(hf_compact_open(place->other.client, "logs", NULL, &place->of_other, &error));
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    hf_compact_close(place->of_other);
    peer_close(&place->other);
    hf_compact_close(place->compact);
    scene_close(place->scene);
    free(place);
    return 0;
}

/* How often this text is in the bucket. */
static size_t times(struct place *place, const char *piece)
{
    struct buffer text = BUFFER_INIT(1 << 24);
    size_t count = 0;
    dump(place->scene, &text);
    for (const char *at = buffer_text(&text); (at = strstr(at, piece)); at++)
        count++;
    buffer_release(&text);
    return count;
}

static enum hf_status set_grace(struct place *place, int64_t grace_ms)
{
    struct hf_compact_settings read = HF_COMPACT_SETTINGS;
    MUST(hf_compact_get_settings(place->compact, &read, &error));
    place->read = read;
    struct hf_compact_settings changed = place->read;
    changed.grace_ms = grace_ms;
    return hf_compact_set(place->compact, &place->read, &changed, &error);
}

static void all_catalogs_have_a_change(void **state)
{
    MUST(set_grace(*state, 77001));
    assert_int_equal(times(*state, "\"grace_ms\":77001"), CATALOGS);
}

static void the_same_change_again_completes_one_that_was_cut_short(void **state)
{
    struct place *place = *state;
    script_rule(&place->scene->peer.way, .name = "children", .on = ON_PUT,
                .part = "catalog.json", .skip = 3, .fate = REFUSE(HF_DENIED));
    IS(HF_DENIED, set_grace(place, 77001));
    assert_in_range(times(place, "\"grace_ms\":77001"), 1, CATALOGS - 1);
    script_drop(&place->scene->peer.way, "children");
    MUST(set_grace(place, 77001));
    assert_int_equal(times(place, "\"grace_ms\":77001"), CATALOGS);
}

/* What the other client sets while this one is under way. */
static void set_tries(void *argument)
{
    struct place *place = argument;
    struct hf_compact_settings changed = place->read;
    changed.tries_max = 8;
    changed.backlog_max = 88;
    MUST(hf_compact_set(place->of_other, &place->read, &changed, &error));
}

static void changes_of_two_clients_meet_in_all_catalogs(void **state)
{
    struct place *place = *state;
    for (unsigned skip = 0; skip < 4; skip++) {
        MUST(set_grace(place, 77001));
        struct hf_compact_settings usual = place->read;
        script_rule(&place->scene->peer.way, .name = "other", .on = ON_PUT,
                    .part = "catalog.json", .skip = skip, .times = 1, .before = set_tries,
                    .argument = place);
        MUST(set_grace(place, 77002));
        assert_int_equal(script_met(&place->scene->peer.way, "other"), 1);
        script_drop(&place->scene->peer.way, "other");
        assert_int_equal(times(place, "\"grace_ms\":77002"), CATALOGS);
        assert_int_equal(times(place, "\"tries_max\":8"), CATALOGS);
        assert_int_equal(times(place, "\"backlog_max\":88"), CATALOGS);
        MUST(hf_compact_set(place->compact, NULL, &usual, &error));
        assert_int_equal(times(place, "\"tries_max\":8"), 0);
    }
}

/* One part is left to change. While this client copies to it, the other one changes all parts, and
 * the copy, which is of older settings by now, is repeated and gets no reply. */
static void a_copy_without_a_reply_is_made_again(void **state)
{
    struct place *place = *state;
    struct script *way = &place->scene->peer.way;
    script_rule(way, .name = "last", .on = ON_PUT, .part = "catalog.json", .skip = CATALOGS - 1,
                .fate = REFUSE(HF_DENIED));
    IS(HF_DENIED, set_grace(place, 77001));
    script_drop(way, "last");
    script_rule(way, .name = "other", .on = ON_PUT, .part = "catalog.json", .times = 1,
                .before = set_tries, .argument = place);
    script_rule(way, .name = "lost", .on = ON_PUT, .part = "catalog.json", .skip = 1,
                .times = 1, .fate = LOSE_REPLY);
    MUST(set_grace(place, 77001));
    assert_int_equal(script_met(way, "lost"), 1);
    assert_int_equal(times(place, "\"grace_ms\":77001"), CATALOGS);
    assert_int_equal(times(place, "\"tries_max\":8"), CATALOGS);
}

/* The other client changes the settings before every second put of this one, whose puts are
 * conflicts otherwise. */
static void set_again(void *argument)
{
    struct place *place = argument;
    struct hf_compact_settings changed = place->read;
    if (place->sets++ % 2 > 0)
        return;
    changed.backlog_max = 1000 + place->sets;
    MUST(hf_compact_set(place->of_other, NULL, &changed, &error));
}

static void copies_that_never_become_equal_end_as_unsure(void **state)
{
    struct place *place = *state;
    script_rule(&place->scene->peer.way, .name = "other", .on = ON_PUT, .part = "catalog.json",
                .before = set_again, .argument = place);
    IS(HF_UNSURE, set_grace(place, 77001));
    assert_non_null(strstr(error.why, "not in all parts"));
    script_drop(&place->scene->peer.way, "other");
    MUST(set_grace(place, 77001));
    assert_int_equal(times(place, "\"grace_ms\":77001"), CATALOGS);
}

#define CASE(sentence, function)                                       \
    {                                                                  \
        .name = sentence, .test_func = function, .setup_func = set_up, \
        .teardown_func = tear_down                                     \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE("a change reaches all catalogs of a partition that was split",
             all_catalogs_have_a_change),
        CASE("the same change again completes one that was cut short",
             the_same_change_again_completes_one_that_was_cut_short),
        CASE("changes of two clients at the same time meet in all catalogs",
             changes_of_two_clients_meet_in_all_catalogs),
        CASE("a copy of settings that gets no reply is compared once more",
             a_copy_without_a_reply_is_made_again),
        CASE("settings that others change all the time end as unsure, and say what is left to "
             "do",
             copies_that_never_become_equal_end_as_unsure),
    };
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
