/* SPDX-License-Identifier: Apache-2.0 */
/* merge_codec_test.c: compressed input and output: compared with the tools gzip and zstd, with
 * every kind of damage, and within the granted memory. */
#include "alloc.h"
#include "base/buffer.h"
#include "base/hash.h"
#include "base/limits.h"
#include "base/prng.h"
#include "base/sanitizer.h"
#include "merge/codec.h"
#include "test.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

#define ROOM (64 * MIB)

static const enum hf_merge_coding codings[] = { HF_MERGE_GZIP, HF_MERGE_ZSTD };
static const char *const tools[] = { "gzip", "zstd" };

/* ---- Tools of the tests -------------------------------------------------------------- */

/* A nameless file with these bytes, at its start. */
static int file_of(struct view bytes)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_int_equal(fwrite(bytes.data, 1, bytes.size, file), bytes.size);
    assert_int_equal(fflush(file), 0);
    int fd = dup(fileno(file));
    fclose(file);
    assert_true(fd >= 0);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static struct buffer bytes_of_file(int fd)
{
    struct buffer bytes = BUFFER_INIT(GIB);
    for (;;) {
        char block[65536];
        ssize_t got = read(fd, block, sizeof block);
        assert_true(got >= 0);
        if (got == 0)
            return bytes;
        assert_true(buffer_append(&bytes, (struct view){ block, (size_t)got }));
    }
}

/* Runs the tool from one file to another. */
static struct buffer filter(struct view input, const char *tool, const char *option,
                            const char *second_option)
{
    int in = file_of(input), out = file_of(VIEW(""));
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        dup2(in, 0);
        dup2(out, 1);
        execlp(tool, tool, option, second_option, (char *)NULL);
        _exit(127);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(lseek(out, 0, SEEK_SET), 0);
    struct buffer bytes = bytes_of_file(out);
    close(in);
    close(out);
    return bytes;
}

static enum hf_status collect(void *context, struct view bytes, struct hf_error *error)
{
    (void)error;
    assert_true(bytes.size > 0);
    assert_true(buffer_append(context, bytes));
    return HF_OK;
}

/* Adds the bytes in pieces of up to `piece_max` bytes, drawn; 0: in one. */
static struct buffer encode(enum hf_merge_coding coding, struct view bytes, size_t piece_max,
                            struct prng *prng)
{
    struct encoder *encoder = NULL;
    struct hf_error error;
    struct buffer output = BUFFER_INIT(GIB);
    assert_status(HF_OK, encoder_new(coding, &encoder, &error), &error);
    while (piece_max && bytes.size > 0) {
        struct view piece = view_first(bytes, prng_below(prng, piece_max + 1));
        bool last = piece.size == bytes.size && prng_below(prng, 2);
        bytes = view_from(bytes, piece.size);
        assert_status(HF_OK, encoder_add(encoder, piece, last, collect, &output, &error),
                      &error);
        if (last)
            goto out;
    }
    assert_status(HF_OK, encoder_add(encoder, bytes, true, collect, &output, &error), &error);
out:
    encoder_free(encoder);
    return output;
}

/* The checksum is that of the file, whatever its coding and the pieces in which it was read. */
static void assert_summed(const struct decoder *decoder, int fd)
{
    uint64_t size = decoder_position(decoder);
    char *bytes = malloc((size_t)size + 1);
    assert_non_null(bytes);
    ssize_t got = pread(fd, bytes, (size_t)size + 1, 0); /* fails if it is a pipe */
    assert_true(got < 0 || (uint64_t)got == size);
    if (got >= 0)
        assert_int_equal(crc32c(0, (struct view){ bytes, (size_t)size }),
                         decoder_crc32c(decoder));
    free(bytes);
}

