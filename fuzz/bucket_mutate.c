/* SPDX-License-Identifier: Apache-2.0 */
/* bucket_mutate.c: tells libFuzzer how to change a bucket of fuzz_bucket.c: one object at a
 * time, so the others stay valid. Half of the time a number in the object becomes too large,
 * too small, or a neighbour of a limit. */
#include "base/prng.h"
#include "base/view.h"
#include "fuzz.h"

#include <stdbool.h>

#define OBJECTS_MAX 64

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t size_max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed);

static const char *const numbers[] = { "0",
                                       "1",
                                       "-1",
                                       "2097151",
                                       "4294967295",
                                       "4294967296",
                                       "9007199254740993",
                                       "9007199254740992",
                                       "4611686018427387903",
                                       "9223372036854775",
                                       "9223372036854775807",
                                       "-9223372036854775808",
                                       "18446744073709551615",
                                       "18446744073709551616",
                                       "1e400",
                                       "null",
                                       "\"\"" };
#define NUMBERS (sizeof numbers / sizeof *numbers)

struct piece {
    size_t at, size;
};

/* The bytes of an object, by chance; of an input without one, all that follows the first byte. */
static struct piece choose_object(const uint8_t *data, size_t size, struct prng *prng)
{
    struct piece pieces[OBJECTS_MAX];
    size_t count = 0, start = 1;
    for (size_t i = 1; i < size && count < OBJECTS_MAX; i++) {
        if (data[i] == 0xfe)
            start = i + 1;
        if (data[i] == 0xff && i > start)
            pieces[count++] = (struct piece){ start, i - start };
    }
    if (count == 0)
        return (struct piece){ 1, size - 1 };
    return pieces[prng_below(prng, count)];
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

/* A random run of digits in the object; size 0 if there is none. */
static struct piece choose_number(const uint8_t *data, struct piece object, struct prng *prng)
{
    struct piece chosen = { 0, 0 };
    size_t seen = 0;
    for (size_t i = object.at; i < object.at + object.size;) {
        size_t end = i;
        while (end < object.at + object.size && is_digit(data[end]))
            end++;
        if (end > i && prng_below(prng, ++seen) == 0)
            chosen = (struct piece){ i, end - i };
        i = end > i ? end : i + 1;
    }
    return chosen;
}

/* Puts `bytes` in the place of a piece; returns the new size, or the old one without room. */
static size_t replace(uint8_t *data, size_t size, size_t size_max, struct piece piece,
                      struct view bytes)
{
    size_t end = piece.at + piece.size;
    if (size - piece.size + bytes.size > size_max)
        return size;
    memmove(data + piece.at + bytes.size, data + end, size - end);
    memcpy(data + piece.at, bytes.data, bytes.size);
    return size - piece.size + bytes.size;
}

/* libFuzzer's own changes, of the object alone. */
static size_t mutate_object(uint8_t *data, size_t size, size_t size_max, struct piece object)
{
    static uint8_t space[1 << 16];
    size_t room = size_max - (size - object.size);
    if (object.size > sizeof space || size > size_max)
        return size;
    memcpy(space, data + object.at, object.size);
    size_t changed =
        LLVMFuzzerMutate(space, object.size, room < sizeof space ? room : sizeof space);
    return replace(data, size, size_max, object, (struct view){ (const char *)space, changed });
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t size_max, unsigned seed)
{
    struct prng prng = prng_seeded(seed);
    if (size < 2 || prng_below(&prng, 8) == 0)
        return LLVMFuzzerMutate(data, size,
                                size_max); /* of keys, parts, and where objects end */
    struct piece object = choose_object(data, size, &prng);
    struct piece number = choose_number(data, object, &prng);
    if (number.size == 0 || prng_below(&prng, 2) == 0)
        return mutate_object(data, size, size_max, object);
    return replace(data, size, size_max, number, view_of(numbers[prng_below(&prng, NUMBERS)]));
}
