/* SPDX-License-Identifier: Apache-2.0 */
/* api_store_memory_test.c: fails each allocation of the calls of holdfast/store.h in turn. The
 * call must return UNAVAILABLE, create nothing, and leak nothing. */
#include "alloc.h"
#include "api_store_kit.h"

#include <string.h>

static bool see_copied(void *argument, const struct hf_store_copied *copied)
{
    (void)argument;
    return copied->target[0] != '\0';
}

/* Each call gives a status; what it has made is given back. */

static enum hf_status open_and_close(struct place *place)
{
    struct hf_store_options options = HF_STORE_OPTIONS;
    struct hf_store *store;
    options.coordinates = true;
    enum hf_status status = hf_store_open("mem:", &options, &store, &place->error);
    assert_true((status == HF_OK) == (store != NULL));
    hf_store_close(store);
    return status;
}

static enum hf_status open_client(struct place *place)
{
    struct hf_client *client;
    enum hf_status status = hf_client_open_on(place->store, NULL, &client, &place->error);
    assert_true((status == HF_OK) == (client != NULL));
    hf_client_close(client);
    return status;
}

static enum hf_status get_object(struct place *place)
{
    void *data = NULL;
    size_t size = 0;
    enum hf_status status =
        hf_store_get(place->store, "a", 100, NULL, &data, &size, NULL, &place->error);
    assert_true((status == HF_OK) == (data != NULL));
    hf_free(data);
    return status;
}

static enum hf_status write_object(struct place *place)
{
    return hf_store_put(place->store, "b", "2", 1, NULL, NULL, &place->error);
}

static enum hf_status delete_objects(struct place *place)
{
    const char *keys[] = { "b", "c" };
    return hf_store_delete_many(place->store, keys, NULL, 2, NULL, NULL, NULL, &place->error);
}

static enum hf_status list_objects(struct place *place)
{
    struct listed listed = { .count = 0 };
    return hf_store_list(place->store, "", NULL, see_entry, &listed, &place->error);
}

static enum hf_status copy_objects(struct place *place)
{
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    options.each = see_copied;
    options.force = true; /* or the second time would be refused */
    return hf_store_copy_all(place->store, "a", place->store, "copy/", &options, NULL,
                             &place->error);
}

static enum hf_status move_object(struct place *place)
{
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    options.move = true;
    enum hf_status status = hf_store_put(place->store, "m", "1", 1, NULL, NULL, &place->error);
    return status == HF_OK ? hf_store_copy(place->store, "m", place->store, "moved", &options,
                                           NULL, &place->error)
                           : status;
}

static enum hf_status sync_objects(struct place *place)
{
    struct hf_store_copy_options options = HF_STORE_COPY_OPTIONS;
    options.sync = true;
    options.delete_extra = true;
    return hf_store_copy_all(place->store, "a", place->store, "copy/", &options, NULL,
                             &place->error);
}

static enum hf_status make_absolute(struct place *place)
{
    char url[HF_STORE_URL_MAX];
    return hf_store_url_absolute("dir:x", url, &place->error);
}

static enum hf_status repair(struct place *place)
{
    return hf_store_repair_epoch(place->store, NULL, NULL, NULL, &place->error);
}

static const struct {
    const char *name;
    enum hf_status (*call)(struct place *place);
} calls[] = {
    { "open", open_and_close }, { "client", open_client },    { "get", get_object },
    { "put", write_object },    { "list", list_objects },     { "copy", copy_objects },
    { "sync", sync_objects },   { "delete", delete_objects }, { "url", make_absolute },
    { "repair", repair },       { "move", move_object },
};

static void a_call_without_memory_is_unavailable_and_leaks_nothing(void **state)
{
    struct place *place = *state;
    put_object(place, "a", "1");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        enum hf_status status;
        for (long n = 0;; n++) {
            assert_true(n < 10000);
            alloc_fail_after(n);
            status = calls[i].call(place);
            if (!alloc_stop())
                break;
            if (status != HF_UNAVAILABLE && status != HF_OK)
                fail_msg("%s, allocation %ld: %s: %s", calls[i].name, n, hf_status_name(status),
                         place->error.why);
            assert_int_equal(status, place->error.status);
        }
        if (status != HF_OK)
            fail_msg("%s: %s: %s", calls[i].name, hf_status_name(status), place->error.why);
    }
    assert_object_holds(place->store, "copy/", "1");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        CASE(a_call_without_memory_is_unavailable_and_leaks_nothing),
    };
    if (argc != 2)
        return 2;
    store_kind = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
