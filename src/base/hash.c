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

static uint32_t table[8][256];

__attribute__((constructor)) static void make_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? POLYNOMIAL : 0);
        table[0][byte] = crc;
    }
    for (int slice = 1; slice < 8; slice++)
        for (uint32_t byte = 0; byte < 256; byte++)
            table[slice][byte] =
                (table[slice - 1][byte] >> 8) ^ table[0][table[slice - 1][byte] & 255];
}

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

static bool have_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
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