/* Reads it all, in pieces of up to `piece_max` bytes; what was read until then on failure too. */
static enum hf_status decode_fd(int fd, size_t room, size_t piece_max, struct buffer *output,
                                struct hf_error *error)
{
    struct decoder *decoder = NULL;
    char *piece = malloc(piece_max);
    assert_non_null(piece);
    struct budget budget = { .limit = room };
    enum hf_status status = decoder_new(fd, /* sums */ true, &budget, &decoder, error);
    if (status != HF_OK)
        close(fd);
    while (status == HF_OK) {
        size_t size = SIZE_MAX;
        status = decoder_read(decoder, piece, piece_max, &size, error);
        if (status != HF_OK || size == 0)
            break;
        assert_true(size <= piece_max);
        assert_true(buffer_append(output, (struct view){ piece, size }));
    }
    if (status == HF_OK)
        assert_summed(decoder, fd);
    decoder_free(decoder);
    free(piece);
    return status;
}

static enum hf_status decode(struct view bytes, size_t piece_max, struct buffer *output,
                             struct hf_error *error)
{
    *output = BUFFER_INIT(GIB);
    return decode_fd(file_of(bytes), ROOM, piece_max, output, error);
}

static void assert_bytes(struct view got, struct view expected)
{
    assert_int_equal(got.size, expected.size);
    assert_true(view_equal(got, expected));
}

static void assert_decoded(struct view bytes, size_t piece_max, struct view expected)
{
    struct buffer output;
    struct hf_error error;
    assert_status(HF_OK, decode(bytes, piece_max, &output, &error), &error);
    assert_bytes(buffer_view(&output), expected);
    buffer_release(&output);
}

static void assert_corrupt(struct view bytes)
{
    struct buffer output;
    struct hf_error error;
    assert_status(HF_CORRUPT, decode(bytes, 65536, &output, &error), &error);
    assert_true(strlen(error.why) > 20);
    buffer_release(&output);
}

/* Bytes that cannot be compressed, or lines that can. */
static struct buffer sample(size_t size, bool random, uint64_t seed)
{
    struct buffer bytes = BUFFER_INIT(GIB);
    struct prng prng = prng_seeded(seed);
    while (bytes.size < size) {
        uint64_t number = prng_next(&prng);
        if (random)
            assert_true(buffer_append(&bytes, (struct view){ (char *)&number, 8 }));
        else
            assert_true(buffer_print(&bytes, "key-%06u\x1fvalue %u\n", (unsigned)bytes.size,
                                     (unsigned)(number % 100)));
    }
    bytes.size = size;
    return bytes;
}

static struct buffer joined(struct view a, struct view b)
{
    struct buffer both = BUFFER_INIT(GIB);
    assert_true(buffer_append(&both, a) && buffer_append(&both, b));
    return both;
}

/* ---- There and back ------------------------------------------------------------------ */

static const size_t sizes[] = {
    0,      1,      2,      3,      4,      17,      18,
    19,     4095,   65535,  65536,  65537,  131071,  131072,
    131073, 262143, 262144, 262145, 500000, 1048576, 3 * 1048576 + 7
};

static void what_is_compressed_comes_back(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(1);
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        struct buffer bytes = sample(sizes[i / 2], i % 2, i);
        struct view view = buffer_view(&bytes);
        for (size_t k = 0; k < COUNT(codings); k++) {
            struct buffer packed = encode(codings[k], view, 0, &prng);
            assert_decoded(buffer_view(&packed), 1 + prng_below(&prng, 300000), view);
            if (view.size <= 4095)
                assert_decoded(buffer_view(&packed), 1, view);
            buffer_release(&packed);
        }
        buffer_release(&bytes);
    }
}

static void plain_files_are_read_as_they_stand(void **state)
{
    (void)state;
    static const char *const tiny[] = { "",
                                        "a",
                                        "\x1f",
                                        "\x1f\x8b",
                                        "\x1f\x8b\x08",
                                        "\x28",
                                        "\x28\xb5\x2f",
                                        "P*M",
                                        "{\"a\":1}\n",
                                        "\x1f\x1f\x1f\n",
                                        "\x8b\x1f\x08\x01" };
    for (size_t i = 0; i < COUNT(tiny); i++)
        for (size_t piece = 1; piece < 6; piece++)
            assert_decoded(view_of(tiny[i]), piece, view_of(tiny[i]));
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct buffer bytes = sample(sizes[i], false, i);
        assert_decoded(buffer_view(&bytes), 100000, buffer_view(&bytes));
        buffer_release(&bytes);
    }
}

