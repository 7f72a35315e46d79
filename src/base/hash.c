/* SPDX-License-Identifier: Apache-2.0 */
/* hash.c: XXH3 from its header, and CRC32C computed by a machine instruction or from tables. The
 * results are the same on every machine. */
#include "base/hash.h"

#include "base/check.h"

#include <assert.h>
#define XXH_INLINE_ALL /* its header is its library: nothing to load at run time */
#include <xxhash.h>

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <stdatomic.h>
#endif

uint64_t hash_xxh3(struct view bytes)
{
    return XXH3_64bits(bytes.data, bytes.size);
}

static_assert(sizeof(struct hash_stream) == sizeof(XXH3_state_t), "room for the state");
static_assert(_Alignof(struct hash_stream) >= _Alignof(XXH3_state_t), "aligned as it must be");

void hash_stream_init(struct hash_stream *stream)
{
    *stream = (struct hash_stream){ { 0 } };
    check(XXH3_64bits_reset((XXH3_state_t *)(void *)stream) == XXH_OK);
}

void hash_stream_add(struct hash_stream *stream, struct view bytes)
{
    if (bytes.size > 0)
        check(XXH3_64bits_update((XXH3_state_t *)(void *)stream, bytes.data, bytes.size) ==
              XXH_OK);
}

uint64_t hash_stream_xxh3(const struct hash_stream *stream)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)stream);
}

/* The state is the same for both variants. */
void hash_stream_xxh3_128(const struct hash_stream *stream,
                          unsigned char ret_digest[XXH3_128_BYTES])
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest,
                             XXH3_128bits_digest((const XXH3_state_t *)(const void *)stream));
    memcpy(ret_digest, &digest, XXH3_128_BYTES);
}

#define POLYNOMIAL 0x82f63b78u /* 0x1edc6f41, bits reversed */

/* table[s][byte] is the checksum of the byte and of s zeros behind it, without the inversions: the
 * sum of those of its bits. The compiler makes the table, because one that is made at the start
 * would cost each process two pages. */
#define ROW_OF(byte, a, b, c, d, e, f, g, h)                                \
    (((byte)&1 ? (a) : 0) ^ ((byte)&2 ? (b) : 0) ^ ((byte)&4 ? (c) : 0) ^   \
     ((byte)&8 ? (d) : 0) ^ ((byte)&16 ? (e) : 0) ^ ((byte)&32 ? (f) : 0) ^ \
     ((byte)&64 ? (g) : 0) ^ ((byte)&128 ? (h) : 0))
#define ROWS_4(byte, ...)                                       \
    ROW_OF(byte, __VA_ARGS__), ROW_OF((byte) + 1, __VA_ARGS__), \
        ROW_OF((byte) + 2, __VA_ARGS__), ROW_OF((byte) + 3, __VA_ARGS__)
#define ROWS_16(byte, ...)                                      \
    ROWS_4(byte, __VA_ARGS__), ROWS_4((byte) + 4, __VA_ARGS__), \
        ROWS_4((byte) + 8, __VA_ARGS__), ROWS_4((byte) + 12, __VA_ARGS__)
#define ROWS_64(byte, ...)                                         \
    ROWS_16(byte, __VA_ARGS__), ROWS_16((byte) + 16, __VA_ARGS__), \
        ROWS_16((byte) + 32, __VA_ARGS__), ROWS_16((byte) + 48, __VA_ARGS__)
#define SLICE(...)                                                                \
    ROWS_64(0, __VA_ARGS__), ROWS_64(64, __VA_ARGS__), ROWS_64(128, __VA_ARGS__), \
        ROWS_64(192, __VA_ARGS__)

static const uint32_t table[8][256] = {
    { SLICE(0xf26b8303u, 0xe13b70f7u, 0xc79a971fu, 0x8ad958cfu, 0x105ec76fu, 0x20bd8edeu,
            0x417b1dbcu, 0x82f63b78u) },
    { SLICE(0x13a29877u, 0x274530eeu, 0x4e8a61dcu, 0x9d14c3b8u, 0x3fc5f181u, 0x7f8be302u,
            0xff17c604u, 0xfbc3faf9u) },
    { SLICE(0xa541927eu, 0x4f6f520du, 0x9edea41au, 0x38513ec5u, 0x70a27d8au, 0xe144fb14u,
            0xc76580d9u, 0x8b277743u) },
    { SLICE(0xdd45aab8u, 0xbf672381u, 0x7b2231f3u, 0xf64463e6u, 0xe964b13du, 0xd725148bu,
            0xaba65fe7u, 0x52a0c93fu) },
    { SLICE(0x38116facu, 0x7022df58u, 0xe045beb0u, 0xc5670b91u, 0x8f2261d3u, 0x1ba8b557u,
            0x37516aaeu, 0x6ea2d55cu) },
    { SLICE(0xef306b19u, 0xdb8ca0c3u, 0xb2f53777u, 0x6006181fu, 0xc00c303eu, 0x85f4168du,
            0x0e045bebu, 0x1c08b7d6u) },
    { SLICE(0x68032cc8u, 0xd0065990u, 0xa5e0c5d1u, 0x4e2dfd53u, 0x9c5bfaa6u, 0x3d5b83bdu,
            0x7ab7077au, 0xf56e0ef4u) },
    { SLICE(0x493c7d27u, 0x9278fa4eu, 0x211d826du, 0x423b04dau, 0x847609b4u, 0x0d006599u,
            0x1a00cb32u, 0x34019664u) },
};

