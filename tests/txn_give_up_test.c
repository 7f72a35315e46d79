/* SPDX-License-Identifier: Apache-2.0 */
/* txn_give_up_test.c [KIND]: giving up a transaction whose record was damaged from outside: its
 * bytes are kept and it is rolled back, whatever the store does meanwhile. */
#include "alloc.h"
#include "txn_kit.h"

#include <stdio.h>

#define RECORDS   ".txn-decisions/m/"
#define KEPT      ".holdfast/kept/" RECORDS
#define CALLS_MAX 20

static struct hf_error error;

struct scene {
    struct world world;
    struct peer one, two;
    struct transfer transfer;
    char record[KEY_BYTES_MAX + 1];
};

/* Its keys are staged, and nobody can read its record. */
static void scene_open(struct scene *scene)
{
    world_open(&scene->world);
    peer_open(&scene->one, &scene->world, NULL);
    peer_open(&scene->two, &scene->world, NULL);
    for (size_t i = 0; i < 2; i++) {
        struct hf_key *key = key_held(&scene->two, i == 0 ? "a" : "b");
        update(key, "old");
        done(key);
    }
    take_no_steps(&scene->one); /* so that the changes are staged in the store */
    scene->transfer = transfer_staged(&scene->one, "new", "new");
    snprintf(scene->record, sizeof scene->record, RECORDS "%s", scene->transfer.id);
    world_write(&scene->world, scene->record, VIEW("{ not json"));
}

static void scene_close(struct scene *scene)
{
    hf_txn_free(scene->transfer.txn);
    peer_close(&scene->one);
    peer_close(&scene->two);
    world_close(&scene->world);
}

static enum hf_status give_up(struct scene *scene, bool *ret_done)
{
    return txn_give_up(scene->two.client, view_of(scene->transfer.id), ret_done, &error);
}

/* ---- Given up ------------------------------------------------------------------------ */

static void keys_are_free_again(void **state)
{
    struct scene scene;
    void *data;
    size_t size;
    bool replaced;
    (void)state;
    scene_open(&scene);
    IS(HF_CORRUPT, hf_key_get(scene.two.client, "a", 100, &data, &size, NULL, &error));
    ASSERT(strstr(error.why, scene.transfer.id) && strstr(error.why, "hf_txn_give_up"));
    hf_txn_commit(scene.transfer.txn, NULL,
                  &error); /* UNSURE: the damage may be of its own write */
    IS(HF_CORRUPT, hf_txn_commit(scene.transfer.txn, NULL, &error));
    MUST(give_up(&scene, &replaced));
    ASSERT(replaced && objects_below(&scene.world, KEPT) == 1);
    ASSERT(recorded(&scene.two, scene.transfer.id) == TXN_ROLLBACK);
    both_read(&scene.two, "old", "old");
    IS(HF_UNSURE, hf_txn_commit(scene.transfer.txn, NULL, &error)); /* it may have landed */
    hf_txn_free(scene.transfer.txn);                                /* its leases go with it */
    scene.transfer.txn = NULL;
    struct hf_key *key = key_with(&scene.two, "a", 30000, false);
    MUST(hf_key_acquire(key, 5000, NULL, &error));
    done(key);
    MUST(give_up(&scene, &replaced));
    ASSERT(!replaced && objects_below(&scene.world, KEPT) == 1);
    scene_close(&scene);
}

static void whole_ones_are_left(void **state)
{
    struct scene scene;
    bool replaced = true;
    (void)state;
    scene_open(&scene);
    world_write(&scene.world, scene.record, VIEW("{\"format\":\"holdfast.txn/2\"}"));
    IS(HF_UNSUPPORTED, give_up(&scene, &replaced));
    struct hf_txn *other = begin(&scene.one);
    MUST(txn_give_up(scene.two.client, view_of(hf_txn_id(other)), &replaced, &error));
    ASSERT(!replaced && recorded(&scene.two, hf_txn_id(other)) == TXN_PENDING);
    commit(other);
    MUST(txn_give_up(scene.two.client, view_of(hf_txn_id(other)), &replaced, &error));
    ASSERT(!replaced && recorded(&scene.two, hf_txn_id(other)) == TXN_COMMIT);
    IS(HF_INVALID, txn_give_up(scene.two.client, VIEW("x"), &replaced, &error));
    ASSERT(objects_below(&scene.world, KEPT) == 0);
    hf_txn_free(other);
    scene_close(&scene);
}

/* ---- Failures ------------------------------------------------------------------------ */

/* False when there are not so many calls. What was told is true, and its bytes are never gone
 * without a copy. */
static bool fail_call(long number, struct fate fate)
{
    struct scene scene;
    bool replaced;
    scene_open(&scene);
    way_fail(&scene.two.way, number, fate);
    enum hf_status status = give_up(&scene, &replaced);
    bool failed = way_has_failed(&scene.two.way);
    bool gone = !record_says(&scene.world, scene.transfer.id, "{ not json");
    ASSERT(status != HF_OK || gone);
    ASSERT(!gone || objects_below(&scene.world, KEPT) > 0);
    MUST(give_up(&scene, &replaced));
    ASSERT(recorded(&scene.two, scene.transfer.id) == TXN_ROLLBACK);
    both_read(&scene.two, "old", "old");
    scene_close(&scene);
    return failed;
}

static void any_call_fails(void **state)
{
    static const struct fate fates[] = { { FATE_REFUSE, HF_UNAVAILABLE },
                                         { FATE_LOSE, HF_UNSURE },
                                         { FATE_LOSE_REPLY, HF_UNSURE } };
    (void)state;
    for (size_t i = 0; i < sizeof fates / sizeof *fates; i++) {
        long number = 0;
        while (number < CALLS_MAX && fail_call(number, fates[i]))
            number++;
        ASSERT(number >= 4 && number < CALLS_MAX);
    }
}

/* A record that is whole is not damaged for want of memory. */
static void no_memory_is_no_damage(void **state)
{
    struct pair *pair = *state;
    struct transfer transfer = transfer_staged(&pair->one, "new a", "new b");
    bool failed = true, replaced;
    long n;
    commit(transfer.txn);
    for (n = 0; failed && n < 100; n++) {
        alloc_fail_after(n);
        enum hf_status status =
            txn_give_up(pair->two.client, view_of(transfer.id), &replaced, &error);
        failed = alloc_stop();
        ASSERT(!replaced && (status == HF_OK || status == HF_UNAVAILABLE));
        ASSERT(recorded(&pair->two, transfer.id) == TXN_COMMIT);
    }
    ASSERT(n > 3 && n < 100);
    hf_txn_free(transfer.txn);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        IT("a transaction that is given up is rolled back, and its bytes are kept",
           keys_are_free_again),
        IT("a record that can be read, or is of a later version, is not given up",
           whole_ones_are_left),
        PAIR("a record is not given up for want of memory", no_memory_is_no_damage),
        IT("whichever call fails, the bytes are kept before they are replaced", any_call_fails),
    };
    return world_kind_set(argc, argv) ? cmocka_run_group_tests(tests, NULL, NULL) : 2;
}