static void the_tools_read_what_we_write(void **state)
{
    (void)state;
    static const size_t some[] = { 0, 1, 131072, 2000000 };
    for (size_t i = 0; i < 2 * COUNT(some); i++) {
        struct buffer bytes = sample(some[i / 2], i % 2, i);
        for (size_t k = 0; k < COUNT(codings); k++) {
            struct prng prng = prng_seeded(i);
            struct buffer packed = encode(codings[k], buffer_view(&bytes), 1000000, &prng);
            struct buffer back = filter(buffer_view(&packed), tools[k], "-dc", "-q");
            assert_bytes(buffer_view(&back), buffer_view(&bytes));
            buffer_release(&packed);
            buffer_release(&back);
        }
        buffer_release(&bytes);
    }
}

static void we_read_what_the_tools_write(void **state)
{
    (void)state;
    static const char *const levels[] = { "-1", "-6", "-9" };
    for (size_t i = 0; i < 2 * COUNT(levels); i++) {
        struct buffer bytes = sample(1500000 + i, i % 2, i);
        for (size_t k = 0; k < COUNT(codings); k++) {
            struct buffer packed = filter(buffer_view(&bytes), tools[k], levels[i / 2], "-c");
            assert_decoded(buffer_view(&packed), 65536, buffer_view(&bytes));
            buffer_release(&packed);
        }
        buffer_release(&bytes);
    }
}

static void the_output_is_the_same_however_the_bytes_come(void **state)
{
    (void)state;
    static const size_t pieces[] = { 1, 100, 5000, 131072, 300000, 2000000 };
    for (size_t i = 0; i < 2 * COUNT(sizes); i++) {
        struct buffer bytes = sample(sizes[i / 2], i % 2, i);
        for (size_t k = 0; k < COUNT(codings); k++) {
            struct prng prng = prng_seeded(i);
            struct buffer whole = encode(codings[k], buffer_view(&bytes), 0, &prng);
            for (size_t p = bytes.size > 300000 ? 4
                            : bytes.size > 5000 ? 2
                                                : 0;
                 p < COUNT(pieces); p++) {
                struct buffer same = encode(codings[k], buffer_view(&bytes), pieces[p], &prng);
                assert_bytes(buffer_view(&same), buffer_view(&whole));
                buffer_release(&same);
            }
            buffer_release(&whole);
        }
        buffer_release(&bytes);
    }
}

static void gzip_output_has_no_time_and_no_name(void **state)
{
    (void)state;
    struct buffer packed = encode(HF_MERGE_GZIP, VIEW("abc"), 0, NULL);
    assert_bytes(view_first(buffer_view(&packed), 9), VIEW("\x1f\x8b\x08\0\0\0\0\0\0"));
    buffer_release(&packed);
}

/* ---- More than one frame ------------------------------------------------------------- */

static void frames_behind_each_other_are_one_stream(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(2);
    for (size_t k = 0; k < COUNT(codings); k++) {
        struct buffer packed = BUFFER_INIT(GIB), expected = BUFFER_INIT(GIB);
        for (size_t i = 0; i < 60; i++) {
            struct buffer part = sample(i % 7 == 0 ? 0 : prng_below(&prng, 40000), i % 2, i);
            struct buffer frame = encode(codings[k], buffer_view(&part), 0, &prng);
            assert_true(buffer_append(&expected, buffer_view(&part)));
            assert_true(buffer_append(&packed, buffer_view(&frame)));
            buffer_release(&part);
            buffer_release(&frame);
        }
        assert_decoded(buffer_view(&packed), 10000, buffer_view(&expected));
        assert_decoded(buffer_view(&packed), 777, buffer_view(&expected));
        buffer_release(&packed);
        buffer_release(&expected);
    }
}

