/* fuzz_bucket.c: a whole bucket of anything, and every part of the library at work on it, in a
 * world where time is virtual: nothing aborts, waits for ever, leaks, or asks the store more than
 * so often; what is not OK has a sentence; a bucket that is UNSUPPORTED is not touched.
 *
 * The first byte tells which parts are at work. Then come objects: a key, 0xfe, its bytes, 0xff. A
 * key of one byte is the one of that number in known_keys of bucket_work.c. */
#include "base/check.h"
#include "bucket_work.h"
#include "fuzz.h"
#include "sim/world.h"

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
