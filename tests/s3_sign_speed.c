/* SPDX-License-Identifier: Apache-2.0 */
/* s3_sign_speed.c: measures how long it takes to sign an S3 request, which delays every
 * request. */
#include "place.h"
#include "store/s3/sign.h"

static double sign_once_us(void)
{
    enum { TIMES = 20000 };
    const struct http_pair headers[] = {
        { VIEW("host"), VIEW("bucket.s3.amazonaws.com") },
        { VIEW("x-amz-content-sha256"), VIEW(S3_EMPTY_PAYLOAD) },
        { VIEW("x-amz-date"), VIEW("20130524T000000Z") },
        { VIEW("content-md5"), VIEW("1B2M2Y8AsgTpgAmY7PhCfg==") },
        { VIEW("if-match"), VIEW("0123456789abcdef") }
    };
    struct s3_signing_key key = { { 1 } };
    struct buffer to = BUFFER_INIT(4096);
    double start = now_s();
    for (int i = 0; i < TIMES; i++) {
        const struct s3_signing signing = { VIEW("PUT"),
                                            VIEW("/namespace/meta/some-name-of-a-lock.json"),
                                            VIEW(""),
                                            headers,
                                            5,
                                            VIEW(S3_EMPTY_PAYLOAD),
                                            VIEW("20130524T000000Z"),
                                            VIEW("us-east-1"),
                                            VIEW("s3"),
                                            VIEW("AKIAIOSFODNN7EXAMPLE"),
                                            S3_SCHEME_AWS };
        buffer_clear(&to);
        if (!s3_sign(&signing, &key, &to))
            bench_die("signing failed");
    }
    double took = now_s() - start;
    buffer_release(&to);
    return took / TIMES * 1e6;
}

static void bench_sign(struct bench *bench)
{
    struct series times = { .count = 0 };
    for (size_t round = 0; round < bench->rounds; round++)
        series_add(&times, sign_once_us());
    bench_figure(bench, "signing a put", "us", &times);
    bench_bar(bench, "signing a put", "us", series_median(&times), 20, /* at_most */ true);
}

int main(int argc, char **argv)
{
    static const struct bench_part parts[] = { { "sign", bench_sign }, { NULL, NULL } };
    struct bench bench = { .rounds = PAIRS, .seconds = 1 };
    return bench_main(&bench, parts, argc, argv);
}