#define SKIPPED VIEW("\x5a\x2a\x4d\x18\x05\0\0\0extra")

static void skippable_frames_are_skipped(void **state)
{
    (void)state;
    struct buffer frame = encode(HF_MERGE_ZSTD, VIEW("abc"), 0, NULL);
    struct buffer before = joined(SKIPPED, buffer_view(&frame));
    struct buffer around = joined(buffer_view(&before), SKIPPED);
    struct buffer between = joined(buffer_view(&around), buffer_view(&frame));
    struct buffer twice = joined(SKIPPED, SKIPPED);
    assert_decoded(buffer_view(&before), 10, VIEW("abc"));
    assert_decoded(buffer_view(&around), 10, VIEW("abc"));
    assert_decoded(buffer_view(&between), 10, VIEW("abcabc"));
    assert_decoded(buffer_view(&twice), 10, VIEW(""));
    for (size_t size = 4; size < twice.size; size++)
        if (size != SKIPPED.size)
            assert_corrupt(view_first(buffer_view(&twice), size));
    buffer_release(&frame);
    buffer_release(&before);
    buffer_release(&around);
    buffer_release(&between);
    buffer_release(&twice);
}

static void anything_else_behind_a_frame_is_corrupt(void **state)
{
    (void)state;
    static const char *const behind[] = { "x",        "\n",
                                          "abcdefgh", "\x1f",
                                          "\x28\xb5", "\x1f\x8b\x09zzzz",
                                          "P*M",      "0123456789012345678901234567890" };
    for (size_t k = 0; k < COUNT(codings); k++) {
        struct buffer frame = encode(codings[k], VIEW("abc"), 0, NULL);
        struct buffer other = encode(codings[1 - k], VIEW("abc"), 0, NULL);
        for (size_t i = 0; i < COUNT(behind); i++) {
            struct buffer both = joined(buffer_view(&frame), view_of(behind[i]));
            assert_corrupt(buffer_view(&both));
            buffer_release(&both);
        }
        struct buffer mixed = joined(buffer_view(&frame), buffer_view(&other));
        struct buffer padded =
            joined(buffer_view(&frame), (struct view){ "\0\0\0\0\0\0\0", 7 });
        assert_corrupt(buffer_view(&mixed));
        assert_corrupt(buffer_view(&padded));
        buffer_release(&mixed);
        buffer_release(&padded);
        buffer_release(&frame);
        buffer_release(&other);
    }
}

/* ---- Damage -------------------------------------------------------------------------- */

static void a_file_that_ends_early_is_corrupt(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(codings); k++) {
        for (size_t i = 0; i < 2; i++) {
            struct buffer bytes = sample(600, i, 1);
            struct buffer packed = encode(codings[k], buffer_view(&bytes), 0, NULL);
            for (size_t size = 4; size < packed.size; size++)
                assert_corrupt(view_first(buffer_view(&packed), size));
            for (size_t size = 0; size < 4; size++)
                assert_decoded(view_first(buffer_view(&packed), size), 10,
                               view_first(buffer_view(&packed), size));
            buffer_release(&bytes);
            buffer_release(&packed);
        }
    }
}

/* Whatever bit is flipped: the same bytes, since it did not matter; or damage is noticed; or, in
 * the magic number, the file is a plain one. A window descriptor has no checksum: it may ask for
 * more memory than there is. */
