/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_bucket.c: runs every part of the library on a bucket with arbitrary contents, with
 * virtual time. Nothing may abort, wait for ever, leak, or exceed the limit of requests. Every
 * failure must have a sentence. A bucket that is UNSUPPORTED must not be changed.
 *
 * The first byte chooses the parts. Then come the objects: a key, 0xfe, its bytes, 0xff. A key
 * of one byte stands for the key with that number in known_keys of bucket_work.c. */
#include "base/check.h"
#include "bucket_work.h"
#include "fuzz.h"
#include "sim/world/world.h"

#include <stdio.h>

#define STEPS_MAX 20000000

static void work_on_bucket(struct node *node, void *argument)
{
    const struct view *input = argument;
    bucket_work(node_env(node), (unsigned char)input->data[0], view_from(*input, 1));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view input = { (const char *)data, size };
    struct world_options options = WORLD_OPTIONS;
    const struct node_options calm = { .wall_off = { 0 } };
    if (size == 0)
        return 0;
    options.seed = 1;
    options.steps_max = STEPS_MAX;
    struct world *world = world_new(&options);
    struct node *node = node_new(world, &calm);
    node_boot(node, work_on_bucket, &input);
    if (!world_run(world)) {
        fprintf(stderr, "%s\n", world_failure(world));
        check_failed("the world comes to its end", __FILE__, __LINE__);
    }
    world_free(world);
    return 0;
}
