/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_s3_head.c: parses arbitrary bytes as the head of an HTTP reply, line by line. Numbers
 * must be within bounds, ranges inside their object, texts terminated, and nothing after the
 * head may count. */
#include "base/check.h"
#include "fuzz.h"
#include "store/remote/http.h"

/* libcurl reads the dates, and is loaded by it. */
static void load_libcurl(void)
{
    static struct http_pool *pool;
    const struct http_options options = { .connections = 1 };
    struct hf_error error;
    if (!pool)
        check(http_pool_open(env_real(), &options, &pool, &error) == HF_OK);
}

static void time_holds(struct wall_time time)
{
    check(time.us >= 0 && time.us / 1000000 < INT64_C(253402300800));
}

static void reply_holds(const struct http_reply *reply)
{
    check(reply->status >= 0 && reply->status <= 999);
    check(reply->etag.size <= sizeof reply->etag.data);
    check(reply->length <= OBJECT_BYTES_MAX && (reply->has_length || reply->length == 0));
    check(reply->has_range ? reply->range_start < reply->range_total
                           : reply->range_start == 0 && reply->range_total == 0);
    check(memchr(reply->region, '\0', sizeof reply->region));
    check(memchr(reply->location, '\0', sizeof reply->location));
    check(memchr(reply->mark, '\0', sizeof reply->mark));
    time_holds(reply->modified);
    if (reply->has_date)
        time_holds(reply->date);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct view rest = { (const char *)data, size };
    struct http_reply reply = { .outcome = HTTP_NOT_SENT };
    load_libcurl();
    while (rest.size > 0) {
        size_t end = view_find(rest, '\n');
        struct view line = view_first(rest, end + 1);
        bool over = reply.whole_headers && reply.status >= 200;
        struct http_reply before = reply;
        http_reply_line(&reply, line);
        reply_holds(&reply);
        if (over)
            check(memcmp(&before, &reply, sizeof reply) == 0);
        rest = view_from(rest, line.size);
    }
    return 0;
}