static void a_flipped_bit_never_changes_the_bytes(void **state)
{
    (void)state;
    static const size_t magic_sizes[] = { 3, 4 };
    unsigned corrupt = 0;
    for (size_t k = 0; k < COUNT(codings); k++) {
        struct buffer bytes = sample(400, false, 3);
        struct buffer packed = encode(codings[k], buffer_view(&bytes), 0, NULL);
        for (size_t bit = 0; bit < 8 * packed.size; bit++) {
            packed.data[bit / 8] ^= (char)(1 << bit % 8);
            struct buffer output;
            struct hf_error error;
            enum hf_status status = decode(buffer_view(&packed), 100, &output, &error);
            if (status == HF_OK && bit / 8 < magic_sizes[k])
                assert_bytes(buffer_view(&output), buffer_view(&packed));
            else if (status == HF_OK)
                assert_bytes(buffer_view(&output), buffer_view(&bytes));
            else if (!(status == HF_UNSUPPORTED && codings[k] == HF_MERGE_ZSTD && bit / 8 < 18))
                assert_status(HF_CORRUPT, status, &error);
            corrupt += status == HF_CORRUPT;
            buffer_release(&output);
            packed.data[bit / 8] ^= (char)(1 << bit % 8);
        }
        buffer_release(&bytes);
        buffer_release(&packed);
    }
    assert_true(corrupt > 1000);
}

static void random_damage_ends_in_a_status(void **state)
{
    (void)state;
    struct prng prng = prng_seeded(5);
    for (size_t i = 0; i < 2000; i++) {
        struct buffer bytes = sample(2000, false, i);
        struct buffer packed = encode(codings[i % 2], buffer_view(&bytes), 0, &prng);
        size_t hits = 1 + prng_below(&prng, 8);
        for (size_t k = 0; k < hits; k++)
            packed.data[4 + prng_below(&prng, packed.size - 4)] = (char)prng_next(&prng);
        struct buffer output;
        struct hf_error error;
        enum hf_status status = decode(buffer_view(&packed), 500, &output, &error);
        if (status == HF_OK)
            assert_bytes(buffer_view(&output), buffer_view(&bytes));
        else
            assert_true(status == HF_CORRUPT || status == HF_UNSUPPORTED);
        buffer_release(&output);
        buffer_release(&packed);
        buffer_release(&bytes);
    }
}

/* ---- Memory -------------------------------------------------------------------------- */

static size_t memory_in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* Reads a file to its end; returns what the decoder said that it holds. */
static size_t assert_memory_is_told(struct view bytes)
{
    int fd = file_of(bytes);
    struct decoder *decoder = NULL;
    struct hf_error error;
    size_t before = memory_in_use(), size = 1;
    struct budget budget = { .limit = ROOM };
    assert_status(HF_OK, decoder_new(fd, /* sums */ false, &budget, &decoder, &error), &error);
    size_t told = budget.used;
    while (size > 0) {
        static char piece[100000];
        assert_status(HF_OK, decoder_read(decoder, piece, sizeof piece, &size, &error), &error);
        size_t held = memory_in_use() - before;
        if (!WITH_ASAN && !WITH_TSAN && (held > told + 8192 || told > held + MIB))
            fail_msg("it holds %zu and told %zu", held, told);
    }
    assert_int_equal(budget.used, told);
    assert_int_equal(decoder_position(decoder), bytes.size);
    decoder_free(decoder);
    assert_int_equal(budget.used, 0);
    return told;
}

static void a_decoder_tells_how_much_memory_it_holds(void **state)
{
    (void)state;
    struct buffer bytes = sample(9 * MIB, false, 7);
    struct buffer gzip = filter(buffer_view(&bytes), "gzip", "-1", "-c");
    struct buffer zstd = filter(buffer_view(&bytes), "zstd", "-3", "-c");
    struct buffer wide = filter(buffer_view(&bytes), "zstd", "--long=23", "-c");
    struct buffer ours = encode(HF_MERGE_ZSTD, buffer_view(&bytes), 0, NULL);
    struct buffer small = encode(HF_MERGE_ZSTD, view_first(buffer_view(&bytes), 5000), 0, NULL);
    assert_true(assert_memory_is_told(buffer_view(&bytes)) < KIB);
    assert_true(assert_memory_is_told(buffer_view(&gzip)) < 128 * KIB);
    assert_true(assert_memory_is_told(buffer_view(&zstd)) > 2 * MIB);
    assert_true(assert_memory_is_told(buffer_view(&wide)) > 8 * MIB);
    assert_true(assert_memory_is_told(buffer_view(&ours)) < 3 * MIB);
    assert_true(assert_memory_is_told(buffer_view(&small)) < 512 * KIB);
    buffer_release(&bytes);
    buffer_release(&gzip);
    buffer_release(&zstd);
    buffer_release(&wide);
    buffer_release(&ours);
    buffer_release(&small);
}