static uint64_t load_le64(const unsigned char *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(value) : value;
}

uint32_t crc32c_by_table(uint32_t crc, struct view bytes)
{
    const unsigned char *at = (const unsigned char *)bytes.data;
    size_t left = bytes.size;
    crc = ~crc;
    for (; left >= 8; left -= 8, at += 8) {
        uint64_t word = load_le64(at) ^ crc;
        crc = 0;
        for (int i = 0; i < 8; i++)
            crc ^= table[7 - i][word >> (8 * i) & 255];
    }
    for (; left > 0; left--, at++)
        crc = (crc >> 8) ^ table[0][(crc ^ *at) & 255];
    return ~crc;
}

/* The product of two polynomials modulo that of the checksum. Bit 31 is the coefficient of 1, as in
 * a checksum. */
static uint32_t multiply_polynomials(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = UINT32_C(1) << 31; bit != 0; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = (b >> 1) ^ (b & 1 ? POLYNOMIAL : 0);
    }
    return product;
}

#if defined(__aarch64__)

static bool have_instruction(void)
{
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
}

static uint32_t crc_of_word(uint32_t crc, uint64_t word)
{
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(crc) : "r"(word));
    return crc;
}

#elif defined(__x86_64__)

/* Asked when it is first needed: in a virtual machine, the question takes tens of microseconds, and
 * __builtin_cpu_supports asks several when the program starts. */
static bool have_instruction(void)
{
    static atomic_int answer; /* 0: not asked yet; 1: no; 2: yes */
    unsigned a, b, c, d;
    if (atomic_load_explicit(&answer, memory_order_relaxed) == 0)
        atomic_store_explicit(&answer,
                              __get_cpuid(1, &a, &b, &c, &d) && (c & bit_SSE4_2) ? 2 : 1,
                              memory_order_relaxed);
    return atomic_load_explicit(&answer, memory_order_relaxed) == 2;
}

static uint32_t crc_of_word(uint32_t crc, uint64_t word)
{
    uint64_t wide = crc;
    __asm__("crc32q %1, %0" : "+r"(wide) : "r"(word));
    return (uint32_t)wide;
}

#endif

#if defined(__aarch64__) || defined(__x86_64__)

/* Three lanes of this many bytes are computed at the same time, because the instruction can start
 * again before its last result is there. They are then combined as in crc32c_combine. */
#define LANE_BYTES 4096
#define LANE_POWER 0x35d73a62u /* x^8 to the power of LANE_BYTES */

static uint32_t crc_of_lanes(uint32_t crc, const unsigned char *bytes)
{
    uint32_t first = ~crc, second = ~0u, third = ~0u;
    for (size_t at = 0; at < LANE_BYTES; at += 8) {
        first = crc_of_word(first, load_le64(bytes + at));
        second = crc_of_word(second, load_le64(bytes + LANE_BYTES + at));
        third = crc_of_word(third, load_le64(bytes + 2 * LANE_BYTES + at));
    }
    crc = multiply_polynomials(LANE_POWER, ~first) ^ ~second;
    return multiply_polynomials(LANE_POWER, crc) ^ ~third;
}

uint32_t crc32c(uint32_t crc, struct view bytes)
{
    if (!have_instruction())
        return crc32c_by_table(crc, bytes);
    const unsigned char *data = (const unsigned char *)bytes.data;
    size_t in_words = bytes.size & ~(size_t)7, at = 0;
    for (; in_words - at >= 3 * LANE_BYTES; at += 3 * LANE_BYTES)
        crc = crc_of_lanes(crc, data + at);
    crc = ~crc;
    for (; at < in_words; at += 8)
        crc = crc_of_word(crc, load_le64(data + at));
    return crc32c_by_table(~crc, view_from(bytes, in_words));
}

#else

uint32_t crc32c(uint32_t crc, struct view bytes)
{
    return crc32c_by_table(crc, bytes);
}

#endif

uint32_t crc32c_combine(uint32_t first, uint32_t second, uint64_t second_size)
{
    /* Each byte that follows multiplies the first checksum by x^8. */
    uint32_t power = UINT32_C(1) << 31, square = UINT32_C(1) << (31 - 8);
    for (; second_size > 0; second_size >>= 1) {
        if (second_size & 1)
            power = multiply_polynomials(power, square);
        square = multiply_polynomials(square, square);
    }
    return multiply_polynomials(power, first) ^ second;
}

/* ---- Secrets ------------------------------------------------------------------------- */

bool hash_is_same_secret(const void *a, const void *b, size_t size)
{
    const unsigned char *one = a, *two = b;
    unsigned char differs = 0;
    for (size_t i = 0; i < size; i++)
        differs |= one[i] ^ two[i];
    return differs == 0;
}