static enum hf_status decode_within(struct view bytes, size_t room, struct hf_error *error)
{
    struct buffer output = BUFFER_INIT(GIB);
    enum hf_status status = decode_fd(file_of(bytes), room, 100000, &output, error);
    buffer_release(&output);
    return status;
}

static void more_memory_than_there_is_room_for_is_unsupported(void **state)
{
    (void)state;
    struct hf_error error;
    struct buffer bytes = sample(100000, false, 8);
    struct buffer wide = filter(buffer_view(&bytes), "zstd", "--long=27", "-c");
    struct buffer small = encode(HF_MERGE_ZSTD, VIEW("abc"), 0, NULL);
    struct buffer late = joined(buffer_view(&small), buffer_view(&wide));
    /* The input's size is not known to the tool: the frame has a window of 128 MiB. */
    assert_status(HF_UNSUPPORTED, decode_within(buffer_view(&wide), 8 * MIB, &error), &error);
    assert_non_null(strstr(error.why, "needs 128.5 MiB"));
    assert_non_null(strstr(error.why, "8.0 MiB"));
    assert_status(HF_UNSUPPORTED, decode_within(buffer_view(&late), 8 * MIB, &error), &error);
    assert_status(HF_OK, decode_within(buffer_view(&late), 256 * MIB, &error), &error);

    struct buffer gzip = encode(HF_MERGE_GZIP, VIEW("abc"), 0, NULL);
    assert_status(HF_UNSUPPORTED, decode_within(buffer_view(&gzip), 64 * KIB, &error), &error);
    assert_status(HF_OK, decode_within(buffer_view(&gzip), 128 * KIB, &error), &error);
    assert_status(HF_OK, decode_within(buffer_view(&bytes), 0, &error), &error);
    buffer_release(&bytes);
    buffer_release(&wide);
    buffer_release(&small);
    buffer_release(&late);
    buffer_release(&gzip);
}

static void each_failing_allocation_is_told(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(codings); k++) {
        struct buffer packed = encode(codings[k], VIEW("abc"), 0, NULL);
        long failed = 0;
        for (bool more = true; more; failed += more) {
            int fd = file_of(buffer_view(&packed));
            struct encoder *encoder = NULL;
            struct decoder *decoder = NULL;
            struct budget budget = { .limit = ROOM };
            struct hf_error error;
            alloc_fail_after(failed);
            enum hf_status status = encoder_new(codings[k], &encoder, &error);
            if (status == HF_OK)
                status = decoder_new(fd, /* sums */ false, &budget, &decoder, &error);
            more = alloc_stop();
            assert_status(more ? HF_UNAVAILABLE : HF_OK, status, &error);
            encoder_free(encoder);
            decoder_free(decoder);
            if (!decoder)
                assert_int_equal(close(fd), 0); /* it was not taken over */
        }
        assert_true(failed >= 3);
        buffer_release(&packed);
    }
}

/* ---- The world around ---------------------------------------------------------------- */

static enum hf_status refuse(void *context, struct view bytes, struct hf_error *error)
{
    (void)bytes;
    (*(int *)context)++;
    return error_set(error, HF_DENIED, "no more of it");
}

static void a_write_that_fails_is_returned_as_it_is(void **state)
{
    (void)state;
    struct buffer bytes = sample(MIB, true, 9);
    for (size_t k = 0; k < COUNT(codings); k++) {
        struct encoder *encoder = NULL;
        struct hf_error error;
        int calls = 0;
        assert_status(HF_OK, encoder_new(codings[k], &encoder, &error), &error);
        assert_status(HF_DENIED,
                      encoder_add(encoder, buffer_view(&bytes), true, refuse, &calls, &error),
                      &error);
        assert_string_equal(error.why, "no more of it");
        assert_int_equal(calls, 1);
        encoder_free(encoder);
    }
    buffer_release(&bytes);
}

static void a_file_that_cannot_be_read_is_told(void **state)
{
    (void)state;
    struct decoder *decoder = NULL;
    struct hf_error error;
    int folder = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder >= 0);
    struct budget budget = { .limit = ROOM };
    assert_status(HF_UNAVAILABLE,
                  decoder_new(folder, /* sums */ false, &budget, &decoder, &error), &error);
    assert_non_null(strstr(error.why, "read"));
    assert_int_equal(close(folder), 0);
    decoder_free(NULL);
    encoder_free(NULL);
}

static void ignore(int number)
{
    (void)number;
}

/* The writer signals before each of its small writes: many of our reads are interrupted. */
static void write_in_drips(int fd, struct view bytes, struct prng *prng)
{
    while (bytes.size > 0) {
        struct view drip = view_first(bytes, 1 + prng_below(prng, 700));
        kill(getppid(), SIGUSR1);
        if (write(fd, drip.data, drip.size) != (ssize_t)drip.size)
            _exit(1);
        bytes = view_from(bytes, drip.size);
    }
    _exit(0);
}

static void drips_and_signals_change_nothing(void **state)
{
    (void)state;
    struct sigaction action = { .sa_handler = ignore }, old;
    sigaction(SIGUSR1, &action, &old);
    struct buffer bytes = sample(400000, false, 10);
    struct prng prng = prng_seeded(10);
    for (size_t k = 0; k < 3; k++) {
        struct buffer packed = k < 2 ? encode(codings[k], buffer_view(&bytes), 0, NULL)
                                     : joined(buffer_view(&bytes), VIEW(""));
        struct buffer output = BUFFER_INIT(GIB);
        struct hf_error error;
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_in_drips(ends[1], buffer_view(&packed), &prng);
        close(ends[1]);
        assert_status(HF_OK, decode_fd(ends[0], ROOM, 5000, &output, &error), &error);
        assert_bytes(buffer_view(&output), buffer_view(&bytes));
        int status = -1;
        while (waitpid(pid, &status, 0) != pid)
            ;
        assert_int_equal(status, 0);
        buffer_release(&packed);
        buffer_release(&output);
    }
    buffer_release(&bytes);
    sigaction(SIGUSR1, &old, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IT("what is compressed comes back, whatever its size", what_is_compressed_comes_back),
        IT("plain files are read as they stand, tiny ones too",
           plain_files_are_read_as_they_stand),
        IT("gzip and zstd read what we write", the_tools_read_what_we_write),
        IT("we read what gzip and zstd write", we_read_what_the_tools_write),
        IT("the output is the same in whatever pieces the bytes come",
           the_output_is_the_same_however_the_bytes_come),
        IT("gzip output has neither time nor name", gzip_output_has_no_time_and_no_name),
        IT("frames behind each other are one stream", frames_behind_each_other_are_one_stream),
        IT("skippable frames are skipped", skippable_frames_are_skipped),
        IT("anything else behind a frame is corrupt", anything_else_behind_a_frame_is_corrupt),
        IT("a compressed file that ends early is corrupt, at every byte",
           a_file_that_ends_early_is_corrupt),
        IT("a flipped bit is noticed or does not matter",
           a_flipped_bit_never_changes_the_bytes),
        IT("random damage ends in a status, never in other bytes",
           random_damage_ends_in_a_status),
        IT("a decoder tells beforehand how much memory it holds",
           a_decoder_tells_how_much_memory_it_holds),
        IT("a window that needs more memory than there is room for is unsupported",
           more_memory_than_there_is_room_for_is_unsupported),
        IT("each failing allocation is told and leaks nothing",
           each_failing_allocation_is_told),
        IT("a write that fails is returned as it is", a_write_that_fails_is_returned_as_it_is),
        IT("a file that cannot be read is told", a_file_that_cannot_be_read_is_told),
        IT("data that comes in drips and between signals is whole",
           drips_and_signals_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
